"""Layers whose updates erase what they replace, as their authors' code has them.

F: fla-org/flash-linear-attention@bc3b101d; C: OpenEuroLLM/ComplexKDA@03af970; H: HanGuo97/log-linear-attention@7f86441.
Where a `deviation` is given, the program's layer is computed instead at that one place.
"""
# SPDX-License-Identifier: Apache-2.0
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false
import math

import numpy as np

from .parts import before, conv, join, layer_norm, rms, sigmoid, silu, softmax, softplus, unit


def recurrence(q, k, v, beta, g, erase=None, write=None, own=None, undecayed=False):
    """F fla/ops/*/naive.py: h = e^g h; h += write (beta (v - h erase)); o = h q, q divided by sqrt(K).

    g [B,T,H] or [B,T,H,K]; beta [B,T,H]; erase, write [B,T,H,K], k unless given; own [T] bool: tokens that are read, or all;
    undecayed: what is taken out is read before the decay.
    """
    erase, write = k if erase is None else erase, k if write is None else write
    B, T, H, K = k.shape
    g = g if g.ndim == 4 else g[..., None]
    h = np.zeros((B, H, K, v.shape[-1]))
    read = []
    for t in range(T):
        left = h * np.exp(g[:, t])[..., None]
        u = beta[:, t, :, None] * (v[:, t] - np.einsum("bhk,bhkv->bhv", erase[:, t], h if undecayed else left))
        h = left + write[:, t, :, :, None] * u[..., None, :]
        if own is None or own[t]:
            read.append(np.einsum("bhk,bhkv->bhv", q[:, t], h) / math.sqrt(K))
    return np.stack(read, 1)


def short(w, names="qkv", act="qkv"):
    """Projections with ShortConvolution behind them (F fla/modules/conv): of queries, keys and values [B,T,C] from x."""
    full = {"q": "query", "k": "key", "v": "value"}

    def of(name, x):
        y = w(full[name], x)
        if name in names:
            bias = w[f"short_conv.{name}.bias"] if f"short_conv.{name}.bias" in w else 0.0
            y = conv(y, w[f"short_conv.{name}"], bias)
        return silu(y) if name in act else y

    return of


def qkv(w, x, **names):
    of = short(w, **names)
    return tuple(w.heads_of(of(name, x)) for name in "qkv")


def mamba_gate(w, x, decay="decay", rate="A_log"):
    """g = -exp(A_log) softplus(a_proj(x) + dt_bias), [B,T,H] (F fla/ops/gated_delta_rule/gate.py)."""
    return -np.exp(w.flat("memory." + rate)) * softplus(w(decay, x))


def gated_norm(w, o, x, gate=silu):
    """FusedRMSNormGated (F fla/modules/fused_norm_gate.py): the gate comes after the norm; gains of a head's channels are shared."""
    return join(rms(o, w["out_norm.gain"]) * gate(w.split("out_gate", x)))


def deltanet(w, x, deviations):
    """F fla/layers/delta_net.py DeltaNet, its defaults."""
    q, k, v = qkv(w, x)
    o = recurrence(unit(q), unit(k), v, sigmoid(w("beta", x)), np.zeros(x.shape[:2] + (w.heads,)))
    return w("output", join(rms(o, w["out_norm.gain"])))


def gated_delta(w, x, deviations):
    """F fla/layers/gated_deltanet.py GatedDeltaNet."""
    q, k, v = qkv(w, x)
    o = recurrence(unit(q), unit(k), v, sigmoid(w("beta", x)), mamba_gate(w, x))
    return w("output", gated_norm(w, o, x))


def gated_delta2(w, x, deviations):
    """F fla/layers/gdn2.py GatedDeltaNet2, fla/ops/gdn2/naive.py."""
    q, k, v = qkv(w, x)
    q, k = unit(q), unit(k)
    g = -np.exp(w.flat("memory.A_log"))[:, None] * softplus(w.split("decay", x))
    erase, write = sigmoid(w.split("erase_gate", x)), sigmoid(w.split("write_gate", x))
    o = recurrence(q, k, write * v, np.ones(x.shape[:2] + (w.heads,)), g, erase=erase * k)
    return w("output", gated_norm(w, o, x, sigmoid))


def kda_gate(w, x):
    """F fla/ops/kda/gate.py naive_kda_gate."""
    return -np.exp(w.flat("memory.A_log"))[:, None] * softplus(w.split("decay", x))


def kda(w, x, deviations):
    """F fla/layers/kda.py KimiDeltaAttention."""
    q, k, v = qkv(w, x)
    o = recurrence(unit(q), unit(k), v, sigmoid(w("beta", x)), kda_gate(w, x))
    return w("output", gated_norm(w, o, x, sigmoid))


def complex_kda(w, x, deviations):
    """C fla/layers/complex_kda_layer.py ComplexKimiDeltaAttention, gate signed_sigmoid2; the sign multiplies the state."""
    q, k, v = qkv(w, x)
    least = math.exp(-5.0)
    a = np.tanh(0.5 * np.exp(w.flat("memory.A_log"))[:, None] * w.split("decay", x))
    sign = np.where(a < 0, -1.0, 1.0)
    running = np.cumprod(sign, 1)
    o = recurrence(unit(q) * running, unit(k) * running, v, sigmoid(w("beta", x)), np.log(least + (1 - least) * np.abs(a)))
    return w("output", gated_norm(w, o, x, sigmoid))


def comba(w, x, deviations):
    """F fla/layers/comba.py Comba. Its kernels (fla/ops/comba/chunk.py:202-205, fused_recurrent.py:92-99) normalise q, k and p, and
    take out what is read before the decay, other than naive.py."""
    q, k, v = qkv(w, x)
    inner, correction = sigmoid(w.flat("memory.inner_decay"))[:, None], w.flat("memory.correction")[:, None]
    p = k * inner
    if "correction of unit vectors" in deviations:
        q = unit(q) - correction * inner * unit(k)
    else:
        q = unit(q - correction * p)
    p = unit(k) * inner if "feedback key as it is" in deviations else unit(p)
    o = recurrence(q, unit(k), v, sigmoid(w("beta", x)), mamba_gate(w, x), erase=p, undecayed=True)
    return w("output", gated_norm(w, o, x, sigmoid))


def delta_product(w, x, deviations):
    """F fla/layers/gated_deltaproduct.py GatedDeltaProduct with two Householder steps, as its recurrent mode unrolls them."""
    B, T, _ = x.shape
    n, of = 2, short(w)
    q = unit(w.heads_of(of("q", x)))
    k, v = (of(name, x).reshape(B, T * n, w.heads, -1) for name in "kv")
    beta = 2 * np.reshape(sigmoid(w("beta", x)), (B, T * n, w.heads))
    g = np.zeros((B, T, n, w.heads))
    g[:, :, 0] = mamba_gate(w, x)
    late = np.zeros((B, T, n) + q.shape[2:])
    late[:, :, -1] = q
    late, g = (y.reshape(B, T * n, *y.shape[3:]) for y in (late, g))
    o = recurrence(late, unit(k), v, beta, g, own=np.arange(T * n) % n == n - 1)
    return w("output", gated_norm(w, o, x))


def preconditioned(w, x, k, decay_a):
    """F fla/ops/precond_gated_delta_rule/naive.py: keys times squash^(-s) of the logarithm of their channels' use."""
    beta = sigmoid(w("beta_a", x))
    center = w.flat("memory.center")[:, None]
    a, written = np.zeros(k[:, 0].shape), np.empty_like(k)
    for t in range(k.shape[1]):
        a = a * np.exp(decay_a[:, t])[..., None] + beta[:, t, :, None] * k[:, t] ** 2
        r = np.log(a + 1e-6) - center
        written[:, t] = k[:, t] * np.exp(-math.log(1.5) * r / (1 + np.abs(r)))
    return written


def precond_gated_delta(w, x, deviations):
    """F fla/layers/precond_gated_deltanet.py PrecondGatedDeltaNet."""
    q, k, v = qkv(w, x)
    k = unit(k)
    written = preconditioned(w, x, k, mamba_gate(w, x, "decay_a", "A_log_a"))
    o = recurrence(unit(q), k, v, sigmoid(w("beta", x)), mamba_gate(w, x), write=written)
    return w("output", gated_norm(w, o, x))


def precond_kda(w, x, deviations):
    """F fla/layers/precond_kda.py PrecondKDA."""
    q, k, v = qkv(w, x)
    k = unit(k)
    written = preconditioned(w, x, k, mamba_gate(w, x, "decay_a", "A_log_a"))
    o = recurrence(unit(q), k, v, sigmoid(w("beta", x)), kda_gate(w, x), write=written)
    return w("output", gated_norm(w, o, x, sigmoid))


def level(t, s):
    """H hattention/base.py get_level_index_weak, base 2, in [0, t]: 0 of the token itself."""
    number = 0
    while s < t:
        number = int(math.log2(t))
        if s < 1 << number:
            return number + 1
        t, s = t - (1 << number), s - (1 << number)
    return 0


def levels(w, x):
    """softplus(L dl) (H hattention/mamba_apis.py compute_lambda) of every pair of tokens, [B,H,T,T], 0 above the diagonal."""
    T = x.shape[1]
    scale = softplus(w["memory.level_scale"] * w.split("levels", x))
    number = np.array([[level(t, s) for s in range(T)] for t in range(T)])
    return np.tril(np.take_along_axis(scale.transpose(0, 2, 1, 3), np.broadcast_to(number, (len(x), w.heads, T, T)), -1))


def log_linear_gated_delta(w, x, deviations):
    """H hattention/modeling_h_gated_deltanet.py HGatedDeltaNet; gated_delta_rule_apis.py:60 undoes the scale of queries."""
    q, k, v = qkv(w, x)
    q, k, T = unit(q), unit(k), x.shape[1]
    if "queries divided" in deviations:
        q = q / math.sqrt(k.shape[-1])
    g, beta, weight = mamba_gate(w, x), sigmoid(w("beta", x)), levels(w, x)
    o = np.zeros(v.shape)
    for s in range(T):  # what of the write at s is left at t, in keys
        left = beta[:, s, :, None] * k[:, s]
        for t in range(s, T):
            if t > s:
                left = np.exp(g[:, t])[..., None] * left
                left = left - beta[:, t, :, None] * (left * k[:, t]).sum(-1, keepdims=True) * k[:, t]
            o[:, t] += (weight[:, :, t, s] * (left * q[:, t]).sum(-1))[..., None] * v[:, s]
    return w("output", gated_norm(w, o, x))


def mom(w, x, deviations):
    """F fla/layers/mom.py MomAttention with single_kv_proj, which alone has the program's parameters.

    Convolutions and the recurrence see the tokens of one memory alone; one router serves all heads.
    """
    B, T, _ = x.shape
    weights = softmax(w("router", x).reshape(B, T, w.heads, -1))
    if "one router for all heads" not in deviations:
        weights = np.broadcast_to(weights[:, :, :1], weights.shape)
    picked = np.argsort(-weights, -1)[..., :2]
    chosen = np.zeros(weights.shape, bool)
    np.put_along_axis(chosen, picked, True, -1)
    weights = np.where(chosen, weights, 0)
    weights = weights / weights.sum(-1, keepdims=True)
    g, beta = mamba_gate(w, x), sigmoid(w("beta", x))
    whole, o = qkv(w, x), 0
    for e in range(weights.shape[-1]):
        inside = chosen[..., e]
        parts = whole if "convolutions over all tokens" in deviations else routed(w, x, inside)
        q, k, v = unit(parts[0]), unit(parts[1]), parts[2]
        o = o + weights[..., e, None] * recurrence(q, k, v, beta * inside, g * inside)
    return w("output", gated_norm(w, o, x))


def routed(w, x, inside):
    """Queries, keys and values convolved over the tokens inside a memory, [B,T,H,.], 0 elsewhere; inside [B,T,H], equal for heads."""
    full, parts = {"q": "query", "k": "key", "v": "value"}, []
    for name in "qkv":
        y = w(full[name], x)
        out = np.zeros_like(y)
        for b in range(len(x)):
            at = np.nonzero(inside[b, :, 0])[0]
            if at.size:
                out[b, at] = silu(conv(y[b, at][None], w[f"short_conv.{name}"]))[0]
        parts.append(w.heads_of(out))
    return parts


def rwkv7(w, x, deviations):
    """F fla/layers/rwkv7.py RWKV7Attention, fla/ops/rwkv7: S = S diag(e^w) - (S kk)(kk a)^T + v k^T, r reads after the write."""
    delta = before(x) - x
    xr, xw, xk, xv, xa, xg = (x + delta * w["input_shift." + n] for n in ("query", "decay", "key", "value", "rate", "out_gate"))
    r, k, v = w("query", xr), w("key", xk), w("value", xv)
    decay = -0.6065306597126334 * sigmoid(w("decay", xw, through=np.tanh))
    first = w.memo.setdefault("v_first", v)
    if w.layer > 0:
        v = v + sigmoid(w("value_residual", xv)) * (first - v)
    a = sigmoid(w("rate", xa))
    gate = sigmoid(xg @ w["out_gate.down.weight"].T) @ w["out_gate.up.weight"].T
    kk = unit(w.heads_of(k * w.flat("memory.erase_scale")))
    k = k * (1 + (a - 1) * w.flat("memory.key_mix"))
    r, k, v, a, decay = (w.heads_of(y) for y in (r, k, v, a, decay))
    K = k.shape[-1]
    S, read = np.zeros((len(x), w.heads, v.shape[-1], K)), []
    for t in range(x.shape[1]):
        erased = np.einsum("bhvk,bhk->bhv", S, kk[:, t])
        S = S * np.exp(decay[:, t])[..., None, :] - erased[..., None] * (kk * a)[:, t, :, None] + v[:, t, ..., None] * k[:, t, :, None]
        read.append(np.einsum("bhvk,bhk->bhv", S, r[:, t]))
    o = layer_norm(np.stack(read, 1), w["out_norm.gain"], w["out_norm.bias"], eps=K * 1e-5)
    o = o + (r * k * w["bonus"]).sum(-1, keepdims=True) * v
    return w("output", join(o) * gate)
