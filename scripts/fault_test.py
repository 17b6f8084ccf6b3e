"""Throws faults at the program, kind by kind, and says of each how many were tried and how many it survived.

usage: python3 scripts/fault_test.py [--seed S] [--minutes M] [--build FOLDER] [--only 1,5,16]

Survived means: the documented exit code, no hang, no record lost or invented, and the same command then comes to an
export that is equal to the byte to that of an undisturbed study. The seed is printed; with it the same faults come
at about the same moments. What a machine cannot do (no root, no GPU, no faketime) is skipped with its reason. Each
kind stops when its share of the time is over, so that all of them stay below M minutes (default 22).
Exit code 0: all survived. Run by `bash scripts/test.sh --faults`.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import contextlib
import csv
import glob
import hashlib
import io
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMEOUT = 120  # of one command, in seconds: what takes longer hangs; it does not while it waits for a busy machine's cores
STUDY = """[study]
name  = "faults"
seeds = {{ range = [1, {seeds}] }}
[base]
task.name       = "recall"
model.d_key     = 8
train.max_steps = {steps}
train.stop_loss = 0
train.patience  = 1000
eval.every      = 50
eval.sequences  = 8
[memories.softmax]
name = "softmax"
[memories.linear]
name = "linear_attention"
[memories.delta]
name = "delta"
[[grid]]
"task.associations" = [4, 6, 8]
"""
# Lets the n-th call of one kind, on a path that holds FAULT_PATH, fail once.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static int due(const char* call, const char* path) {
  static int count = 0;
  const char* wanted = getenv("FAULT_CALL");
  if (!wanted || strcmp(wanted, call) != 0 || !path || !strstr(path, getenv("FAULT_PATH"))) return 0;
  if (__atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) != atoi(getenv("FAULT_N"))) return 0;
  int mark = open(getenv("FAULT_MARK"), O_WRONLY | O_CREAT, 0600);
  if (mark >= 0) close(mark);
  if (getenv("FAULT_KILL")) kill(getpid(), 9);
  errno = atoi(getenv("FAULT_ERRNO"));
  return 1;
}
static const char* path_of(int file, char* buffer) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t n = readlink(link, buffer, 4000);
  if (n < 0) return NULL;
  buffer[n] = 0;
  return buffer;
}
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_FILE(type, name, params, args) \
  type name params { char b[4001]; if (due(#name, path_of(file, b))) return -1; return REAL(name) args; }
ON_FILE(ssize_t, write, (int file, const void* p, size_t n), (file, p, n))
ON_FILE(ssize_t, read, (int file, void* p, size_t n), (file, p, n))
ON_FILE(int, fsync, (int file), (file))
ON_FILE(int, fdatasync, (int file), (file))
ON_FILE(int, ftruncate, (int file, off_t n), (file, n))
ON_FILE(int, flock, (int file, int how), (file, how))
int flock(int, int);
int kill(int, int);
int rename(const char* a, const char* b) { if (due("rename", b)) return -1; return REAL(rename)(a, b); }
int unlink(const char* a) { if (due("unlink", a)) return -1; return REAL(unlink)(a); }
int mkdir(const char* a, mode_t m) { if (due("mkdir", a)) return -1; return REAL(mkdir)(a, m); }
int symlink(const char* a, const char* b) { if (due("symlink", b)) return -1; return REAL(symlink)(a, b); }
static int open_any(const char* name, const char* a, int flags, mode_t m) {
  if (due("open", a)) return -1;
  int (*real)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, name);
  return real(a, flags, m);
}
int open(const char* a, int flags, ...) {
  va_list l; va_start(l, flags); mode_t m = va_arg(l, mode_t); va_end(l); return open_any("open", a, flags, m);
}
int open64(const char* a, int flags, ...) {
  va_list l; va_start(l, flags); mode_t m = va_arg(l, mode_t); va_end(l); return open_any("open64", a, flags, m);
}
"""


class Skip(Exception):
    """Why a kind of fault cannot be tried here."""


def crc32c(data, table=[]):
    if not table:
        for i in range(256):
            for _ in range(8):
                i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
            table.append(i)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def sealed(record):
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    return f'{text[:-1]},"crc":"{crc32c(text.encode()):08x}"}}\n'


def sealed_copies(record, count):
    """The record, sealed, with the ids ct-0, ct-1, ... of 32 digits. A checksum is linear: what a digit of an id changes
    in it is found once, not for each of 100,000 records (which took Python 17 s)."""
    record["id"] = f"ct-{0:032x}"
    head, tail = json.dumps(record, separators=(",", ":"), ensure_ascii=False).split(record["id"])
    zero = crc32c((head + record["id"] + tail).encode())
    places = len(f"{count - 1:x}")
    change = []  # [place from the right][digit]
    for place in range(places):
        ids = [f"ct-{digit << 4 * place:032x}" for digit in range(16)]
        change.append({name[-1 - place]: zero ^ crc32c((head + name + tail).encode()) for name in ids})
    for i in range(count):
        name, crc = f"ct-{i:032x}", zero
        for place in range(places):
            crc ^= change[place][name[-1 - place]]
        yield f'{head}{name}{tail[:-1]},"crc":"{crc:08x}"}}\n'


def genuine(got, expected):
    """Whether every row of an export is one of another; columns that no row fills are left out of a smaller one."""
    rows = [{row["id"]: {key: value for key, value in row.items() if key and value}
             for row in csv.DictReader(io.StringIO(text.split(b"id,step,")[0].decode(errors="replace")))}
            for text in (got, expected)]
    return all(id in rows[1] and row == {key: rows[1][id].get(key) for key in row} for id, row in rows[0].items())


def waited_for_cores(process):
    """How long the process or one below it has stood in line for a core, in seconds."""
    parents, waited = {}, 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = pathlib.Path(path).read_text().rpartition(")")[2].split()
            parents[int(path.split("/")[2])] = int(fields[1])
    for number in parents:
        above = number
        while above not in (process, 0) and above in parents:
            above = parents[above]
        if above != process:
            continue
        for path in glob.glob(f"/proc/{number}/task/*/schedstat"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                waited = max(waited, int(pathlib.Path(path).read_text().split()[1]) / 1e9)
    return waited


class Faults:
    """One fresh folder, an undisturbed store to compare with, and a count of what was tried."""

    def __init__(self, arguments):
        self.random = random.Random(arguments.seed)
        self.build = pathlib.Path(arguments.build).resolve()
        self.program = str(self.build / "crosstalk")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="crosstalk_faults_"))
        os.chdir(self.folder)
        self.environment = dict(os.environ, OMP_NUM_THREADS="1")
        self.expected = {}
        self.study("small", 2, 150)
        self.study("large", 6, 400)
        self.deadline, self.tried, self.passed, self.failures = 0.0, 0, 0, []
        self.stores = 0

    def study(self, name, seeds, steps):
        pathlib.Path(f"{name}.toml").write_text(STUDY.format(seeds=seeds, steps=steps))
        begin = time.monotonic()
        assert self.run("run", f"{name}.toml", "--out", f"whole_{name}", "--quiet").returncode == 0
        whole = time.monotonic() - begin
        self.expected[name] = (self.export(f"whole_{name}"), whole)

    def run(self, *words, shell=None, input=None, **options):
        """A command of the program; `shell`: a command line around it, in which "$@" stands for it."""
        command = [self.program, *map(str, words)]
        if shell:
            command = ["bash", "-c", shell, "-", *command]
        options.setdefault("env", self.environment)
        return self.call(command, input, **options)

    def call(self, command, input=None, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        if input is not None:
            options["stdin"] = subprocess.PIPE
        begin = time.monotonic()
        with subprocess.Popen(command, **options) as process:
            while True:
                try:
                    output, errors = process.communicate(input, timeout=max(5, TIMEOUT - (time.monotonic() - begin)))
                    return subprocess.CompletedProcess(command, process.returncode, output or b"", errors or b"")
                except subprocess.TimeoutExpired:
                    input = None  # it goes on with what it was given
                    took = time.monotonic() - begin
                    if took - waited_for_cores(process.pid) < TIMEOUT and took < 20 * TIMEOUT:
                        continue
                    process.kill()
                    output, errors = process.communicate()
                    return subprocess.CompletedProcess(command, "a hang", output or b"", errors or b"")

    def start(self, *words):
        return subprocess.Popen([self.program, *map(str, words)], env=self.environment, start_new_session=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def export(self, store):
        rows, curves = self.run("export", store), self.run("export", store, "--curves")
        return rows.stdout + curves.stdout if rows.returncode == curves.returncode == 0 else b""

    def new_store(self):
        self.stores += 1
        return f"store{self.stores}"

    def time_left(self):
        return time.monotonic() < self.deadline

    def while_time(self, *items):
        for item in items:
            if self.time_left():
                yield item

    def check(self, holds, what):
        self.tried += 1
        self.passed += bool(holds)
        if not holds:
            self.failures.append(what)
            print(f"    FAILED: {what}", file=sys.stderr, flush=True)
        return holds

    def completes(self, store, study="small"):
        """The same command without a fault comes to the undisturbed export."""
        again = self.run("run", f"{study}.toml", "--out", store, "--quiet")
        if again.returncode != 0:
            print(f"    again: {again.returncode}, {again.stderr.decode(errors='replace')[-1000:]}", file=sys.stderr)
        return again.returncode == 0 and self.export(store) == self.expected[study][0]

    def forget(self, store):
        shutil.rmtree(store, ignore_errors=True)

    def done_runs(self, store):
        try:
            return json.loads(self.run("status", store, "--json").stdout)["states"]["done"]
        except (ValueError, KeyError):
            return 0

    # The kinds, in the order of the list.

    def kill_at_random_moments(self):
        """kill -9 of the process, of its group, and after a stop, over one and several workers"""
        kills, store, before = 0, self.new_store(), 0
        while self.time_left() and kills < 200:
            workers = self.random.choice([[], ["--device", "cpu:all:2"], ["--threads", "2"]])
            process = self.start("run", "large.toml", "--out", store, "--quiet", *workers)
            time.sleep(self.random.uniform(0, self.expected["large"][1] / 3))
            how = self.random.choice(["process", "group", "stop"])
            if how == "stop":
                os.killpg(process.pid, signal.SIGSTOP)
                time.sleep(self.random.uniform(0, 0.2))
                os.killpg(process.pid, signal.SIGCONT)
            try:
                os.killpg(process.pid, signal.SIGKILL) if how == "group" else process.kill()
            except ProcessLookupError:
                pass
            code = process.wait()
            time.sleep(0.05)  # orphaned workers get their SIGTERM
            kills += code == -9
            after = self.done_runs(store)
            self.check(code in (0, -9) and after >= before, f"{how} killed: code {code}, {before} runs became {after}")
            before = after
            if code == 0:
                self.check(self.export(store) == self.expected["large"][0], "export of a killed study")
                self.forget(store)
                store, before = self.new_store(), 0
        self.check(self.completes(store, "large"), "a killed study comes to its end")
        return f"{kills} kills"

    def failing_system_calls(self):
        """the n-th write, fsync, rename, open, ... of the process fails, or the process dies there, for every n"""
        self.unit_tests("results/store_fault_test")
        if not shutil.which("cc"):
            raise Skip("no C compiler for the library that lets calls fail")
        pathlib.Path("shim.c").write_text("#include <signal.h>\n#include <sys/file.h>\n" + SHIM.replace(
            "int flock(int, int);\nint kill(int, int);\n", ""))
        subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", "shim.c", "-o", "shim.so", "-ldl"], check=True)
        calls = ["write", "fdatasync", "fsync", "rename", "open", "mkdir", "ftruncate", "flock", "read", "unlink",
                 "symlink"]
        work = [(call, n, kind) for n in range(1, 40) for call in calls for kind in ("28", "5", "kill")]
        fired_last = {}
        for call, n, kind in work:
            if not self.time_left():
                break
            if not fired_last.get((call, n - 1, kind), n == 1):
                continue
            store, mark = self.new_store(), "fired"
            pathlib.Path(mark).unlink(missing_ok=True)
            environment = dict(self.environment, LD_PRELOAD=os.path.abspath("shim.so"), FAULT_CALL=call,
                               FAULT_N=str(n), FAULT_ERRNO="5" if kind == "kill" else kind, FAULT_PATH="/" + store,
                               FAULT_MARK=os.path.abspath(mark))
            if kind == "kill":
                environment["FAULT_KILL"] = "1"
            result = self.run("run", "small.toml", "--out", os.path.abspath(store), "--quiet", env=environment)
            fired_last[(call, n, kind)] = os.path.exists(mark)
            if not os.path.exists(mark):
                self.forget(store)
                continue
            good = result.returncode in ((-9,) if kind == "kill" else (0, 2, 3))
            self.check(good and self.completes(store),
                       f"{call} number {n}, {kind}: exit code {result.returncode}, {result.stderr[-200:]}")
            self.forget(store)
        return ""

    def full_disks(self):
        """a full disk, a file size limit, full logs; after that the same command finishes"""
        for kilobytes in (1, 4, 8, 16):
            store = self.new_store()
            result = self.run("run", "small.toml", "--out", store, "--quiet", shell=f'ulimit -f {kilobytes}; exec "$@"')
            self.check(result.returncode in (0, 3) and self.completes(store),
                       f"ulimit -f {kilobytes}: {result.returncode}")
        for redirect in ("2>/dev/full", ">/dev/full"):
            store = self.new_store()
            result = self.run("run", "small.toml", "--out", store, shell=f'"$@" {redirect}')
            self.check(result.returncode in (0, 3) and self.export(store) == self.expected["small"][0], redirect)
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True).returncode:
            return "no tmpfs without root: by limits only"
        try:
            for free in (0, 1, 8, 20, 40):
                (disk / "fill").write_bytes(bytes((256 - 8 - free) * 1024))
                result = self.run("run", "small.toml", "--out", disk / "store", "--quiet")
                full = result.returncode
                (disk / "fill").unlink()
                self.check(full in (0, 2, 3) and self.completes(disk / "store"), f"{free} KB free: {full}")
                shutil.rmtree(disk / "store", ignore_errors=True)
        finally:
            subprocess.run(["umount", disk], check=True)
        return ""

    def several_writers(self):
        """two and eight processes at once on one store; two results of one run are told"""
        for round_ in range(100):
            if not self.time_left():
                break
            store, count = self.new_store(), (2, 8)[round_ % 2]
            processes = [self.start("run", "small.toml", "--out", store, "--quiet") for _ in range(count)]
            codes = [process.wait() for process in processes]
            self.check(codes == [0] * count and self.export(store) == self.expected["small"][0],
                       f"{count} writers: {codes}")
            self.forget(store)
        store = self.new_store()
        shutil.copytree("whole_small", store)
        lines = pathlib.Path(glob.glob(f"{store}/shards/*.jsonl")[0]).read_text().splitlines()
        record = json.loads(lines[0])
        del record["crc"]
        record["eval_loss"] = 0.123
        pathlib.Path(store, "shards", "other.jsonl").write_text(sealed(record))
        told = self.run("status", store)
        self.check(told.returncode == 0 and b"differ" in told.stderr, "two results of one run are told")
        return ""

    def damaged_files(self):
        """bytes flipped, cut, doubled, zeroed, in every file of a store"""
        self.unit_tests("results/store_test", "StoreDamage*")
        while self.time_left() and self.tried < 400:
            store = self.new_store()
            shutil.copytree("whole_small", store, symlinks=True)
            files = [path for path in pathlib.Path(store).rglob("*") if path.is_file() and not path.is_symlink()]
            path = self.random.choice(files)
            data = bytearray(path.read_bytes())
            at = self.random.randrange(len(data) + 1)
            how = self.random.choice(["flip", "cut", "double", "zero", "crlf", "empty", "insert"])
            if how == "flip" and at < len(data):
                data[at] ^= 1 << self.random.randrange(8)
            elif how == "cut":
                del data[at:]
            elif how == "double":
                data[at:at] = data[max(0, at - 700):at]
            elif how == "zero":
                data[at:] = bytes(self.random.randrange(4096))
            elif how == "crlf":
                data = data.replace(b"\n", b"\r\n")
            elif how == "empty":
                data = bytearray()
            elif how == "insert":
                data[at:at] = self.random.randbytes(20)
            path.write_bytes(data)
            read = self.run("export", store)
            rows = genuine(read.stdout, self.expected["small"][0])
            # A mark of another format may come out of a flipped digit: refused, as a newer program's store is.
            refused = read.returncode == 2 and path.name == "store.json"
            mended = refused or self.completes(store)
            self.check((refused or read.returncode == 0) and rows and mended,
                       f"{how} at {at} of {path}: {read.returncode}, rows {rows}, mended {mended}")
            self.forget(store)
        return ""

    def divergence(self):
        """runs that diverge, each beside others in one pack: the others are unchanged to the bit"""
        text = pathlib.Path("small.toml").read_text()
        base = text[:text.index("[memories.")].replace("= 150", "= 40").replace("= 50", "= 20")
        base = base.replace("[1, 2]", "[1, 6]") + "model.embedding = 5\n"
        exploding = 'name = "delta"\nfeature_map = "identity"\nkey_norm = "none"\nbeta_max = 2\n'
        grid = '[[grid]]\n"task.associations" = [30]\n"train.learning_rate" = [1e-4, 10.0]\n'
        pathlib.Path("calm.toml").write_text(f"{base}[memories.m]\n{exploding}{grid}".replace(", 10.0]", "]"))
        pathlib.Path("both.toml").write_text(f"{base}[memories.m]\n{exploding}{grid}")
        self.run("run", "calm.toml", "--out", "calm", "--quiet", "--pack", 1)
        calm = set(self.run("export", "calm").stdout.splitlines()[1:])
        for pack in (1, 2, 3, 5, 7, 64):
            store = self.new_store()
            self.run("run", "both.toml", "--out", store, "--quiet", "--pack", pack)
            rows = self.run("export", store).stdout.splitlines()[1:]
            diverged = [row for row in rows if b",diverged," in row]
            for row in calm:
                self.check(row in rows, f"a run beside a diverging one, pack {pack}")
            self.check(len(calm) == 6 and len(rows) == 12 and len(diverged) == 6, f"{len(diverged)} diverged, pack {pack}")
        return f"{len(diverged)} of 12 diverged"

    def out_of_memory(self):
        """address space that does not suffice"""
        for megabytes in (60, 80, 100, 150, 200, 300, 500):
            store = self.new_store()
            result = self.run("run", "small.toml", "--out", store, "--quiet", "--threads", 4,
                              shell=f'ulimit -v {megabytes * 1024}; exec "$@"')
            if result.returncode == 127 or b"shared librar" in result.stderr:
                continue  # not even the libraries fit
            self.run("retry", "small.toml", "--out", store, "--quiet")
            self.check(result.returncode in (0, 1, 4) and self.completes(store),
                       f"{megabytes} MB: {result.returncode} {result.stderr[-200:]}")
        return "CPU only; cudaMalloc is not tried here"

    def lost_devices(self):
        """devices that are not there; a worker that is lost"""
        for device, hidden in (("cuda", ""), ("cuda:0", ""), ("cuda:99", None), ("cuda:all", "")):
            store = self.new_store()
            environment = dict(self.environment, **({} if hidden is None else {"CUDA_VISIBLE_DEVICES": hidden}))
            result = self.run("run", "small.toml", "--out", store, "--device", device, env=environment)
            self.check(result.returncode in (2, 4) and not os.path.exists(store), f"{device}: {result.returncode}")
        for _ in range(20):
            if not self.time_left():
                break
            store = self.new_store()
            process = self.start("run", "large.toml", "--out", store, "--quiet", "--device", "cpu:all:3")
            time.sleep(self.random.uniform(0.05, self.expected["large"][1] / 3))
            children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
            with contextlib.suppress(ProcessLookupError, IndexError):  # it may just have ended
                os.kill(int(self.random.choice(children)), signal.SIGKILL)
            code = process.wait()
            self.check(code == 0 and self.export(store) == self.expected["large"][0], f"a lost worker: {code}")
            self.forget(store)
        return "no GPU errors"

    def wrong_configurations(self):
        """studies that make no sense: exit 2, the place named, nothing created"""
        good = pathlib.Path("small.toml").read_text()
        changes = {
            "unknown key": ("task.name ", "task.nam "), "wrong type": ("= 150", '= "many"'),
            "out of range": ("= 8\ntrain", "= -8\ntrain"), "empty axis": ("[4, 6, 8]", "[]"),
            "unequal zip": ("[[grid]]\n", '[[grid.zip]]\n"model.d_key" = [4, 8]\n"train.batch" = [1]\n[[grid]]\n'),
            "too many": ("[4, 6, 8]", "{ range = [1, 1000000000] }"), "duplicate": ("model.d_key ", "task.name "),
            "not ASCII": ("model.d_key ", "model.\u03bb "), "mark": ("[study]", "\ufeff[study]"),
            "not closed": ("[study]", "[study"), "NUL": ("faults", "fau\0ts"), "nan": ("= 150", "= nan"),
            "huge number": ("= 150", "= 99999999999999999999"), "deep": ("= 150", "= " + "[" * 5000),
            "dotted": ("= 150", "= 1\nx." + 'a."=".' * 15000 + "a = 1"), "long": ("[study]", "#" * 5000000 + "\n[study]"),
            "unknown memory": ('"delta"', '"dleta"'), "bare carriage return": ("[base]", "\r[base]"),
        }
        for what, (old, new) in changes.items():
            text = good.replace(old, new, 1)
            assert text != good, what
            pathlib.Path("wrong.toml").write_text(text)
            before = set(os.listdir("."))
            result = self.run("run", "wrong.toml", "--out", "never")
            place = result.stderr.startswith(b"wrong.toml:")
            self.check(result.returncode == 2 and place and set(os.listdir(".")) == before,
                       f"{what}: {result.returncode} {result.stderr[:200]}")
        os.mkfifo("pipe.toml")
        for path in (".", "/dev/null", "/dev/zero", "pipe.toml", "absent.toml", "/proc/self/mem"):
            result = self.run("run", path, "--out", "never")
            self.check(result.returncode == 2 and not os.path.exists("never"), f"{path}: {result.returncode}")
        for words in (["--set", "x"], ["--set", "train.batch="], ["--set", "seeds=range(1"], ["--threads", "0"],
                      ["--set", "a={" + "x." * 10000 + "x=1}"], ["--pack", "x"], ["--time-limit", "-1"],
                      ["--set", "\x1b[2J=1"], ["--device", "tpu"], ["--max-runs", "1"]):
            result = self.run("run", "small.toml", "--out", "never", *words)
            self.check(result.returncode == 2 and not os.path.exists("never"), f"{words}: {result.returncode}")
        pathlib.Path("crlf.toml").write_bytes(good.replace("\n", "\r\n").encode())
        self.check(self.run("plan", "crlf.toml").returncode == 0, "CRLF is a study")
        return ""

    def signals(self):
        """SIGTERM, INT, USR1, USR2, HUP at random moments: 75 within the grace, then the same command goes on"""
        store = self.new_store()
        while self.time_left() and self.tried < 150:
            process = self.start("run", "large.toml", "--out", store, "--quiet", *self.random.choice(
                [[], ["--device", "cpu:all:2"]]))
            time.sleep(self.random.uniform(0.02, self.expected["large"][1] / 2))
            one = self.random.choice([signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP])
            begin = time.monotonic()
            process.send_signal(one)
            code = process.wait()
            # Before it minds signals, a process may die of one; nothing is lost by that.
            self.check(code in (0, 75, -one) and time.monotonic() - begin < 30, f"{one.name}: {code}")
            if code == 0:
                self.check(self.export(store) == self.expected["large"][0], "export after signals")
                self.forget(store)
                store = self.new_store()
        self.check(self.completes(store, "large"), "the command after signals")
        return "Slurm is tried by its own test"

    def clocks(self):
        """the wall clock an hour ahead, behind, beyond 2038, in 1970, standing still"""
        if not shutil.which("faketime"):
            raise Skip("no faketime (apt install faketime)")
        for when in self.while_time("+1h", "-1h", "@2038-01-19 03:14:00", "@1970-01-02 00:00:00", "2025-01-01 00:00:00", "+30y x5"):
            store = self.new_store()
            first = self.start("run", "large.toml", "--out", store, "--quiet")
            command = ["faketime", "-f", when] if when[0] in "+-@" else ["faketime", when]
            environment = dict(self.environment, DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_FAKE_MONOTONIC="1")
            second = self.call([*command, self.program, "run", "large.toml", "--out", store, "--quiet"],
                               env=environment)
            codes = (first.wait(), second.returncode)
            self.check(codes == (0, 0) and self.export(store) == self.expected["large"][0], f"{when}: {codes}")
            self.forget(store)
        return ""

    def surroundings(self):
        """odd paths, links, closed descriptors, pipes, locales, masks, read-only stores"""
        def compare(what, store, result, codes=(0,)):
            same = self.export(store) == self.expected["small"][0]
            self.check(result.returncode in codes and same, f"{what}: {result.returncode} {result.stderr[-200:]}")

        for name in ("a b", "t\u00e4st", "new\nline", "-dash", "qu'ote\"", "$HOME", "x" * 200):
            store = os.path.abspath(name)
            compare(repr(name), store, self.run("run", "small.toml", "--out", store, "--quiet"))
        os.mkdir("target")
        os.symlink("target", "link")
        compare("a link", "link", self.run("run", "small.toml", "--out", "link", "--quiet"))
        for what in self.while_time("umask 077;", "unset HOME;", "exec <&-;", "exec >&-;", "exec 2>&-;", "exec <&- >&- 2>&-;",
                     "export LANG=C LC_ALL=C;", "export LC_ALL=de_DE.UTF-8;", "export TERM=dumb;",
                     "export NO_COLOR=1;", "unset PATH TERM LANG;", "cd /;", "ulimit -c 0;"):
            store = os.path.abspath(self.new_store())
            result = self.run("run", os.path.abspath("small.toml"), "--out", store, shell=what + ' exec "$@"')
            compare(what, store, result)
        store = self.new_store()
        compare("| head", store, self.run("run", "small.toml", "--out", store, shell='"$@" 2>&1 | head -c 1'))
        for how in ("moved", "deleted"):
            store = self.new_store()
            process = self.start("run", "large.toml", "--out", store, "--quiet")
            while not glob.glob(f"{store}/shards/*.jsonl") and process.poll() is None:
                time.sleep(0.01)
            os.rename(store, store + how)
            if how == "deleted":
                shutil.rmtree(store + how, ignore_errors=True)
            code = process.wait()
            self.check(code == 3 and not os.path.exists(store), f"a store {how} during a run: {code}")
            if how == "moved":
                self.check(self.completes(store + how, "large"), "a moved store goes on")
        if os.getuid() == 0 and shutil.which("setpriv"):
            os.chmod(self.folder, 0o755)
            nobody = 'exec setpriv --reuid=65533 --clear-groups "$@"'
            readable = self.run("status", "whole_small", shell=nobody).returncode
            written = self.run("run", "large.toml", "--out", "whole_small", shell=nobody).returncode
            fresh = self.run("run", "small.toml", "--out", "elsewhere", shell=nobody).returncode
            if readable != 126:
                self.check((readable, written, fresh) == (0, 2, 2), f"read-only: {readable}, {written}, {fresh}")
        return ""

    def resources(self):
        """limits on open files, processes, file size, and a store of 100,000 runs"""
        for limit in ("-n 12", "-n 20", "-f 2", "-f 100", "-s 512", "-t 600"):
            store = self.new_store()
            result = self.run("run", "small.toml", "--out", store, "--quiet", shell=f'ulimit {limit}; exec "$@"')
            self.check(result.returncode in (0, 2, 3, 4) and self.completes(store),
                       f"ulimit {limit}: {result.returncode}")
        line = pathlib.Path(glob.glob("whole_small/shards/*.jsonl")[0]).read_text().splitlines()[0]
        record = json.loads(line)
        del record["crc"]
        record["curves"], record["profiles"] = {}, {}
        os.makedirs("many/shards")
        shutil.copy("whole_small/store.json", "many/store.json")
        with open("many/shards/all.jsonl", "w", encoding="utf-8") as file:
            file.writelines(sealed_copies(record, 100000))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = self.run("status", "many", "--json")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.check(result.returncode == 0 and json.loads(result.stdout)["count"] == 100000, "100,000 runs are counted")
        self.check(seconds < 5 and after.ru_maxrss < 2 << 20, f"status of 100,000 runs: {seconds:.1f} s of CPU")
        return f"status of 100,000 runs: {seconds:.1f} s of CPU time (aim: 1 s)"

    def versions(self):
        """stores and records of another version: refused or left out, never changed"""
        for mark in ('{"format":2}', '{"format":0}', '{"format":99,"x":[]}'):
            store = self.new_store()
            shutil.copytree("whole_small", store)
            pathlib.Path(store, "store.json").write_text(mark)
            digest = self.digest(store)
            codes = [self.run(*words).returncode for words in (
                ["status", store], ["export", store], ["run", "large.toml", "--out", store])]
            self.check(codes == [2, 2, 2] and self.digest(store) == digest, f"{mark}: {codes}")
        store = self.new_store()
        shutil.copytree("whole_small", store)
        path = pathlib.Path(glob.glob(f"{store}/shards/*.jsonl")[0])
        records = [json.loads(line) for line in path.read_text().splitlines()]
        for record in records[:3]:
            del record["crc"]
            record["v"] = 2
        path.write_text("".join(sealed({k: v for k, v in record.items() if k != "crc"}) for record in records))
        result = self.run("status", store)
        told = result.stderr.count(b"version 2")
        kept = path.read_bytes()
        self.check(result.returncode == 0 and told == 3 and self.completes(store), f"records of version 2: {told} told")
        self.check(path.read_bytes() == kept, "records of another version stay where they are")
        return ""

    def digest(self, folder):
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}

    def determinism(self):
        """packs, threads, workers, orders and a kill: one export"""
        shuffled = pathlib.Path("small.toml").read_text().replace("[4, 6, 8]", "[8, 4, 6]")
        pathlib.Path("shuffled.toml").write_text(shuffled)
        for words in self.while_time(["--pack", 1], ["--pack", 7], ["--pack", 64], ["--threads", 1], ["--threads", 3],
                      ["--device", "cpu:all:2"], ["--device", "cpu:all:3", "--pack", 2], ["--threads", 8, "--pack", 3]):
            for study in ("small.toml", "shuffled.toml"):
                for kill in (False, True):
                    store = self.new_store()
                    if kill:
                        process = self.start("run", study, "--out", store, *words)
                        time.sleep(self.random.uniform(0, self.expected["small"][1]))
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
                    result = self.run("run", study, "--out", store, "--quiet", *words)
                    same = self.export(store) == self.expected["small"][0]
                    self.check(result.returncode == 0 and same, f"{words}, {study}, kill {kill}: {result.returncode}")
                    self.forget(store)
        return ""

    def soak(self):
        """several processes on one store, random faults at random moments, for the rest of the time"""
        store, processes, faults, finished = self.new_store(), [], 0, 0
        while self.time_left():
            while len(processes) < 3:
                processes.append(self.start("run", "large.toml", "--out", store, "--quiet"))
            time.sleep(self.random.uniform(0, 0.4))
            process, faults = self.random.choice(processes), faults + 1
            fault = self.random.choice(["kill", "term", "stop", "claims", "checkpoint", "torn"])
            if fault in ("kill", "term"):
                process.send_signal(signal.SIGKILL if fault == "kill" else signal.SIGTERM)
            elif fault == "stop":
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.1)
                process.send_signal(signal.SIGCONT)
            elif fault == "claims":
                shutil.rmtree(f"{store}/claims", ignore_errors=True)
            elif fault == "checkpoint":
                for path in glob.glob(f"{store}/checkpoints/*.state")[:1]:
                    try:
                        os.truncate(path, self.random.randrange(400))
                    except FileNotFoundError:
                        pass
            elif fault == "torn" and os.path.isdir(f"{store}/shards"):
                pathlib.Path(f"{store}/shards", f"torn-{faults}.jsonl").write_text('{"v":1,"id":"ct-')
            for process in [p for p in processes if p.poll() is not None]:
                processes = [other for other in processes if other is not process]
                self.check(process.returncode in (0, 75, -9, -15), f"soak: exit code {process.returncode}")
                if process.returncode == 0:
                    for other in processes:
                        other.wait()
                    processes = []
                    finished += 1
                    self.check(self.export(store) == self.expected["large"][0], "export after a soak")
                    self.forget(store)
                    store = self.new_store()
                    break  # the others that have ended belong to the same store
        for process in processes:
            process.kill()
            process.wait()
        self.check(self.completes(store, "large"), "the command after the soak")
        return f"{faults} faults, {finished} studies finished"

    def unit_tests(self, name, chosen="*"):
        """The GoogleTest programs that try what only they can reach, every case counted."""
        program = self.build / name
        if not program.exists():
            return
        report = self.folder / "report.json"
        subprocess.run([program, f"--gtest_filter={chosen}", f"--gtest_output=json:{report}"], capture_output=True,
                       timeout=600, env=self.environment)
        for suite in json.loads(report.read_text())["testsuites"]:
            for case in suite["testsuite"]:
                self.check("failures" not in case and case["result"] != "SKIPPED", f"{name} {case['name']}")


KINDS = [  # in the order of the list, with their share of the time
    ("kill -9", Faults.kill_at_random_moments, 5), ("failing system calls", Faults.failing_system_calls, 5),
    ("full disks", Faults.full_disks, 1), ("several writers", Faults.several_writers, 1.5),
    ("damaged files", Faults.damaged_files, 3), ("divergence", Faults.divergence, 1),
    ("out of memory", Faults.out_of_memory, 1), ("lost devices", Faults.lost_devices, 1.5),
    ("wrong configurations", Faults.wrong_configurations, 1), ("signals", Faults.signals, 2),
    ("clocks", Faults.clocks, 0.5), ("surroundings", Faults.surroundings, 1), ("resources", Faults.resources, 1),
    ("versions", Faults.versions, 0.5), ("determinism", Faults.determinism, 1), ("soak", Faults.soak, 2)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=22)
    parser.add_argument("--build", default=str(ROOT / "build" / "cpu"))
    parser.add_argument("--only", default="", help="numbers of kinds, with commas")
    arguments = parser.parse_args()
    only = [int(number) for number in arguments.only.split(",") if number]
    print(f"fault_test: seed {arguments.seed}", flush=True)
    faults = Faults(arguments)
    chosen = [(i, kind) for i, kind in enumerate(KINDS, 1) if not only or i in only]
    shares = sum(kind[2] for _, kind in chosen)
    print(f"{'':2} {'fault':<22} {'tried':>6} {'passed':>6}  {'s':>4}", flush=True)
    tried = failed = 0
    for number, (name, kind, share) in chosen:
        faults.tried = faults.passed = 0
        begin = time.monotonic()
        faults.deadline = begin + 60 * arguments.minutes * share / shares
        try:
            detail = kind(faults)
        except Skip as reason:
            detail = f"skipped: {reason}"
        except Exception as error:  # of this script: what it would have tried counts as failed
            detail = repr(error)
            faults.check(False, f"{name}: {detail}")
        seconds = time.monotonic() - begin
        tried, failed = tried + faults.tried, failed + faults.tried - faults.passed
        print(f"{number:2} {name:<22} {faults.tried:6} {faults.passed:6}  {seconds:4.0f}  {detail}", flush=True)
    os.chdir("/")
    if failed == 0:
        shutil.rmtree(faults.folder, ignore_errors=True)
    print(f"fault_test: {tried} faults, {tried - failed} survived, seed {arguments.seed}"
          + (f"; what is left lies in {faults.folder}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
