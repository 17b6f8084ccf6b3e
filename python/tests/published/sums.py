"""Layers that add to a decaying state, as their authors' code has them.

F: fla-org/flash-linear-attention@bc3b101d; M: state-spaces/mamba@e9594ce; L: Cranial-XIX/longhorn@4ea1745;
T: microsoft/torchscale@05a9628; X: NX-AI/xlstm@032a6fb; Z: HazyResearch/zoology@d88d6f5;
R4, R6: BlinkDL/RWKV-LM@083f950 RWKV-v4/src/model.py, @033ce84 RWKV-v5/src/model.py.
Where a `deviation` is given, the program's layer is computed instead at that one place.
"""
# SPDX-License-Identifier: Apache-2.0
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false
import math

import numpy as np

from .delta import gated_norm, levels, mamba_gate, qkv, short
from .parts import before, causal, conv, join, layer_norm, log_sigmoid, rms, rotated, scores, sigmoid, silu, softmax, softplus


def added(q, k, v, g):
    """F fla/ops/gla/naive.py: h = e^g h + k v^T, o = h q with q divided by sqrt(K); g [B,T,H] or [B,T,H,K]."""
    g = g if g.ndim == 4 else g[..., None]
    h, read = 0.0, []
    for t in range(k.shape[1]):
        h = h * np.exp(g[:, t])[..., None] + k[:, t, ..., None] * v[:, t, :, None]
        read.append(np.einsum("bhk,bhkv->bhv", q[:, t], h) / math.sqrt(k.shape[-1]))
    return np.stack(read, 1)


def plain(w, x):
    return tuple(w.split(name, x) for name in ("query", "key", "value"))


def gla(w, x, deviations):
    """F fla/layers/gla.py GatedLinearAttention: expand_k 0.5, rank 16, logits over 16."""
    q, k, v = plain(w, x)
    o = added(q, k, v, log_sigmoid(w.split("decay", x)) / 16)
    return w("output", gated_norm(w, o, x))


def simple_gla(w, x, deviations):
    """F fla/layers/simple_gla.py SimpleGatedLinearAttention."""
    q, k, v = qkv(w, x)
    return w("output", gated_norm(w, added(q, k, v, log_sigmoid(w("decay", x)) / 16), x))


def hgrn2(w, x, deviations):
    """F fla/layers/hgrn2.py HGRN2Attention; models/hgrn2/modeling_hgrn2.py:300: bounds are a cumulated softmax over the layers, minus
    that of the first, of two layers the sigmoid of a difference, which the program has in place of it."""
    bound = sigmoid(w["memory.bound"]) if w.layer else 0.0
    f = bound + (1 - bound) * sigmoid(w.split("forget_gate", x))
    o = added(silu(w.split("query", x)), 1 - f, w.split("value", x), np.log(f))
    return w("output", rms(join(o), w.flat("out_norm.gain")))


def retnet(w, x, deviations):
    """T torchscale/component/multiscale_retention.py parallel_forward, architecture/retnet.py RetNetRelPos."""
    q, k, v = plain(w, x)
    T, K = x.shape[1], k.shape[-1]
    frequency = 1 / 10000 ** np.linspace(0, 1, K // 2)
    if "RoPE's own frequencies" in deviations:
        frequency = 10000.0 ** (-np.arange(K // 2) / (K // 2))
    angles = (np.arange(T)[:, None] * frequency)[:, None]
    q, k = rotated(q, angles=angles), rotated(k * K**-0.5, angles=angles)
    decay = np.log(1 - 2.0 ** (-5 - np.arange(w.heads)))
    distance = np.arange(T)[:, None] - np.arange(T)
    mask = np.where(distance >= 0, np.exp(np.maximum(distance, 0) * decay[:, None, None]), 0.0)
    if "no division by the sum of a row" in deviations:
        weights = scores(q, k) * mask
    else:
        weights = scores(q, k) * (mask / np.sqrt(mask.sum(-1, keepdims=True)))
        weights = weights / np.maximum(np.abs(weights.sum(-1, keepdims=True)), 1)
    o = rms(np.einsum("bhts,bshv->bthv", weights, v), eps=1e-6)
    return w("output", silu(w("out_gate", x)) * join(o))


def scan(x, step, rate, B, C):
    """M mamba_ssm/ops/selective_scan_interface.py: every channel of x [B,T,D] has its step and its row of rates [D,N]."""
    h, read = 0.0, []
    for t in range(x.shape[1]):
        h = np.exp(-step[:, t, :, None] * rate) * h + (step * x)[:, t, :, None] * B[:, t, None]
        read.append((h * C[:, t, None]).sum(-1))
    return np.stack(read, 1)


def inner(w, x):
    return silu(conv(w("value", x), w["short_conv.v"], w["short_conv.v.bias"]))


def mamba1(w, x, deviations):
    """M mamba_ssm/modules/mamba_simple.py Mamba."""
    u = inner(w, x)
    rate = np.exp(w["memory.log_rate"]).reshape(u.shape[-1], -1)
    y = scan(u, softplus(w("step", u)), rate, w("key", u), w("query", u))
    return w("output", (y + w.flat("out_skip") * u) * silu(w("out_gate", x)))


def longhorn_diagonal(w, x, deviations):
    """L models/longhorn.py Longhorn.step."""
    u = inner(w, x)
    k, q = w("key", u), w("query", u)
    step = sigmoid(w("beta", u))
    step = step / (1 + step * (k * k).sum(-1, keepdims=True))
    h, read = 0.0, []
    for t in range(x.shape[1]):
        h = (1 - step[:, t, :, None] * k[:, t, None] ** 2) * h + (step * u)[:, t, :, None] * k[:, t, None]
        read.append((h * q[:, t, None]).sum(-1))
    y = np.stack(read, 1) + w.flat("out_skip") * u
    return w("output", y * silu(w("out_gate", x)))


def mamba2_parts(w, x):
    """M mamba_ssm/modules/mamba2.py: convolved x [B,T,H,P], B and C of one group [B,T,N], steps [B,T,H] and rates [H]."""
    of = short(w)
    return w.heads_of(of("v", x)), of("k", x), of("q", x), softplus(w("step", x)), np.exp(w.flat("memory.A_log"))


def mamba2_end(w, x, y, u):
    """The skip, the gate, then RMSNorm over all channels (RMSNormGated, norm_before_gate=False)."""
    y = join(y + w["out_skip"] * u) * silu(w("out_gate", x))
    return w("output", rms(y, w.flat("out_norm.gain")))


def mamba2(w, x, deviations):
    """M mamba_ssm/modules/mamba2.py Mamba2, one group."""
    u, B, C, step, rate = mamba2_parts(w, x)
    h, read = 0.0, []
    for t in range(x.shape[1]):
        h = np.asarray(np.exp(-step[:, t] * rate))[..., None, None] * h + (step[:, t, :, None] * u[:, t])[..., None] * B[:, t, None, None]
        read.append(np.einsum("bhpn,bn->bhp", h, C[:, t]))
    return mamba2_end(w, x, np.stack(read, 1), u)


def log_linear_attention(w, x, deviations):
    """F fla/layers/log_linear_mamba2.py LogLinearMamba2, fla/ops/log_linear_attn/naive.py."""
    u, B, C, step, rate = mamba2_parts(w, x)
    total = np.cumsum(-step * rate, 1).transpose(0, 2, 1)
    decay = np.exp(np.where(causal(x.shape[1]), total[..., None] - total[..., None, :], -np.inf))
    weights = np.einsum("btn,bsn->bts", C, B)[:, None] * decay * levels(w, x)
    return mamba2_end(w, x, np.einsum("bhts,bshp->bthp", weights, u * step[..., None]), u)


def mamba3(w, x, deviations):
    """M mamba_ssm/modules/mamba3.py Mamba3 (SISO), tests/ops/triton/test_mamba3_siso.py mamba3_siso_step_ref."""
    v, step, raw = w.split("value", x), softplus(w("step", x)), w("rate", x)
    alpha = np.exp(step * np.minimum(-(np.maximum(raw, 0) + 1 / (1 - np.minimum(raw, 0))), -1e-4))
    mix = sigmoid(w("mix", x))
    k = rms(w("key", x), w.flat("qk_norm.k"))[:, :, None] + w["memory.k_bias"]
    q = rms(w("query", x), w.flat("qk_norm.q"))[:, :, None] + w["memory.q_bias"]
    turn = w.split("angle", x)  # a head's own: the authors' one row serves all heads, which a head's own row can be
    if "angles of every head" not in deviations:
        turn = np.broadcast_to(turn[:, :, :1], turn.shape)
    turn = np.cumsum(np.pi * np.tanh(turn) * step[..., None], 1)
    turn = np.pad(turn, ((0, 0),) * 3 + ((0, k.shape[-1] // 2 - turn.shape[-1]),))
    q, k = rotated(q, angles=turn), rotated(k, angles=turn)
    h, read, last = 0.0, [], 0.0
    for t in range(x.shape[1]):
        now = k[:, t, :, None] * v[:, t, ..., None]
        a, m, d = (y[:, t, :, None, None] for y in (alpha, mix, step))
        h, last = a * h + (1 - m) * d * a * last + m * d * now, now
        read.append((h * q[:, t, :, None]).sum(-1))
    y = np.stack(read, 1) + w["out_skip"] * v
    return w("output", join(y) * silu(w("out_gate", x)))


def rwkv6(w, x, deviations):
    """R6 RWKV_Tmix_x060."""
    xx = before(x) - x
    mixed = x + xx * w["input_shift.all"]

    def of(name):
        low = np.tanh(mixed @ w[f"input_shift.{name}.down.weight"].T) @ w[f"input_shift.{name}.up.weight"].T
        return x + xx * (w["input_shift." + name] + low)

    r, k, v = (w.split(name, of(name)) for name in ("query", "key", "value"))
    gate = silu(w("out_gate", of("out_gate")))
    decay = np.exp(-np.exp(w.split("decay", of("decay"), through=np.tanh)))
    h, read = np.zeros(()), []
    for t in range(x.shape[1]):
        now = k[:, t, ..., None] * v[:, t, :, None]
        read.append(np.einsum("bhk,bhkv->bhv", r[:, t], h + w["memory.bonus"][..., None] * now))
        h = h * decay[:, t, ..., None] + now
    o = layer_norm(np.stack(read, 1), w["out_norm.gain"], w["out_norm.bias"], eps=64e-5)
    return w("output", join(o) * gate)


def rwkv4(w, x, deviations):
    """R4 RWKV_TimeMix; the weighted mean of its CUDA kernel, cuda/wkv_cuda.cu."""
    xx = before(x)
    xk, xv, xr = (x + w["input_shift." + name] * (xx - x) for name in ("channel_key", "value", "receptance"))
    bias = "biases of keys and receptances" in deviations
    k, r = (w(n, y) if bias else y @ w[n + ".weight"].T for n, y in (("channel_key", xk), ("receptance", xr)))
    v, decay, bonus = w("value", xv), -np.exp(w.flat("memory.decay")), w.flat("memory.bonus")
    top, bottom, most, read = 0.0, 0.0, np.full(v[:, 0].shape, -1e38), []
    for t in range(x.shape[1]):
        high = np.maximum(most, k[:, t] + bonus)
        a, b = np.exp(most - high), np.exp(k[:, t] + bonus - high)
        read.append((a * top + b * v[:, t]) / (a * bottom + b))
        high = np.maximum(most + decay, k[:, t])
        a, b = np.exp(most + decay - high), np.exp(k[:, t] - high)
        top, bottom, most = a * top + b * v[:, t], a * bottom + b, high
    return w("output", sigmoid(r) * np.stack(read, 1))


def slots(q, k, v, write, g):
    """F fla/ops/gsa/naive.py with scale 1: reads of keys by slot, their softmax, reads of values by slot; g, write [B,T,H,M]."""
    hk, hv, read = 0.0, 0.0, []
    for t in range(k.shape[1]):
        left = np.exp(g[:, t])
        hk = hk * left[..., None, :] + k[:, t, ..., None] * write[:, t, :, None]
        hv = hv * left[..., None] + write[:, t, ..., None] * v[:, t, :, None]
        read.append(np.einsum("bhm,bhmv->bhv", softmax(np.einsum("bhk,bhkm->bhm", q[:, t], hk)), hv))
    return np.stack(read, 1)


def gsa(w, x, deviations):
    """F fla/layers/gsa.py GatedSlotAttention."""
    q, k, v = (silu(y) for y in plain(w, x))
    g = log_sigmoid(w.split("decay", x)) / 8
    o = join(slots(q, k, v, 1 - np.exp(g), g))
    return w("output", rms(silu(o), w.flat("out_norm.gain")))


def raven(w, x, deviations):
    """F fla/layers/raven.py Raven as it answers, without the noise of training."""
    q, k, v = (silu(y) for y in plain(w, x))
    q, k = rms(q, w["qk_norm.q"]), rms(k, w["qk_norm.k"])
    score = sigmoid(w.split("router", x))
    order = np.argsort(-score, -1, kind="stable")
    share = np.where(np.argsort(order, -1) < min(32, score.shape[-1]), score, 0)
    share = share / (share.sum(-1, keepdims=True) + 1e-9)
    g = mamba_gate(w, x)[..., None] * share
    o = join(slots(q, k, v, 1 - np.exp(g), g))
    return w("output", rms(silu(o), w.flat("out_norm.gain")))


def mlstm_cell(q, k, v, log_input, forget):
    """X xlstm/blocks/mlstm/backends.py parallel_stabilized_simple; gates [B,T,H]."""
    total = np.cumsum(log_sigmoid(forget), 1).transpose(0, 2, 1)
    log_d = total[..., None] - total[..., None, :] + log_input.transpose(0, 2, 1)[..., None, :]
    log_d = np.where(causal(q.shape[1]), log_d, -np.inf)
    most = log_d.max(-1, keepdims=True)
    c = scores(q, k / math.sqrt(k.shape[-1])) * np.exp(log_d - most)
    c = c / (np.maximum(np.abs(c.sum(-1, keepdims=True)), np.exp(-most)) + 1e-6)
    return np.einsum("bhts,bshv->bthv", c, v)


def headwise(w, name, x):
    """X xlstm/components/linear_headwise.py LinearHeadwiseExpand: x [B,T,D] by blocks; a row of weights [D,size] belongs to its block."""
    weight = w[name + ".weight"]
    size = weight.shape[1]
    blocks = x.reshape(*x.shape[:-1], -1, size)
    return np.einsum("...hd,hod->...ho", blocks, weight.reshape(-1, size, size)).reshape(x.shape)


def mlstm(w, x, deviations):
    """X xlstm/blocks/mlstm/layer.py mLSTMLayer, cell.py mLSTMCell. The program adds 3 .. 6 over the heads to the forget gates' bias, which
    starts so there, and has the gates' maps of q, k and v apart."""
    inner = w("up", x)
    c = silu(conv(inner, w["short_conv.up"], w["short_conv.up.bias"]))
    q, k, v = headwise(w, "query", c), headwise(w, "key", c), headwise(w, "value", inner)
    i, f = (w(name, v) + w(name + ".query", q) + w(name + ".key", k) for name in ("input_gate", "forget_gate"))
    spread = 3 * np.arange(w.heads) / max(w.heads - 1, 1)
    h = mlstm_cell(w.heads_of(q), w.heads_of(k), w.heads_of(v), i, 3 + spread + f)
    h = join(layer_norm(h) * w["out_norm.gain"]) + w.flat("out_skip") * c
    return w("output", h * silu(w("out_gate", x)))


def slstm(w, x, deviations):
    """X xlstm/blocks/slstm/layer.py sLSTMLayer, src/vanilla/slstm.py slstm_forward_pointwise, with the program's full maps and its output
    projection. What the layer calls fgate feeds the cell's input gate, and igate its forget gate."""
    c = silu(conv(x, w["short_conv.input"], w["short_conv.input.bias"]))
    raw = [w.split(name, y) for name, y in (("input_gate", c), ("forget_gate", c), ("value", x), ("output_gate", x))]
    back = [w["memory.u_" + name].reshape(w.heads, raw[0].shape[-1], -1) for name in ("input", "forget", "cell", "output")]
    y, c, n, m, read = np.zeros(raw[0][:, 0].shape), 0.0, 0.0, None, []
    for t in range(x.shape[1]):
        i, f, z, o = (a[:, t] + np.einsum("hvu,bhu->bhv", u, y) for a, u in zip(raw, back))
        most = i if m is None else np.maximum(i, m + log_sigmoid(f))
        left = 0.0 if m is None else np.minimum(np.exp(m + log_sigmoid(f) - most), 1)
        new = np.minimum(np.exp(i - most), 1)
        c, n, m = left * c + new * np.tanh(z), left * n + new, most
        y = sigmoid(o) * c / n
        read.append(y)
    return w("output", join(layer_norm(np.stack(read, 1)) * w["out_norm.gain"]))
