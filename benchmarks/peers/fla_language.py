#!/usr/bin/env python3
"""One training step of a language model with flash-linear-attention's kernels on one GPU, a row a memory: the peer of memories.toml.

    pip install flash-linear-attention && python3 benchmarks/peers/fla_language.py [--memories gla kda] [--widths 128 256 512]

The model is that of benchmarks/memories.toml: tied embedding of 8192 tokens, two blocks r += mixer(norm(r)) of two heads
without an MLP, logits at the supervised positions alone. Its mixer is what somebody who knows PyTorch well would write:
maps by nn.Linear, gates from the token, the memory by fla's chunkwise kernel (softmax: scaled_dot_product_attention), the
map of what is read; bf16 by autocast, fused AdamW, torch.compile around the kernels, and the whole step replayed as one
CUDA graph. A kernel that cannot be captured is timed as it is, which its row says. The batch lies on the GPU already.

The first call compiles and tunes kernels for minutes: with TRITON_CACHE_AUTOTUNING=1 the next one finds what it chose.
--json FILE adds a line a row.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import importlib
import json
import re
from pathlib import Path

import torch
from pytorch_language import VOCABULARY, batch, timed
from torch import nn
from torch.nn import functional as F

B, T, HEADS, PAIRS = 256, 256, 2, 64  # sequences, tokens, heads, pairs of benchmarks/memories.toml
LEVELS = 10  # of log-linear attention: token, and blocks of 1 to 256 tokens before it
SLOTS = 64  # of gated slot attention
WRITES = 2  # of DeltaProduct


OPS = {}  # (module, name) -> a kernel, which torch.compile goes around


def op(module, name=None):
    return OPS[module, name]


def load_ops():
    """Finds all kernels that are named here before torch.compile sees the code that calls them."""
    for module, function in re.findall(r'\bop\("(\w+)"(?:, "(\w+)")?\)', Path(__file__).read_text()):
        try:
            kernel = getattr(importlib.import_module(f"fla.ops.{module}"), function or f"chunk_{module}")
        except (ImportError, AttributeError) as error:  # its rows will say that it is not there
            print(f"fla.ops.{module}: {error}")
            continue
        OPS[module, function or None] = torch.compiler.disable(kernel)


def unit(x):
    return F.normalize(x.float(), dim=-1).to(x.dtype)


def log_sigmoid(x, divisor=1):
    return F.logsigmoid(x.float()) / divisor


def decay(x):  # of Mamba-2 and Gated DeltaNet, with e^A = 1
    return -F.softplus(x.float())


def rate(x):
    return torch.sigmoid(x.float())


def scaled(x, by):
    return (x * by.unsqueeze(-1)).to(x.dtype)


def gsa(q, k, v, g):
    return op("gsa")(q, k, v, (1 - torch.exp(g)).to(k.dtype), g)


def softmax(q, k, v):
    return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)


def delta_product(q, k, v, a, b):
    several = [x.reshape(B, T * WRITES, HEADS, -1) for x in (unit(k), v)]
    return op("gated_delta_product")(unit(q), *several, decay(a), rate(b).reshape(B, T * WRITES, HEADS), WRITES)


def rwkv7(q, k, v, w, a):
    kappa, erase = unit(k), torch.sigmoid(a)
    return op("rwkv7")(q, -0.6065306597126334 * torch.sigmoid(w), k, v, -kappa, kappa * erase)


# Memory -> (what the token gives beside query, key and value, the memory). "h": a number a head; "c": one a channel of a
# head through 16 numbers, as these memories' authors do; "full": the same by one map; a number: so many a head, ("h", n): a number for each of n writes; "p": a parameter a channel.
MEMORIES = {
    "softmax": ([], softmax),
    "sliding_window": ([], lambda q, k, v: op("attn", "parallel_attn")(q, k, v, window_size=64)),
    "fox": (["h"], lambda q, k, v, f: op("forgetting_attn", "parallel_forgetting_attn")(q, k, v, log_sigmoid(f))),
    "linear_attention": ([], lambda q, k, v: op("linear_attn")(F.elu(q) + 1, F.elu(k) + 1, v)),
    "retnet": ([], lambda q, k, v: op("retention")(q, k, v)),
    "simple_gla": (["h"], lambda q, k, v, g: op("simple_gla")(q, k, v, log_sigmoid(g, 16))),
    "mamba2": (["h"], lambda q, k, v, s: op("simple_gla")(q, k, scaled(v, F.softplus(s)), decay(s))),
    "gla": (["c"], lambda q, k, v, g: op("gla")(q, k, v, log_sigmoid(g, 16))),
    "hgrn2": (["full"], lambda q, k, v, f: op("gla")(q, 1 - torch.sigmoid(f), v, log_sigmoid(f))),
    "rwkv6": (["c", "p"], lambda q, k, v, w, u: op("rwkv6")(q, k, v, -torch.exp(w.float()), u)),
    "gsa": ([SLOTS], lambda q, k, v, f: gsa(q, k, v, log_sigmoid(f, 8))),
    "deltanet": (["h"], lambda q, k, v, b: op("delta_rule")(unit(F.silu(q)), unit(F.silu(k)), F.silu(v), rate(b))),
    "gated_delta": (["h", "h"], lambda q, k, v, a, b: op("gated_delta_rule")(unit(q), unit(k), v, decay(a), rate(b))),
    "delta_product": (["h", ("h", WRITES)], delta_product),
    "comba": (["h", "h"], lambda q, k, v, a, b: op("comba")(unit(q), unit(k), v, unit(k), decay(a), rate(b))),
    "kda": (["c", "h"], lambda q, k, v, a, b: op("kda")(unit(q), unit(k), v, decay(a), rate(b))),
    "gated_delta2": (["c", "full", "full"], lambda q, k, v, a, e, w: op("gdn2")(
        unit(q), unit(k), v, decay(a), torch.sigmoid(e), torch.sigmoid(w))),
    "precond_gated_delta": (["h"] * 4, lambda q, k, v, a, b, c, d: op("precond_gated_delta_rule")(
        unit(q), unit(k), v, decay(c), decay(a), rate(d), rate(b))),
    "rwkv7": (["c", "c"], rwkv7),
    "mesa": (["h", "h", "p"], lambda q, k, v, g, b, r: op("mesa_net")(
        unit(q), unit(k), v, log_sigmoid(g), rate(b), 0.25 + F.softplus(r.float()))),
    "path": (["c", "h"], lambda q, k, v, w, b: op("path_attn", "parallel_path_attn")(q, k, v, unit(F.silu(w).float()), 2 * rate(b))),
    "path_fox": (["c", "h", "h"], lambda q, k, v, w, b, f: op("path_attn", "parallel_path_attn")(
        q, k, v, unit(F.silu(w).float()), 2 * rate(b), log_sigmoid(f))),
    "deltaformer": (["h"], lambda q, k, v, b: op("deltaformer", "deltaformer_attn")(q, k, v, rate(b))),
    "log_linear_attention": (["h", LEVELS], lambda q, k, v, s, l: op("log_linear_attn")(
        q, k, scaled(v, F.softplus(s)), decay(s), F.softplus(l.float()))),
    "ttt_linear": (["h", "p", "p"], lambda q, k, v, e, w, b: op("ttt", "chunk_ttt_linear")(
        q, k, v, 1 + w, b, torch.sigmoid(e).unsqueeze(-1) / q.size(-1), chunk_size=16)),
    "parallax": (["full"], lambda q, k, v, r: op("parallax", "parallel_parallax")(q, r, k, v)),
    "wall": (["full"], lambda q, k, v, g: op("wall_attn", "parallel_wall_attn")(q, k, v, log_sigmoid(g))),
}


class Gate(nn.Module):
    """What a token gives beside query, key and value: [B,T,H] of a number a head, else [B,T,H,numbers]."""

    def __init__(self, width, kind):
        super().__init__()
        self.kind, self.size = kind, width // HEADS
        if kind == "p":
            self.weight = nn.Parameter(torch.zeros(HEADS, self.size))
        elif kind == "c":
            self.map = nn.Sequential(nn.Linear(width, 16, bias=False), nn.Linear(16, width))
        else:
            several = kind[1] if isinstance(kind, tuple) else kind if isinstance(kind, int) else {"h": 1, "full": self.size}[kind]
            self.map = nn.Linear(width, HEADS * several)

    def forward(self, x):
        if self.kind == "p":
            return self.weight
        y = self.map(x).unflatten(-1, (HEADS, -1))
        return y.squeeze(-1) if self.kind == "h" else y.transpose(-1, -2) if isinstance(self.kind, tuple) else y


class Mixer(nn.Module):
    def __init__(self, width, name):
        super().__init__()
        gates, self.memory = MEMORIES[name]
        writes = WRITES if name == "delta_product" else 1
        self.widths = [width, writes * width, writes * width]
        self.qkv, self.out = nn.Linear(width, sum(self.widths), bias=False), nn.Linear(width, width, bias=False)
        self.gates = nn.ModuleList(Gate(width, kind) for kind in gates)

    def forward(self, x):
        head = x.size(-1) // HEADS
        q, k, v = (part.unflatten(-1, (-1, head)) for part in self.qkv(x).split(self.widths, dim=-1))
        o = self.memory(q, k, v, *(gate(x) for gate in self.gates))
        o = o[0] if isinstance(o, tuple) else o  # most kernels also give a state
        return self.out(o.flatten(-2).to(x.dtype))


class Model(nn.Module):
    def __init__(self, width, name, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.mixers = nn.ModuleList(Mixer(width, name) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers + 1))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, position, labels):
        x = self.tokens(tokens)
        for norm, mixer in zip(self.norms, self.mixers):
            x = x + mixer(norm(x).to(torch.bfloat16))
        rows = x.gather(1, position.unsqueeze(-1).expand(-1, -1, x.size(-1)))
        logits = F.linear(self.norms[-1](rows), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def measure(name, width, repeats):
    """(milliseconds a step, how it ran, loss at last)."""
    model, data = Model(width, name).cuda(), batch(B, T, PAIRS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True, capturable=True)
    compiled = torch.compile(model)
    last = torch.zeros((), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(*data)
        loss.backward()
        optimizer.step()
        last.copy_(loss.detach())

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.synchronize()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        replay, how = graph.replay, "captured"
    except Exception as error:  # a kernel that asks the host while it runs
        torch.cuda.synchronize()
        replay, how = step, f"not captured ({type(error).__name__})"
    return timed(replay, repeats), how, last.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", nargs="+", default=list(MEMORIES), choices=list(MEMORIES), metavar="NAME")
    parser.add_argument("--widths", nargs="+", type=int, default=[128])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", metavar="FILE", help="adds a line of JSON a row")
    arguments = parser.parse_args()
    load_ops()
    for width in arguments.widths:
        for name in arguments.memories:
            torch.manual_seed(0)
            torch.compiler.reset()
            torch.cuda.empty_cache()
            row = {"memory": name, "width": width}
            try:
                row["ms"], row["how"], row["loss"] = measure(name, width, arguments.repeats)
                print(f"{name} d{width}: {row['ms']:.3f} ms a step, {row['how']}, loss {row['loss']:.3f}", flush=True)
            except Exception as error:  # a row that cannot be had does not take the others along
                row["problem"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''}"
                print(f"{name} d{width}: failed, {row['problem']}", flush=True)
            if arguments.json:
                with open(arguments.json, "a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
