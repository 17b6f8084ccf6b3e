#!/usr/bin/env python3
# A study on a real Slurm of two nodes, undisturbed and disturbed. SPDX-License-Identifier: Apache-2.0
"""usage: python3 scripts/slurm_test.py [--crosstalk PATH] [--keep]

Starts Slurm (slurmctld and two slurmd on this machine, as this user, without a database, munge or systemd; installs the
Debian package slurm-wlm where it may) and has `crosstalk submit slurm` train a study of 400 runs with an array of 4
workers: once undisturbed; once with preemption, a lost node (slurmd and all of its steps killed), the end of the time
and `scontrol requeue` in the middle. Exit code 0: both exports equal that of one process to the byte, nothing was
recorded twice without a fault, with faults no more than was in flight. 77: skipped, with the reason.
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
STUDY = """
[study]
name  = "slurm_test"
seeds = { range = [1, 50] }
[base]
task.name       = "recall"
model.d_key     = 8
train.max_steps = 6000
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

    def call(self, *words, check=True):
        result = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
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
        """Processes of the node's jobs: slurmstepd and what it started."""
        found = []
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
                found.append(int(pid))
        return found

    def lose(self, node):
        daemon = self.daemons[node]
        stepds = subprocess.run(["pgrep", "-g", str(daemon.pid)], capture_output=True, text=True, check=False).stdout
        children = subprocess.run(["pgrep", "-f", f"slurmstepd: \\["], capture_output=True, text=True, check=False)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        workers = self.steps_of(node)
        parents = set()
        for pid in workers:
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    parents.add(int(file.read().rpartition(")")[2].split()[1]))
            except OSError:
                pass
        stepd = parents & {int(pid) for pid in (children.stdout + stepds).split()}
        for pid in [*stepd, *workers]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return len(workers)

    def jobs(self):
        rows = [line.split("|") for line in self.call("squeue", "-h", "-r", "-o", "%i|%t|%r|%N").splitlines()]
        return [dict(zip(("id", "state", "reason", "node"), row)) for row in rows]

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
        self.study = os.path.join(folder, "study.toml")
        with open(self.study, "w", encoding="utf-8") as file:
            file.write(STUDY)
        undisturbed = os.path.join(folder, "undisturbed")
        self.crosstalk("run", self.study, "--out", undisturbed, "--quiet")
        self.expected = self.exports(undisturbed)

    def crosstalk(self, *words):
        return self.cluster.call(self.program, *words)

    def exports(self, store):
        return [self.crosstalk("export", store), self.crosstalk("export", store, "--curves")]

    def status(self, store):
        return json.loads(self.crosstalk("status", store, "--json"))

    def submit(self, name, change=lambda script: script):
        store = os.path.join(self.folder, name)
        words = ["submit", "slurm", self.study, "--cpus", "4", "--cores", "1", "--time", "10:00", "--out", store]
        self.crosstalk(*words, "--", "--partition=low")
        if change is not None:
            path = os.path.join(store, "slurm_test.sbatch")
            with open(path, encoding="utf-8") as file:
                script = file.read()
            changed = change(script)
            if changed != script:
                self.cluster.call("scancel", "-u", getpass.getuser())
                self.wait_for("the first array to be gone", lambda: not self.cluster.jobs())
                with open(path, "w", encoding="utf-8") as file:
                    file.write(changed)
                self.cluster.call("sbatch", path)
        return store

    def wait_for(self, what, condition, seconds=900):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.5)
        raise RuntimeError(f"waited {seconds} s for {what}; the queue: {self.cluster.jobs()}")

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
        begin = time.monotonic()
        store = self.submit("calm")
        self.wait_for("the array", lambda: not self.cluster.jobs())
        self.check(store, 0)
        shards = len(os.listdir(os.path.join(store, "shards")))
        say(f"undisturbed: 4 workers, 400 runs, {time.monotonic() - begin:.0f} s, {shards} shards, 0 recorded twice")

    def disturbed_array(self):
        cluster, done = self.cluster, []
        begin = time.monotonic()
        # The worker's own limit is short: it ends with 75 and is requeued by the script, again and again.
        store = self.submit("rough", lambda script: script.replace("--time-limit 480s", "--time-limit 35s"))
        self.wait_for("records", lambda: self.records(store) >= 20)

        urgent = cluster.call("sbatch", "--parsable", "--partition=high", "--nodelist=n1", "--ntasks=1",
                              "--cpus-per-task=2", "--time=5", "--output=/dev/null", "--wrap", "sleep 5").strip()
        self.wait_for("the urgent job", lambda: cluster.hurry() or urgent not in [job["id"] for job in cluster.jobs()], 120)
        done.append("preemption")
        self.wait_for("records", lambda: cluster.hurry() or self.records(store) >= 80)

        def runs_on(node):
            return [job for job in cluster.jobs() if job["state"] == "R" and job["node"] == node]

        self.wait_for("jobs on n2", lambda: cluster.hurry() or runs_on("n2"), 200)
        killed = cluster.lose("n2")
        if killed == 0:
            raise RuntimeError("the lost node had no processes: nothing was tested")
        # Slurm finds out by itself after SlurmdTimeout; then the node comes back.
        self.wait_for("the node to be down", lambda: "down" in cluster.call("sinfo", "-h", "-n", "n2", "-o", "%t"), 120)
        cluster.start("n2")
        done.append(f"node failure ({killed} processes killed)")
        self.wait_for("records", lambda: cluster.hurry() or self.records(store) >= 160)
        self.wait_for("a job", lambda: cluster.hurry() or [job for job in cluster.jobs() if job["state"] == "R"], 200)
        victim = [job for job in cluster.jobs() if job["state"] == "R"][0]["id"]
        cluster.call("scontrol", "requeue", victim)
        done.append("scontrol requeue")
        self.wait_for("the array", lambda: cluster.hurry() or not cluster.jobs())
        logs = ""
        for name in os.listdir(os.path.join(store, "logs")):
            with open(os.path.join(store, "logs", name), encoding="utf-8", errors="replace") as file:
                logs += file.read()
        ends = logs.count("stopped by the time limit")
        if ends == 0:
            raise RuntimeError("no worker ran into its time limit: nothing was tested\n" + logs)
        done.append(f"{ends} ends of the time, requeued by the script")
        # In flight where a process was killed: one run each.
        twice = self.check(store, killed)
        say(f"disturbed: 400 runs, {time.monotonic() - begin:.0f} s: {'; '.join(done)}; {twice} recorded twice")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--crosstalk", default=os.path.join(root, "build/cpu/crosstalk"))
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="crosstalk_slurm_")
    cluster = None
    try:
        find_slurm()
        cluster = Cluster(folder)
        cluster.up()
        say("two nodes are up (" + cluster.call("sinfo", "--version").strip() + ")")
        test = Test(cluster, os.path.abspath(options.crosstalk), folder)
        test.undisturbed_array()
        test.disturbed_array()
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
