#!/usr/bin/env python3
# Many processes on one store, killed and started again at random. SPDX-License-Identifier: Apache-2.0
"""usage: python3 scripts/share_test.py [--rounds N] [--processes N] [--seed S] [--jobs J] [--seconds T] [--crosstalk PATH]

Each round makes a new store, starts N processes of `crosstalk run` on it at once, kills some of them at random
moments (kill -9) and starts each again; every fourth round kills none. Exit code 0: every process that was not killed
ended with 0, each export equals that of an undisturbed run to the byte, no run was recorded twice in a round without
kills, and none more often than its kills allow (each takes one pack of one run with it). --jobs shares the rounds
among J of these tests side by side, with seeds S, S + 1, ... After T seconds no round begins, and the rounds that were
made are counted.
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


def side_by_side(options):
    jobs = min(options.jobs, options.rounds)
    children = []
    for job in range(jobs):
        rounds = options.rounds // jobs + (job < options.rounds % jobs)
        words = [sys.executable, os.path.abspath(__file__), "--rounds", str(rounds), "--seed", str(options.seed + job)]
        words += ["--seconds", str(options.seconds)]
        words += ["--processes", str(options.processes), "--crosstalk", options.crosstalk]
        children.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    begin, totals = time.monotonic(), {}
    for child in children:
        output = child.communicate()[0]
        print(output, end="", flush=True)
        last = output.rstrip().rsplit("\n", 1)[-1]
        if child.returncode == 0 and "passed" in last:
            for number, word in re.findall(r"(\d+) (rounds|kills|runs|recorded twice)", last):
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
    totals = {"kills": 0, "twice": 0, "runs": 0}
    try:
        study = os.path.join(folder, "study.toml")
        with open(study, "w", encoding="utf-8") as file:
            file.write(STUDY)
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

            def start():
                with open(log, "ab") as errors:
                    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors, env=environment)

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
            elif twice > kills:
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
        )
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
