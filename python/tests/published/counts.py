"""Parameters of one layer by its authors' constructors: `python python/tests/published/counts.py` writes counts.csv.

Each function lists the shapes that the constructor named in `sources.SOURCES` makes, with biases as it has them, at width C and H heads of
K = C / H channels. They were written from the constructors and from nothing else. Layers after the first are meant, as RWKV-7's first has fewer.
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import math
from pathlib import Path

SIZES = ((64, 2), (256, 8))


def linear(inputs, outputs, bias=False):
    return inputs * outputs + (outputs if bias else 0)


def convs(*channels, width=4, bias=False):
    return sum(channels) * (width + bias)


def deltanet(C, H, K):
    return 4 * linear(C, C) + linear(C, H) + convs(C, C, C) + K


def gated_delta(C, H, K):
    return 2 * linear(C, C) + 3 * linear(C, 2 * C) + 2 * linear(C, H) + 2 * H + convs(C, C, 2 * C) + 2 * K


def kda(C, H, K):
    low = 2 * (linear(C, K) + linear(K, C))
    return 4 * linear(C, C) + low + C + linear(C, H) + H + C + convs(C, C, C) + K


def gated_delta2(C, H, K):
    return kda(C, H, K) - linear(C, H) + 2 * linear(C, C)


def comba(C, H, K):
    return gated_delta(C, H, K) + 2 * H


def delta_product(C, H, K):
    return 3 * linear(C, C) + 4 * linear(C, 2 * C) + 3 * linear(C, H) + 2 * H + convs(C, 2 * C, 4 * C) + 2 * K


def precond_gated_delta(C, H, K):
    return gated_delta(C, H, K) + 2 * linear(C, H) + 3 * H


def precond_kda(C, H, K):
    return kda(C, H, K) + 2 * linear(C, H) + 3 * H


def mesa(C, H, K):
    return 4 * linear(C, C) + 2 * linear(C, H, True) + C + convs(C, C) + K


def mom(C, H, K):
    """MomAttention's defaults: 8 memories with their own projections, no shared one."""
    own = linear(C, C) + linear(C, 2 * C) + 2 * linear(C, H)
    return linear(C, C) + linear(C, 8) + 8 * own + 2 * H + convs(C, C, 2 * C) + 2 * linear(C, 2 * C) + 2 * K


LEVELS = math.ceil(math.log2(2048 * 8)) + 1


def log_linear_gated_delta(C, H, K):
    return gated_delta(C, H, K) + linear(C, H * LEVELS) + H * LEVELS


def rwkv7(C, H, K):
    def rank(factor, scale):
        return max(32, round(factor * C**0.5 * scale / 32) * 32)

    low = [rank(2.5, K / 64), rank(2.5, K / 64), rank(1.7, K / 64)]  # decay, a, v: with a bias
    return 4 * linear(C, C) + sum(2 * C * r + C for r in low) + 2 * C * rank(5, 1) + 6 * C + 3 * C + 2 * C


def gla(C, H, K):
    return 2 * linear(C, C // 2) + 3 * linear(C, C) + linear(C, 16) + linear(16, C // 2, True) + K


def simple_gla(C, H, K):
    return 5 * linear(C, C) + linear(C, H, True) + convs(C, C, C) + K


def hgrn2(C, H, K):
    """With its row of the model's bounds."""
    return 4 * linear(C, C) + C + C


def retnet(C, H, K):
    return 2 * linear(C, C) + 3 * linear(C, 2 * C)


def mamba1(C, H, K):
    D, N, rank = 2 * C, 16, math.ceil(C / 16)
    return linear(C, 2 * D) + convs(D, bias=True) + linear(D, rank + 2 * N) + linear(rank, D, True) + D * N + D + linear(D, C)


def mamba2(C, H, K, levels=0):
    D, N, heads = 2 * C, 128, 2 * C // 64
    return linear(C, 2 * D + 2 * N + heads * (1 + levels)) + convs(D + 2 * N, bias=True) + (3 + levels) * heads + D + linear(D, C)


def log_linear_attention(C, H, K):
    return mamba2(C, H, K, LEVELS)


def mamba3(C, H, K):
    D, N, heads = 2 * C, 128, 2 * C // 64
    return linear(C, 2 * D + 2 * N + 3 * heads + N // 4) + 2 * heads + 2 * heads * N + 2 * N + linear(D, C)


def longhorn_diagonal(C, H, K):
    D, N, rank = 2 * C, 16, math.ceil(C / 16)
    return linear(C, 2 * D) + convs(D, bias=True) + linear(D, rank + 2 * N) + linear(rank, D, True) + linear(D, C) + D


def mlstm(C, H, K):
    D = 2 * C
    return linear(C, 2 * D) + 3 * 4 * D + convs(D, bias=True) + 2 * linear(3 * D, H, True) + 2 * D + linear(D, C)


def slstm(C, H, K):
    return convs(C, bias=True) + 4 * C * K + 4 * C * K + 4 * C + C


SLOTS = 64  # of the released models, GSAConfig and RavenConfig


def gsa(C, H, K):
    return 4 * linear(C, C) + linear(C, H * SLOTS) + C


def raven(C, H, K):
    return 4 * linear(C, C) + linear(C, H) + 2 * H + linear(C, H * SLOTS) + 2 * K + C


def rwkv6(C, H, K):
    return 5 * linear(C, C) + 6 * C + 2 * C * 5 * 32 + C + 2 * C * 64 + C + 2 * C


def rwkv4(C, H, K):
    return 4 * linear(C, C) + 5 * C


def softmax(C, H, K):
    return linear(C, 3 * C, True) + linear(C, C, True)


def rope(C, H, K):
    return 4 * linear(C, C)


def qk_norm(C, H, K):
    return 4 * linear(C, C) + 2 * K


def gated_attention(C, H, K):
    return 5 * linear(C, C) + 2 * K


def attention_sink(C, H, K):
    """Without the block's norm; as many keys as queries."""
    return softmax(C, H, K) + H


def fox(C, H, K):
    return 5 * linear(C, C) + 2 * linear(C, H) + linear(C, H, True) + C + 2 * C


def path(C, H, K):
    return 4 * linear(C, C) + linear(C, 32) + linear(32, C) + convs(C, width=3) + linear(C, H, True)


def path_fox(C, H, K):
    return path(C, H, K) + linear(C, H, True)


def parallax(C, H, K):
    return 5 * linear(C, C)


def wall(C, H, K):
    return 4 * linear(C, C) + linear(C, C, True)


def memory_mosaics(C, H, K):
    """ContextMem with its default biases; numbers of a head: leak, scale of keys, coefficient and scale of values."""
    return 3 * linear(C, C, True) + 4 * H


def linear_attention(C, H, K):
    """One head of 16 features, as Zoology's experiments have it."""
    return 2 * linear(C, 16) + 2 * linear(C, C)


def h3(C, H, K):
    """head_dim 2 and d_state C / 4, as Zoology's experiments have it; B and C of both kernels are parameters, complex ones twice."""
    N, heads = C // 4, C // 2
    kernel = heads + heads * (N // 2) * (2 + 2 + 1 + 1)
    return 4 * linear(C, C, True) + 2 * C * N + C + kernel + heads


def hyena(C, H, K, length=256):
    """filter_order 64, l_max 256; the positions of its filter are a parameter."""
    inner = linear(3, 64, True) + 64 + 2 * linear(64, 64, True) + linear(64, C)
    return linear(C, 3 * C, True) + linear(C, C, True) + convs(3 * C, width=3, bias=True) + C + 3 * length + inner


def long_conv(C, H, K):
    return linear(C, C, True) + linear(3, 16, True) + linear(16, C, True)


def ttt_linear(C, H, K, inner=None):
    inner = H * (K * K + K) if inner is None else inner
    return 4 * linear(C, C) + H * C + H + 2 * C + 2 * C + 16 + inner


def ttt_mlp(C, H, K):
    return ttt_linear(C, H, K, H * (8 * K * K + 5 * K))


def deltaformer(C, H, K):
    """Of the paper: queries, keys, values and output; no code of its authors is public."""
    return rope(C, H, K)


LAYERS = {name: value for name, value in list(globals().items()) if callable(value) and name not in ("linear", "convs", "Path")}
LAYERS.update(complex_kda=kda, sliding_window=softmax)


def main():
    with open(Path(__file__).with_name("counts.csv"), "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["memory", "width", "heads", "parameters", "made"])
        for name in sorted(LAYERS):
            for width, heads in SIZES:
                out.writerow([name, width, heads, LAYERS[name](width, heads, width // heads), "formula"])


if __name__ == "__main__":
    main()
