#!/usr/bin/env python3
"""Trains built-in memories and the same ones as laws (rules.toml) in turns, and compares their speed.

    python3 benchmarks/rules.py build/release/crosstalk
    python3 benchmarks/rules.py build/release/crosstalk --device cuda --replicas 64

A row is a memory: the median over the turns of the time of its law over its own time, with quartiles. On the CPU that is time of the
processor, which other programs disturb less than the clock; on a GPU it is what `crosstalk bench` measures. In each turn both are
trained twice, the first one last.
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess

MEMORIES = ["delta", "gated_delta", "kda", "mamba2"]


def seconds(given, label):
    """Of the trainings of one `crosstalk bench`."""
    study = pathlib.Path(__file__).with_name("rules.toml")
    command = [given.program, "bench", str(study), "--set", f"memory={label}", "--json", "--steps", str(given.steps),
               "--replicas", given.replicas, "--device", given.device, "--threads", "1"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    row = json.loads(answer.stdout)["rows"][0]
    if given.device == "cpu":
        return after.ru_utime - before.ru_utime
    return row["us_per_model_step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="path of crosstalk")
    parser.add_argument("--times", type=int, default=10, help="turns")
    parser.add_argument("--steps", type=int, default=500, help="steps; a bench trains three times as many")
    parser.add_argument("--replicas", default="1", help="replicas in lockstep")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
    given = parser.parse_args()
    print(f"{'memory':<16}{'law / built-in':>16}   quartiles")
    for name in MEMORIES:
        ratios = []
        for _ in range(given.times):
            law = f"{name}_law"
            times = [seconds(given, label) for label in (name, law, law, name)]
            ratios.append((times[1] + times[2]) / (times[0] + times[3]))
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{name:<16}{middle:>16.3f}   {low:.3f} .. {high:.3f}", flush=True)


if __name__ == "__main__":
    main()
