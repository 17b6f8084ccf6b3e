"""Layers that learn at test time, as test-time-training/ttt-lm-pytorch@cd831db ttt.py has them (dual form, mini-batches of 16)."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from .parts import gelu_tanh, join, layer_norm, rotated, sigmoid
from .sums import plain

SIZE = 16


def ln_fused_l2_bwd(x, target, gain, bias, eps=1e-6):
    width = x.shape[-1]
    x = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    x = x / deviation
    d = (gain * x + bias - target) * gain
    return (width * d - d.sum(-1, keepdims=True) - x * (d * x).sum(-1, keepdims=True)) / (width * deviation)


def gelu_bwd(x):
    t = np.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
    return 0.5 * x * (1 - t * t) * (0.79788456 + 0.1070322243 * x * x) + 0.5 * (1 + t)


def ttt(w, x, deviations, base, layers):
    """TTTBase.forward around `layers`: pairs of names of weights [H,in,out] and biases [H,1,out], GELU between them."""
    q, k, v = (y.transpose(0, 2, 1, 3) for y in plain(w, x))
    positions = np.arange(x.shape[1]) % SIZE
    q, k = (rotated(y.transpose(0, 2, 1, 3), positions=positions).transpose(0, 2, 1, 3) for y in (q, k))
    H, d = w.heads, q.shape[-1]
    rate = base * sigmoid(w("rate", x)).transpose(0, 2, 1)[:, :, None] / d  # [B,H,1,T], a column a token
    place = np.ones(SIZE) if "gradients not weighed by the reader's place" in deviations else 1.0 / np.arange(1, SIZE + 1)
    gain, bias = w["memory.gain"][:, None], w["memory.bias"][:, None]
    state = [(np.broadcast_to(a, (len(x),) + a.shape), np.broadcast_to(b, (len(x),) + b.shape)) for a, b in layers]
    read = []
    for at in range(0, x.shape[1], SIZE):
        xq, xk, xv = (y[:, :, at : at + SIZE] for y in (q, k, v))
        n = xk.shape[2]
        eta = np.tril(place[:n, None] * rate[..., at : at + n])
        seen, z = [xk], None
        for number, (a, b) in enumerate(state):
            z = seen[-1] @ a + b
            if number + 1 < len(state):
                seen.append(gelu_tanh(z))
        before = seen[-1] if len(state) == 1 else xk @ state[0][0] + state[0][1]
        grads = [ln_fused_l2_bwd(z, xv - xk, gain, bias)]
        if len(state) == 2:
            grads.insert(0, grads[0] @ state[1][0].swapaxes(-1, -2) * gelu_bwd(before))
        y, new = xq, []
        for number, ((a, b), key, grad) in enumerate(zip(state, seen, grads)):
            y = y @ a + b - (eta * np.tril(y @ key.swapaxes(-1, -2))) @ grad - eta @ grad
            if number + 1 < len(state):
                y = gelu_tanh(y)
            last = eta[:, :, -1, :, None]
            new.append((a - (last * key).swapaxes(-1, -2) @ grad, b - (last * grad).sum(-2, keepdims=True)))
        state = new
        read.append(xq + layer_norm(y, gain, bias, 1e-6))
    o = np.concatenate(read, 2).transpose(0, 2, 1, 3)
    return w("output", layer_norm(join(o), w.flat("out_norm.gain"), w.flat("out_norm.bias"), 1e-6))


def weights(w, name, out):
    """The program's [H, out * in] as the authors' [H,in,out]."""
    return w["memory." + name].reshape(w.heads, out, -1).transpose(0, 2, 1)


def ttt_linear(w, x, deviations):
    """TTTLinear, ttt_base_lr 1."""
    d = x.shape[-1] // w.heads
    return ttt(w, x, deviations, 1.0, [(weights(w, "start", d), w["memory.start_b"][:, None])])


def ttt_mlp(w, x, deviations):
    """TTTMLP; ttt_base_lr 0.1, as the paper has it (the code's default is 1)."""
    d = x.shape[-1] // w.heads
    return ttt(w, x, deviations, 0.1, [(weights(w, "w1_0", 4 * d), w["memory.b1_0"][:, None]), (weights(w, "w2_0", d), w["memory.b2_0"][:, None])])
