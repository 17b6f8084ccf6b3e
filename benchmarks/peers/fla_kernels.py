"""Times flash-linear-attention's chunkwise kernels, forward and backward, at the shapes of benchmarks/README.md.

    pip install flash-linear-attention && python3 benchmarks/peers/fla_kernels.py [linear delta gated_delta kda]

q and k of length 1, gates per head and token (kda: per channel), bfloat16 and float32 tensors; the median of 8 passes
after 3, between two CUDA events. The first run compiles and tunes for minutes: set TRITON_CACHE_AUTOTUNING=1 and run
twice. A kernel that refuses a format says so in its row.
"""

import sys

import torch
import torch.nn.functional as F
from fla.ops.delta_rule import chunk_delta_rule
from fla.ops.gated_delta_rule import chunk_gated_delta_rule
from fla.ops.kda import chunk_kda
from fla.ops.linear_attn import chunk_linear_attn

SHAPES = [(256, 256, 2, 64), (8, 4096, 16, 128)]  # B, T, H, D


def microseconds(step, repeats=8):
    times = []
    for i in range(3 + repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return sorted(times[3:])[repeats // 2]


def kernels(B, T, H, D, dtype):
    def leaf(x):
        return x.to(dtype).requires_grad_()

    def unit():
        return leaf(F.normalize(torch.randn(B, T, H, D, device="cuda"), dim=-1))

    q, k, v = unit(), unit(), leaf(torch.randn(B, T, H, D, device="cuda"))
    beta = leaf(torch.rand(B, T, H, device="cuda"))
    g = (-torch.rand(B, T, H, device="cuda")).requires_grad_()
    channels = (-torch.rand(B, T, H, D, device="cuda")).requires_grad_()
    return {
        "linear": lambda: chunk_linear_attn(q, k, v, normalize=False)[0],
        "delta": lambda: chunk_delta_rule(q, k, v, beta)[0],
        "gated_delta": lambda: chunk_gated_delta_rule(q, k, v, g, beta)[0],
        "kda": lambda: chunk_kda(q, k, v, channels, beta)[0],
    }


def main():
    torch.manual_seed(0)
    for B, T, H, D in SHAPES:
        for dtype in (torch.bfloat16, torch.float32):
            cotangent = torch.randn(B, T, H, D, device="cuda", dtype=dtype)
            for name, kernel in kernels(B, T, H, D, dtype).items():
                if sys.argv[1:] and name not in sys.argv[1:]:
                    continue
                try:
                    result = f"{microseconds(lambda: kernel().backward(cotangent)):.0f} us"
                except Exception as error:  # the row says why
                    result = f"refused: {str(error)[:100]}"
                print(f"fla {name} B{B} T{T} H{H} D{D} {str(dtype)[6:]}: {result}", flush=True)


main()
