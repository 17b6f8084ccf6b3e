#!/usr/bin/env python3
"""One training step of a language model on MQAR in PyTorch, on one GPU: time and peak memory.

    python3 benchmarks/peers/pytorch_language.py                      # the cases of benchmarks/README.md
    python3 benchmarks/peers/pytorch_language.py --zoology ~/zoology  # beside Zoology's own code

Two programs of the same step (forward, backward, AdamW; the batch lies on the GPU already):

  zoology   the released code of HazyResearch/zoology as its train.py calls it: logits at every position, T x T
            attention in memory, torch.optim.AdamW with its defaults, no compilation
  expert    what somebody who knows PyTorch well would write: scaled_dot_product_attention, logits at the supervised
            positions alone, fused AdamW, torch.compile, and the whole step replayed as one CUDA graph

The model is that of Zoology's figure 2: tied embedding, learned positions, two blocks r += MHA(LN(r)); r += LN(r), one
head, dropout 0.1 behind the embedding (expert: and none on attention weights). Prints one row a case: median of
repeats in milliseconds, and peak memory in GiB.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import statistics
import sys

import torch
from torch import nn
from torch.nn import functional as F

CASES = [  # width, sequences, tokens, pairs
    (128, 256, 256, 16),
    (64, 512, 64, 4),
]
VOCABULARY = 8192


def batch(B, T, pairs):
    """Tokens [B,T], supervised positions [B,pairs], labels [B,pairs]: MQAR with every answer slot in use."""
    keys = torch.stack([torch.randperm(VOCABULARY // 2 - 1)[:pairs] + 1 for _ in range(B)])
    values = torch.stack([torch.randperm(VOCABULARY // 2)[:pairs] + VOCABULARY // 2 for _ in range(B)])
    tokens = torch.zeros(B, T, dtype=torch.long)
    tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2] = keys, values
    slots = torch.stack([torch.randperm((T - 2 * pairs) // 2)[:pairs] for _ in range(B)])
    position = 2 * pairs + 2 * slots
    tokens.scatter_(1, position, keys)
    return tokens.cuda(), position.cuda(), values.cuda()


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (part.unsqueeze(1) for part in self.qkv(x).chunk(3, dim=-1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1))


class Expert(nn.Module):
    def __init__(self, width, T, layers=2):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(T, width)
        self.mixers = nn.ModuleList(Attention(width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, position, labels):
        x = F.dropout(self.tokens(tokens) + self.positions.weight, 0.1, self.training)
        for layer, mixer in enumerate(self.mixers):
            x = x + mixer(self.norms[2 * layer](x))
            x = x + self.norms[2 * layer + 1](x)
        rows = x.gather(1, position.unsqueeze(-1).expand(-1, -1, x.size(-1)))
        logits = F.linear(self.norms[-1](rows), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def timed(step, repeats):
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def expert(width, B, T, pairs, precision, repeats):
    model = Expert(width, T).cuda()
    data = batch(B, T, pairs)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True, capturable=True)
    compiled = torch.compile(model, fullgraph=True)

    def step():
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = compiled(*data)
        loss.backward()
        optimizer.step()

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return timed(graph.replay, repeats)


def zoology(width, B, T, pairs, precision, repeats):
    from zoology.config import ModelConfig, ModuleConfig
    from zoology.model import LanguageModel

    config = ModelConfig(
        d_model=width,
        n_layers=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=T,
        sequence_mixer=ModuleConfig(name="zoology.mixers.attention.MHA", kwargs={"dropout": 0.1, "num_heads": 1}),
        state_mixer=ModuleConfig(name="torch.nn.Identity", kwargs={}),
    )
    model = LanguageModel(config).cuda()
    tokens, position, values = batch(B, T, pairs)
    labels = torch.full_like(tokens, -100).scatter_(1, position, values)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)

    def step():
        optimizer.zero_grad()
        logits = model(tokens, return_embeddings=False)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        loss.item()  # as train.py does in every step

    return timed(step, repeats)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoology", metavar="PATH", help="a checkout of HazyResearch/zoology")
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    programs = [(expert, "bf16"), (expert, "tf32"), (expert, "fp32")]
    if arguments.zoology:
        sys.path.insert(0, arguments.zoology)
        programs.append((zoology, "fp32"))
    for case in CASES:
        for program, precision in programs:
            torch.manual_seed(0)
            torch.compiler.reset()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
            name = f"{program.__name__} d{case[0]} B{case[1]} T{case[2]} pairs {case[3]} {precision}"
            try:
                milliseconds = program(*case, precision, arguments.repeats)
                peak = torch.cuda.max_memory_allocated() / 2**30
                print(f"{name}: {milliseconds:.3f} ms a step, {peak:.2f} GiB", flush=True)
            except Exception as error:  # a row that cannot be had does not take the others along
                print(f"{name}: failed, {type(error).__name__}: {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    main()
