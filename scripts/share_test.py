#!/usr/bin/env python3
# Many processes on one store, killed and started again at random. SPDX-License-Identifier: Apache-2.0
"""usage: python3 scripts/share_test.py [--rounds N] [--processes N] [--seed S] [--jobs J] [--seconds T] [--blind]
       [--crosstalk PATH]

Each round makes a new store, starts N processes of `crosstalk run` on it at once, kills some of them at random
moments (kill -9) and starts each again; every fourth round kills none. Exit code 0: every process that was not killed
ended with 0, each export equals that of an undisturbed run to the byte, no run was recorded twice in a round without
kills, and none more often than its kills allow (each takes one pack of one run with it). --jobs shares the rounds
among J of these tests side by side, with seeds S, S + 1, ... After T seconds no round begins, and the rounds that were
made are counted.

--blind: no process sees a lock (every flock succeeds, as on some network file systems), and `crosstalk compact` runs
again and again beneath those that train. In every second round claims cannot be kept either, so that heartbeats show
nobody: all train everything then, and no record is lost all the same. Needs a C compiler.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

STUDY = """
[study]
name  = "share_test"
seeds = { range = [1, 12] }
[base]
task.name       = "recall"
model.d_key     = 8
train.max_steps = 150
train.stop_loss = 0
train.patience  = 1000
eval.every      = 50
eval.sequences  = 8
[memories.softmax]
name = "softmax"
[memories.delta]
name = "delta"
[[grid]]
"task.associations" = [6, 10]
"""


BLIND = "int flock(int file, int operation) { (void)file; (void)operation; return 0; }\n"


def blind_library(folder):
    """A library that hides all locks from whoever is started with it."""
    source, library = os.path.join(folder, "blind.c"), os.path.join(folder, "blind.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(BLIND)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", source, "-o", library], check=True)
    return library


class Compacting(threading.Thread):
    """Compacts a store again and again until it is stopped."""

    def __init__(self, words, environment):
        super().__init__()
        self.words, self.environment, self.ends = words, environment, threading.Event()
        self.times, self.codes, self.errors = 0, set(), ""

    def run(self):
        while not self.ends.wait(0.02):
            done = subprocess.run(self.words, capture_output=True, text=True, env=self.environment, check=False)
            if done.returncode == 2:  # there is no store yet
                continue
            self.times += 1
            self.codes.add(done.returncode)
            if done.returncode != 0:
                self.errors += done.stderr

    def stop(self):
        self.ends.set()
        self.join()


def side_by_side(options):
    jobs = min(options.jobs, options.rounds)
    children = []
    for job in range(jobs):
        rounds = options.rounds // jobs + (job < options.rounds % jobs)
        words = [sys.executable, os.path.abspath(__file__), "--rounds", str(rounds), "--seed", str(options.seed + job)]
        words += ["--seconds", str(options.seconds)]
        words += ["--processes", str(options.processes), "--crosstalk", options.crosstalk]
        words += ["--blind"] if options.blind else []
        children.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    begin, totals = time.monotonic(), {}
    for child in children:
        output = child.communicate()[0]
        print(output, end="", flush=True)
        last = output.rstrip().rsplit("\n", 1)[-1]
        if child.returncode == 0 and "passed" in last:
            for number, word in re.findall(r"(\d+) (rounds|kills|runs|recorded twice|times compacted)", last):
                totals[word] = totals.get(word, 0) + int(number)
    failed = sum(child.returncode != 0 for child in children)
    counted = ", ".join(f"{number} {word}" for word, number in totals.items()) or "nothing"
    print(f"share_test: {jobs} jobs, {failed} failed; the others: {counted}; {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=True)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--crosstalk", default=os.path.join(root, "build/cpu/crosstalk"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--blind", action="store_true")
    options = parser.parse_args()
    if options.jobs > 1:
        return side_by_side(options)
    program = os.path.abspath(options.crosstalk)
    dice = random.Random(options.seed)
    print(f"share_test: seed {options.seed}, {options.rounds} rounds of {options.processes} processes", flush=True)
    environment = dict(os.environ, OMP_NUM_THREADS="1")

    def call(*words):
        return subprocess.run([program, *words], check=True, capture_output=True, env=environment).stdout

    # In memory where that is possible: thousands of records are synced.
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="crosstalk_share_", dir=base)
    totals = {"kills": 0, "twice": 0, "runs": 0, "compacted": 0}
    try:
        study = os.path.join(folder, "study.toml")
        with open(study, "w", encoding="utf-8") as file:
            file.write(STUDY)
        blind = blind_library(folder) if options.blind else ""
        begin = time.monotonic()
        undisturbed = os.path.join(folder, "undisturbed")
        call("run", study, "--out", undisturbed, "--quiet")
        span = time.monotonic() - begin
        expected = [call("export", undisturbed), call("export", undisturbed, "--curves")]
        runs = expected[0].count(b"\n") - 1

        rounds, end = 0, time.monotonic() + options.seconds
        for number in range(options.rounds):
            if time.monotonic() > end:
                break
            store = os.path.join(folder, f"store{number}")
            log = os.path.join(folder, "log")
            words = [program, "run", study, "--out", store, "--threads", "1", "--quiet"]
            seen = environment
            has_claims = not options.blind or number % 2 == 0
            if options.blind:
                seen = dict(environment, LD_PRELOAD=blind)
                if not has_claims:
                    os.mkdir(store)
                    for name, text in (("store.json", '{"format":1}\n'), ("claims", "in the place of the folder\n")):
                        with open(os.path.join(store, name), "w", encoding="utf-8") as file:
                            file.write(text)
                compacting = Compacting([program, "compact", store], seen)
                compacting.start()

            def start():
                with open(log, "ab") as errors:
                    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors, env=seen)

            processes = [start() for _ in range(options.processes)]
            planned = [] if number % 4 == 3 else sorted(dice.uniform(0, 1.3 * span) for _ in range(dice.randint(1, 12)))
            begin, kills = time.monotonic(), 0
            for moment in planned:
                time.sleep(max(0, moment - (time.monotonic() - begin)))
                victim = dice.randrange(len(processes))
                processes[victim].send_signal(signal.SIGKILL)
                if processes[victim].wait() == -signal.SIGKILL:
                    kills += 1
                    processes[victim] = start()
                elif processes[victim].returncode != 0:
                    break
            codes = []
            for process in processes:
                try:
                    codes.append(process.wait(timeout=120))
                except subprocess.TimeoutExpired:
                    codes.append("hangs")
                    process.kill()
            compacts = set()
            if options.blind:
                compacting.stop()
                compacts = compacting.codes
                totals["compacted"] += compacting.times
            got = [call("export", store), call("export", store, "--curves")]
            twice = json.loads(call("status", store, "--json"))["duplicates"]
            totals["kills"] += kills
            totals["twice"] += twice
            totals["runs"] += runs
            problem = ""
            if any(code != 0 for code in codes):
                problem = f"exit codes {codes}"
            elif got != expected:
                problem = "the export differs from the undisturbed one"
            elif compacts - ({0} if has_claims else {0, 3}):
                problem = f"compact ended with {compacts}: {compacting.errors}"
            elif has_claims and twice > kills:
                problem = f"{twice} runs were recorded twice, with {kills} kills"
            if problem:
                with open(log, encoding="utf-8") as file:
                    sys.stderr.write(file.read())
                print(f"share_test: FAILED in round {number} (seed {options.seed}): {problem}", file=sys.stderr)
                return 1
            shutil.rmtree(store)
            rounds += 1
        print(
            f"share_test: passed: {rounds} rounds, {totals['kills']} kills, {totals['runs']} runs: none lost, "
            f"none wrong, {totals['twice']} recorded twice"
            + (f", {totals['compacted']} times compacted" if options.blind else "")
        )
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
