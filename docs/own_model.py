#!/usr/bin/env python3
"""A model of your own in PyTorch, trained on Crosstalk's tasks; its results go into Crosstalk's figures.

    python3 docs/own_model.py --out mine.csv
    crosstalk plot capacity runs/quickstart mine.csv --out figures/beside_ours
    crosstalk compare runs/quickstart --published mine.csv

Trains linear attention (elu + 1) on the sequences of `crosstalk sample recall` and writes one row a run in the columns of
`crosstalk describe published-csv`. Replace OwnModel by yours. Needs numpy, PyTorch, and `crosstalk` on the PATH.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import csv
import subprocess
import tempfile
from pathlib import Path

import numpy
import torch
from torch.nn.functional import elu, one_hot


def sample(load, split, seed, count, folder):
    """`count` sequences as tensors: keys and values [N,L], query and answer [N,Q]."""
    subprocess.run(["crosstalk", "sample", "recall", "--set", f"task.associations={load}", "--split", split, "--seed", str(seed),
                    "-n", str(count), "--out", folder], check=True, stdout=subprocess.DEVNULL)
    return [torch.from_numpy(numpy.load(Path(folder) / f"{name}.npy")) for name in ("keys", "values", "query", "answer")]


class OwnModel(torch.nn.Module):
    """Reads the values of keys: (keys, values, query) -> [N,Q,values]."""

    def __init__(self, load, d_key):
        super().__init__()
        self.load = load
        self.embedding = torch.nn.Embedding(load, 2 * load)
        self.key = torch.nn.Linear(3 * load, d_key)
        self.query = torch.nn.Linear(2 * load, d_key)

    def forward(self, keys, values, query):
        v = one_hot(values, self.load).float()
        k = elu(self.key(torch.cat([self.embedding(keys), v], dim=2))) + 1
        q = elu(self.query(self.embedding(query))) + 1
        weights = q @ k.transpose(1, 2)
        return (weights / weights.sum(dim=2, keepdim=True)) @ v


def loss_of(model, keys, values, query, answer):
    """Half the squared error, mean over queries: what Crosstalk reports."""
    return 0.5 * (model(keys, values, query) - one_hot(answer, model.load)).square().sum(dim=2).mean()


def train(load, seed, d_key, steps, batch=32, every=100, solved=1e-3):
    """(loss on the eval split, steps taken)"""
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        data = sample(load, "train", seed, min(steps * batch, 100_000), folder + "/train")
        held_out = sample(load, "eval", seed, 64, folder + "/eval")
    model = OwnModel(load, d_key)
    adam = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss = float("nan")
    for step in range(1, steps + 1):
        rows = torch.arange((step - 1) * batch, step * batch) % len(data[0])
        adam.zero_grad()
        loss_of(model, *(tensor[rows] for tensor in data)).backward()
        adam.step()
        if step % every == 0 or step == steps:
            with torch.no_grad():
                loss = loss_of(model, *held_out).item()
            if loss <= solved:
                break
    return loss, step


def main():
    def numbers(text):
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=numbers, default=[4, 8, 12, 16, 24, 32], help="associations, separated by commas")
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=3000, help="at most")
    parser.add_argument("--d-key", type=int, default=16)
    parser.add_argument("--out", default="mine.csv")
    arguments = parser.parse_args()
    with open(arguments.out, "w", newline="") as file:
        table = csv.writer(file)
        # The memory.* columns say which of Crosstalk's memories this is, for `compare`; leave them out where it is none.
        table.writerow(["label", "seed", "task.name", "task.associations", "memory.name", "memory.feature_map", "model.d_key",
                        "d_dot", "eval_loss", "steps"])
        for load in arguments.loads:
            for seed in arguments.seeds:
                loss, steps = train(load, seed, arguments.d_key, arguments.steps)
                table.writerow(["torch_linear", seed, "recall", load, "linear_attention", "elu1", arguments.d_key,
                                arguments.d_key, loss, steps])
                file.flush()  # what is done stays if this is stopped
                print(f"S = {load}, seed {seed}: loss {loss:.4g} after {steps} steps", flush=True)


if __name__ == "__main__":
    main()
