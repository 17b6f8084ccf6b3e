#!/usr/bin/env python3
"""Trains built-in memories and the same ones as laws (rules.toml) in turns, and compares their speed.

    python3 benchmarks/rules.py build/release/crosstalk --times 15
    python3 benchmarks/rules.py build/release/crosstalk --times 15 --replicas 64        (on a GPU)

A row is a memory: model-steps a second of it and of its law (medians), and the median of law / memory over the turns with its
quartiles. Both are timed side by side in each turn, so that what else the machine does concerns both.
"""
import argparse
import json
import pathlib
import statistics
import subprocess


def rates(program, options):
    study = pathlib.Path(__file__).with_name("rules.toml")
    command = [program, "bench", str(study), "--json", *options]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return {row["label"]: row["model_steps_per_second"] for row in json.loads(answer.stdout)["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="path of crosstalk")
    parser.add_argument("--times", type=int, default=15, help="turns")
    parser.add_argument("--replicas", default="1", help="replicas in lockstep")
    parser.add_argument("--steps", help="compares N and 2 N steps (default: as many as take a second)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", default="1")
    given = parser.parse_args()
    options = ["--replicas", given.replicas, "--device", given.device, "--threads", given.threads]
    if given.steps:
        options += ["--steps", given.steps]
    turns = [rates(given.program, options) for _ in range(given.times)]
    print(f"{'memory':<16}{'built-in':>12}{'law':>12}{'law / built-in':>18}   quartiles")
    for law in turns[0]:
        name = law.removesuffix("_law")
        if name == law:
            continue
        pairs = [(turn[name], turn[law]) for turn in turns if turn[name] > 0 and turn[law] > 0]
        ratios = [b / a for a, b in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4)
        first, second = (statistics.median(column) for column in zip(*pairs))
        print(f"{name:<16}{first:>12.1f}{second:>12.1f}{middle:>18.3f}   {low:.3f} .. {high:.3f}")


if __name__ == "__main__":
    main()
