#!/usr/bin/env python3
# A study on a real Slurm of two nodes, undisturbed and disturbed. SPDX-License-Identifier: Apache-2.0
"""usage: python3 scripts/slurm_test.py [--crosstalk PATH] [--python PYTHON] [--only python] [--keep]

Starts Slurm (slurmctld and two slurmd on this machine, as this user, without a database, munge or systemd; installs the
Debian package slurm-wlm where it may) and has `crosstalk submit slurm` train a study of 400 runs with an array of 4
workers: once undisturbed; once with preemption, a lost node (slurmd and all of its steps killed), the end of the time
and `scontrol requeue` in the middle. Slurm takes its time for each of these, so the second study is as long as this
machine needs: by what the first took, and longer once more where it was over before its faults were. With --python, which has
torch, pandas and the package, a PyTorch memory is trained beside three built-in ones on both nodes, and its table read in pandas
(--only python: nothing else). Exit code 0: both
exports equal that of one process to the byte, nothing was recorded twice without a fault, with faults no more than was
in flight. 77: skipped, with the reason.
"""
import argparse
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIP = 77
CALM_STEPS = 6000
FAULTS_TAKE = 120  # seconds, about; mostly Slurm's: it preempts after 10 to 40, misses a node after 10 to 30
STUDY = """
[study]
name  = "{name}"
seeds = {{ range = [1, 50] }}
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
[memories.delta]
name = "delta"
[[grid]]
"task.associations" = [4, 6, 8, 10]
"""
MEAN = """
import crosstalk as ct
import torch


class Mean(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value, self.gate = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, x):
        return self.gate(x).sigmoid() * self.value(x).cumsum(-2)


class Model(ct.torch.LanguageModel):
    def __init__(self, config):
        super().__init__(config, mixer=lambda width, layer: Mean(width))
"""
BESIDE = """
[study]
name  = "beside"
seeds = [1, 2]
[base]
task.name       = "mqar"
task.vocabulary = 64
task.length     = 32
task.pairs      = 4
model.name      = "language"
model.width     = 32
train.max_steps = 300
eval.every      = 100
[memories.mean]
name   = "python"
source = "mean.py:Model"
[memories.delta]
name = "deltanet"
[memories.softmax]
name = "softmax"
[memories.retnet]
name = "retnet"
[[grid]]
"train.learning_rate" = [3e-3, 1e-2]
"""
READ = """
import sys
import crosstalk as ct
store = sys.argv[1]
frame = ct.read(store, lib="pandas")
print(*sorted(f"{label} {len(of)}" for label, of in frame.groupby("label", observed=True)))
table = ct.table("final", store, metric="test_accuracy", best="train.learning_rate")
assert sorted(table.label) == ["delta", "mean", "retnet", "softmax"], table
print(table.to_string(index=False), file=sys.stderr)
"""
CONF = """
ClusterName=crosstalk
SlurmctldHost={host}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmctldPort={port}
SlurmdTimeout=10
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=20
NodeName=n1 NodeHostname={host} Port={port1} CPUs=2
NodeName=n2 NodeHostname={host} Port={port2} CPUs=2
PartitionName=low Nodes=n1,n2 Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=15 MaxTime=INFINITE
PartitionName=high Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE
"""


class Skipped(Exception):
    pass


class TooShort(Exception):
    """The study was over before its faults were."""


def say(text):
    print(f"slurm_test: {text}", flush=True)


def find_slurm():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if shutil.which("slurmctld") and shutil.which("slurmd") and shutil.which("sbatch"):
        return
    if not shutil.which("apt-get"):
        raise Skipped("Slurm is not installed, and there is no apt-get to install it")
    sudo = [] if os.getuid() == 0 else ["sudo", "-n"]
    if sudo and subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode != 0:
        raise Skipped("Slurm is not installed, and this user may not install it (apt-get install slurm-wlm)")
    say("installs slurm-wlm")
    install = [*sudo, "apt-get", "install", "-y", "--no-install-recommends", "slurm-wlm"]
    result = subprocess.run(install, capture_output=True, text=True, check=False)
    if result.returncode != 0 or not shutil.which("slurmctld"):
        raise Skipped("slurm-wlm cannot be installed: " + (result.stderr.strip().splitlines() or ["no reason"])[-1])


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        port, port1, port2 = free_ports(3)
        names = {"folder": folder, "host": socket.gethostname(), "user": getpass.getuser()}
        self.conf = os.path.join(folder, "slurm.conf")
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(CONF.format(port=port, port1=port1, port2=port2, **names))
        with open(os.path.join(folder, "cgroup.conf"), "w", encoding="utf-8") as file:
            file.write("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        for name in ("state", "spool.n1", "spool.n2"):
            os.mkdir(os.path.join(folder, name))
        self.environment = dict(os.environ, SLURM_CONF=self.conf, OMP_NUM_THREADS="1")
        self.daemons = {}
        self.waits = {}  # job -> how often in a row it was seen waiting

    def start(self, name):
        words = ["slurmctld", "-D", "-c"] if name == "slurmctld" else ["slurmd", "-D", "-N", name]
        with open(os.path.join(self.folder, name + ".err"), "ab") as errors:
            # A session of its own: a node's end must not take this script along.
            self.daemons[name] = subprocess.Popen(
                words, env=self.environment, stdout=errors, stderr=errors, stdin=subprocess.DEVNULL,
                start_new_session=True)

    def call(self, *words, check=True, cwd=None):
        result = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False, cwd=cwd)
        if check and result.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout

    def up(self):
        for name in ("slurmctld", "n1", "n2"):
            self.start(name)
        for _ in range(120):
            states = self.call("sinfo", "-h", "-p", "low", "-o", "%D %t", check=False).split()
            if states == ["2", "idle"]:
                return
            if any(daemon.poll() is not None for daemon in self.daemons.values()):
                break
            time.sleep(0.5)
        reasons = []
        for name in self.daemons:
            for suffix in (".err", ".log"):
                path = os.path.join(self.folder, ("slurmd." if name != "slurmctld" else "") + name + suffix)
                for path in {path, os.path.join(self.folder, name + suffix)}:
                    if os.path.exists(path):
                        with open(path, encoding="utf-8", errors="replace") as file:
                            reasons += [line.strip() for line in file if "error" in line or "fatal" in line][-2:]
        raise Skipped("Slurm does not start here: " + ("; ".join(reasons) or "no reason given"))

    def steps_of(self, node):
        """Processes that the node's jobs started, with their command."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environ = file.read()
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    command = file.read()
            except OSError:
                continue
            if self.conf.encode() not in environ:
                continue
            if f"SLURMD_NODENAME={node}".encode() in environ.split(b"\0"):
                found[int(pid)] = command
        return found

    def lose(self, node):
        daemon = self.daemons[node]
        stepds = subprocess.run(["pgrep", "-g", str(daemon.pid)], capture_output=True, text=True, check=False).stdout
        children = subprocess.run(["pgrep", "-f", f"slurmstepd: \\["], capture_output=True, text=True, check=False)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        processes, workers = self.steps_of(node), self.workers_on(node)
        parents = set()
        for pid in processes:
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    parents.add(int(file.read().rpartition(")")[2].split()[1]))
            except OSError:
                pass
        stepd = parents & {int(pid) for pid in (children.stdout + stepds).split()}
        for pid in [*stepd, *processes]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return len(workers)

    def jobs(self):
        rows = [line.split("|") for line in self.call("squeue", "-h", "-r", "-o", "%i|%t|%r|%N|%P").splitlines()]
        return [dict(zip(("id", "state", "reason", "node", "partition"), row)) for row in rows]

    def workers_on(self, node):
        return [pid for pid, command in self.steps_of(node).items() if b"\0work\0" in command]

    def log(self):
        with open(os.path.join(self.folder, "slurmctld.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def hurry(self):
        """A requeued job waits for two minutes; a test waits until what ran before has gone."""
        for job in self.jobs():
            waiting = self.waits[job["id"]] = self.waits.get(job["id"], 0) + 1 if job["state"] == "PD" else 0
            if waiting > 6 and job["reason"] in ("BeginTime", "JobHeldAdmin", "JobHeldUser"):
                self.call("scontrol", "update", f"JobId={job['id']}", "StartTime=now", check=False)
                if job["reason"] != "BeginTime":
                    self.call("scontrol", "release", job["id"], check=False)

    def down(self):
        if "slurmctld" in self.daemons:
            self.call("scancel", "-u", getpass.getuser(), check=False)
        for node in ("n1", "n2"):
            if node in self.daemons:
                self.lose(node)
        for daemon in self.daemons.values():
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()


class Test:
    def __init__(self, cluster, program, folder):
        self.cluster, self.program, self.folder = cluster, program, folder
        cluster.environment["CROSSTALK_PROGRAM"] = program  # the package's

    def choose(self, steps):
        """A study whose runs take so many steps, and what one undisturbed process makes of it."""
        self.name = f"slurm_{steps}"
        self.study = os.path.join(self.folder, self.name + ".toml")
        with open(self.study, "w", encoding="utf-8") as file:
            file.write(STUDY.format(name=self.name, steps=steps))
        alone = os.path.join(self.folder, self.name + "_alone")
        self.crosstalk("run", self.study, "--out", alone, "--quiet")
        self.expected = self.exports(alone)

    def crosstalk(self, *words):
        return self.cluster.call(self.program, *words)

    def exports(self, store):
        return [self.crosstalk("export", store), self.crosstalk("export", store, "--curves")]

    def status(self, store):
        return json.loads(self.crosstalk("status", store, "--json"))

    def submit(self, kind, change=("", "")):
        store = os.path.join(self.folder, f"{self.name}_{kind}")
        words = ["submit", "slurm", self.study, "--cpus", "4", "--cores", "1", "--time", "10:00", "--out", store]
        self.crosstalk(*words, "--", "--partition=low")
        path = os.path.join(store, self.name + ".sbatch")
        with open(path, encoding="utf-8") as file:
            script = file.read()
        if change[0] not in script:
            raise RuntimeError(f"{path} lacks '{change[0]}':\n{script}")
        changed = script.replace(*change) if change[0] else script
        if changed != script:
            self.cluster.call("scancel", "-u", getpass.getuser())
            self.wait_for("the first array to be gone", lambda: not self.cluster.jobs())
            with open(path, "w", encoding="utf-8") as file:
                file.write(changed)
            self.cluster.call("sbatch", path)
        return store

    def wait_for(self, what, condition, seconds=1800):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.5)
        raise RuntimeError(f"waited {seconds} s for {what}; the queue: {self.cluster.jobs()}")

    def wait_while_it_trains(self, what, condition, seconds=300):
        """As wait_for; but a study that is over waits for nothing."""
        def holds():
            self.cluster.hurry()
            if condition():
                return True
            if not any(job["partition"] == "low" for job in self.cluster.jobs()):
                raise TooShort(what)
            return False
        self.wait_for(what, holds, seconds)

    def records(self, store):
        return self.status(store)["count"] if os.path.exists(os.path.join(store, "store.json")) else 0

    def check(self, store, most_twice):
        status = self.status(store)
        if status["count"] != 400 or status["states"]["done"] != 400:
            raise RuntimeError(f"{store}: {status['states']}")
        if self.exports(store) != self.expected:
            raise RuntimeError(f"{store}: the export differs from the undisturbed one")
        if status["duplicates"] > most_twice:
            raise RuntimeError(f"{store}: {status['duplicates']} runs recorded twice, {most_twice} allowed")
        return status["duplicates"]

    def undisturbed_array(self):
        """Returns how long it took, in seconds."""
        begin = time.monotonic()
        store = self.submit("calm")
        self.wait_for("the array", lambda: not self.cluster.jobs())
        seconds = time.monotonic() - begin
        self.check(store, 0)
        shards = len(os.listdir(os.path.join(store, "shards")))
        say(f"undisturbed: 4 workers, 400 runs, {seconds:.0f} s, {shards} shards, 0 recorded twice")
        return seconds

    def goes_on(self, store):
        records = self.records(store)
        self.wait_while_it_trains("more records", lambda: self.records(store) >= records + 10)

    def preempt(self):
        """Ends when the urgent job has run; returns how many workers went for it."""
        before = self.cluster.log().count("preempted JobId")
        urgent = self.cluster.call(
            "sbatch", "--parsable", "--partition=high", "--nodelist=n1", "--ntasks=1", "--cpus-per-task=2", "--time=5",
            "--output=/dev/null", "--wrap", "sleep 5").strip()
        self.wait_while_it_trains(
            "the urgent job", lambda: urgent not in [job["id"] for job in self.cluster.jobs()])
        preempted = self.cluster.log().count("preempted JobId") - before
        if preempted == 0:
            raise RuntimeError("the urgent job came without preemption: nothing was tested")
        return preempted

    def lose_a_node(self):
        """Returns how many workers were killed."""
        self.wait_while_it_trains("workers on n2", lambda: self.cluster.workers_on("n2"))
        killed = self.cluster.lose("n2")
        if killed == 0:
            raise RuntimeError("the lost node had no workers: nothing was tested")
        # Slurm finds out by itself after SlurmdTimeout; then the node comes back.
        self.wait_while_it_trains(
            "the node to be down", lambda: "down" in self.cluster.call("sinfo", "-h", "-n", "n2", "-o", "%t"))
        self.cluster.start("n2")
        return killed

    def requeue(self):
        def running():
            return [job["id"] for job in self.cluster.jobs() if job["state"] == "R"]
        self.wait_while_it_trains("a job that runs", running)
        victim = running()[0]
        self.cluster.call("scontrol", "requeue", victim)
        self.wait_while_it_trains("the requeued job to wait", lambda: victim not in running())

    def disturbed_array(self):
        begin = time.monotonic()
        # The worker's own limit is short: it ends with 75 and is requeued by the script, again and again.
        store = self.submit("rough", ("--time-limit 480s", "--time-limit 45s"))
        self.goes_on(store)
        done = [f"{self.preempt()} workers preempted"]
        self.goes_on(store)
        killed = self.lose_a_node()
        done.append(f"a node lost with {killed} workers")
        self.goes_on(store)
        self.requeue()
        done.append("scontrol requeue")
        self.wait_for("the array", lambda: self.cluster.hurry() or not self.cluster.jobs())
        logs = ""
        for name in os.listdir(os.path.join(store, "logs")):
            with open(os.path.join(store, "logs", name), encoding="utf-8", errors="replace") as file:
                logs += file.read()
        ends = logs.count("stopped by the time limit")
        if ends == 0:
            raise TooShort("the end of a worker's time")
        done.append(f"{ends} ends of the time, requeued by the script")
        # In flight where a worker was killed: one run each.
        twice = self.check(store, killed)
        say(f"disturbed: 400 runs, {time.monotonic() - begin:.0f} s: {'; '.join(done)}; {twice} recorded twice")

    def beside_built_ins(self, python):
        """What a user does who has written a memory in PyTorch: submit, wait, read the table."""
        found = subprocess.run(
            [python, "-c", "import crosstalk, pandas, torch"], env=self.cluster.environment, capture_output=True, text=True,
            check=False)
        if found.returncode != 0:
            raise Skipped(f"PyTorch memories with {python}: {found.stderr.strip().splitlines()[-1]}")
        begin = time.monotonic()
        store = os.path.join(self.folder, "beside_store")
        for name, text in (("mean.py", MEAN), ("beside.toml", BESIDE)):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        words = [self.program, "submit", "slurm", "beside.toml", "--time", "10:00", "--out", store, "--python", python]
        whole = self.cluster.call(*words, "--nodes", "2", "--dry-run", "--", "--partition=low", cwd=self.folder)
        path = os.path.join(self.folder, "whole.sbatch")
        with open(path, "w", encoding="utf-8") as file:
            file.write(whole)
        self.cluster.call("sbatch", "--test-only", path)
        self.cluster.call(
            *words, "--cpus", "2", "--cores", "2", "--before", "export SEEN=1", "--", "--partition=low", cwd=self.folder)
        nodes = set()

        def over():
            nodes.update(node for node in ("n1", "n2") if self.cluster.workers_on(node))
            return not self.cluster.jobs()
        self.wait_for("the array of PyTorch models", over)
        status = self.status(store)
        if status["states"]["done"] != 16 or nodes != {"n1", "n2"}:
            logs = self.cluster.call("sh", "-c", f"tail -n 20 {store}/logs/*")
            raise RuntimeError(f"{store}, on {sorted(nodes)}: {status['states']}\n{logs}")
        rows = self.cluster.call(python, "-c", READ, store).strip()
        if rows != "delta 4 mean 4 retnet 4 softmax 4":
            raise RuntimeError(f"{store} in pandas: {rows}")
        say(f"a PyTorch memory beside three built-in ones: {rows} runs, {time.monotonic() - begin:.0f} s, "
            f"{status['duplicates']} recorded twice")

    def disturbed_until_it_is_long_enough(self, seconds):
        steps = CALM_STEPS
        for times in (max(1.0, FAULTS_TAKE / seconds), 2, 2):
            steps = int(steps * times) // 50 * 50
            self.choose(steps)
            say(f"runs of {steps} steps for the disturbed study")
            try:
                return self.disturbed_array()
            except TooShort as what:
                say(f"the study was over before {what}: once more, with runs twice as long")
                self.cluster.call("scancel", "-u", getpass.getuser())
                self.wait_for("an empty queue", lambda: not self.cluster.jobs())
        raise RuntimeError("three times the study was over before its faults were")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--crosstalk", default=os.path.join(root, "build/cpu/crosstalk"))
    parser.add_argument("--python", help="with torch, pandas and the package")
    parser.add_argument("--only", choices=["python"], help="the PyTorch memory alone")
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="crosstalk_slurm_")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # its daemons go with it
    cluster = None
    try:
        find_slurm()
        cluster = Cluster(folder)
        cluster.up()
        say("two nodes are up (" + cluster.call("sinfo", "--version").strip() + ")")
        test = Test(cluster, os.path.abspath(options.crosstalk), folder)
        if options.python:
            try:
                test.beside_built_ins(options.python)
            except Skipped as reason:
                if options.only:
                    raise
                say(f"left out: {reason}")
        if not options.only:
            test.choose(CALM_STEPS)
            test.disturbed_until_it_is_long_enough(test.undisturbed_array())
        say("passed")
        return 0
    except Skipped as reason:
        say(f"skipped: {reason}")
        return SKIP
    except RuntimeError as problem:
        say(f"FAILED: {problem}")
        return 1
    finally:
        if cluster is not None:
            cluster.down()
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
