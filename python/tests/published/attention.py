"""Layers that keep keys and values, learn at test time or convolve with filters as long as the sequence, as their authors have them.

F: fla-org/flash-linear-attention@bc3b101d; Z: HazyResearch/zoology@d88d6f5; P: zhixuan-lin/forgetting-transformer@883f260;
G: openai/gpt-oss@7b58334; Q: qiuzh20/gated_attention@49645df; O: facebookresearch/MemoryMosaics@1fff63b;
U: test-time-training/ttt-lm-pytorch@cd831db.
Where a `deviation` is given, the program's layer is computed instead at that one place.
"""
# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np

from .delta import qkv
from .parts import attend, before, causal, conv, join, log_sigmoid, rms, rotated, scores, sigmoid, silu, softmax, unit
from .sums import plain


def scaled(q, k):
    return scores(q, k) / math.sqrt(q.shape[-1])


def softmax_layer(w, x, deviations):
    """Z zoology/mixers/attention.py MHA, in evaluation."""
    q, k, v = plain(w, x)
    return w("output", join(attend(scaled(q, k), v)))


def sliding_window(w, x, deviations, window=16):
    """Z zoology/mixers/slide_attn.py SlidingAttn, by heads: block_size and the own token are seen."""
    q, k, v = plain(w, x)
    seen = window if "own token counted in the window" in deviations else window + 1
    return w("output", join(attend(scaled(q, k), v, causal(x.shape[1], seen))))


def rope(w, x, deviations):
    """F fla/layers/attn.py Attention."""
    q, k, v = plain(w, x)
    return w("output", join(attend(scaled(rotated(q), rotated(k)), v)))


def qk_norm(w, x, deviations):
    """F fla/layers/attn.py Attention with qk_norm (RMSNorm's eps is 1e-5): one gain for all heads, norms before positions."""
    q, k, v = plain(w, x)
    gains = w["memory.q_gain"], w["memory.k_gain"]
    if "gains of every head" not in deviations:
        gains = gains[0][:1], gains[1][:1]
    eps = 1e-6 if "eps 1e-6 of the norms" in deviations else 1e-5
    if "positions before the norms" in deviations:
        q, k = rms(rotated(q), gains[0], eps), rms(rotated(k), gains[1], eps)
    else:
        q, k = rotated(rms(q, gains[0], eps)), rotated(rms(k, gains[1], eps))
    return w("output", join(attend(scaled(q, k), v)))


def gated_attention(w, x, deviations):
    """Q modeling_qwen3.py Qwen3Attention with elementwise_attn_output_gate and use_qk_norm (rms_norm_eps 1e-6)."""
    q, k, v = plain(w, x)
    eps = 1e-5 if "eps 1e-5 of the norms" in deviations else 1e-6
    q, k = rotated(rms(q, w["qk_norm.q"], eps)), rotated(rms(k, w["qk_norm.k"], eps))
    return w("output", join(attend(scaled(q, k), v) * sigmoid(w.split("gate", x))))


def yarn(count, base=150000.0, scaling=32.0, context=4096, alpha=1.0, beta=32.0):
    """G RotaryEmbedding._compute_concentration_and_inv_freq: factor of sines and cosines, and frequencies of count pairs."""
    frequency = base ** (np.arange(count) / count)
    low, high = (count * math.log(context / (turns * 2 * math.pi)) / math.log(base) for turns in (beta, alpha))
    mask = 1 - np.clip((np.arange(count) - low) / (high - low), 0, 1)
    return 0.1 * math.log(scaling) + 1, (1 - mask) / (scaling * frequency) + mask / frequency


def attention_sink(w, x, deviations):
    """G gpt_oss/torch/model.py AttentionBlock: a learned logit a head, a window of 128 in every other layer, YaRN."""
    q, k, v = plain(w, x)
    count, T = q.shape[-1] // 2, x.shape[1]
    factor, frequency = (1.0, 150000.0 ** (-np.arange(count) / count)) if "no YaRN" in deviations else yarn(count)
    angles = (np.arange(T)[:, None] * frequency)[:, None]
    logits = scaled(factor * rotated(q, angles=angles), factor * rotated(k, angles=angles))
    mask = causal(T, 128 if w.layer % 2 == 0 and "no window" not in deviations else None)
    sink = np.broadcast_to(w.flat("memory.sink")[:, None, None], logits.shape[:-1] + (1,))
    weights = softmax(np.concatenate([np.where(mask, logits, -np.inf), sink], -1))[..., :-1]
    return w("output", join(np.einsum("bhts,bshv->bthv", weights, v)))


def between(log_gate):
    """[B,H,T,T], sums of log_gate [B,T,H] over the tokens after s up to t."""
    total = np.cumsum(log_gate, 1).transpose(0, 2, 1)
    return total[..., None] - total[..., None, :]


def fox(w, x, deviations):
    """P src/forgetting_transformer/model/forgetting_transformer/modeling_forgetting_transformer.py ForgettingAttentionLayer,
    configs/experiment/longcrawl64/forgetting_transformer/pro_125m_2b.yaml."""
    q, k, v = plain(w, x)
    for_k, for_v = (sigmoid(w(f"shift_{n}", x))[..., None] for n in "kv")
    k, v = for_k * before(k) + (1 - for_k) * k, for_v * before(v) + (1 - for_v) * v
    q, k = rms(q, w["qk_norm.q"]), rms(k, w["qk_norm.k"])
    o = attend(scaled(q, k) + between(log_sigmoid(w("forget", x))), v)
    return w("output", join(rms(o, w["out_norm.gain"], 1e-6)) * sigmoid(w("out_gate", x)))


def reflected(w, x):
    """F fla/layers/path_attn.py PaTHAttention, the products of fla/ops/path_attn/naive.py: q_i H_i .. H_{j+1} k_j, [B,H,T,T]."""
    q, k, v = plain(w, x)
    T, kernel = x.shape[1], w["memory.path_key_conv"]
    key = unit(w.heads_of(silu(conv(w("path_key", x), kernel.reshape(-1, kernel.shape[-1])))))
    beta = 2 * sigmoid(w("beta", x))[..., None]
    logits, left = np.zeros((len(x), w.heads, T, T)), k.copy()
    for t in range(T):
        at = key[:, t, None]
        left[:, :t] = left[:, :t] - beta[:, t, None] * (left[:, :t] * at).sum(-1, keepdims=True) * at
        logits[:, :, t, : t + 1] = np.einsum("bhk,bshk->bhs", q[:, t], left[:, : t + 1])
    return logits, v


def path(w, x, deviations):
    """F fla/layers/path_attn.py PaTHAttention."""
    logits, v = reflected(w, x)
    return w("output", join(attend(logits / math.sqrt(v.shape[-1]), v)))


def path_fox(w, x, deviations):
    """F the same with use_forget_gate; fla/ops/path_attn/parallel_path_fwd.py:106 scales gates as it does products."""
    logits, v = reflected(w, x)
    return w("output", join(attend((logits + between(log_sigmoid(w("forget", x)))) / math.sqrt(v.shape[-1]), v)))


def deltaformer(w, x, deviations):
    """Its paper, arXiv 2505.19488: u = v - sum of earlier u by softmax(k k), then attention to u; no code of its authors is public.
    F fla/layers/deltaformer.py, fla/ops/deltaformer/naive.py differ: they ask by queries, and beta = W x + b stands before the sum."""
    q, k, v = plain(w, x)
    if "no positions" not in deviations:
        q, k = rotated(q), rotated(k)
    T, logits = x.shape[1], scaled(k, k)
    u = v.copy()
    for t in range(1, T):
        u[:, t] = v[:, t] - np.einsum("bhs,bshv->bhv", softmax(logits[:, :, t, :t]), u[:, :t])
    return w("output", join(attend(scaled(q, k), u)))


def parallax(w, x, deviations):
    """F fla/layers/parallax.py Parallax, fla/ops/parallax/naive.py; q, r and k are rotated."""
    q, k, v = plain(w, x)
    q, k, r = rotated(q), rotated(k), w.split("second_query", x)
    if "second query without positions" not in deviations:
        r = rotated(r)
    p = softmax(np.where(causal(x.shape[1]), scaled(q, k), -np.inf))
    second = p * scores(r, k)
    o1, o2 = (np.einsum("bhts,bshv->bthv", y, v) for y in (p, second))
    return w("output", join(o1 * (1 + second.sum(-1).transpose(0, 2, 1)[..., None]) - o2))


def wall(w, x, deviations):
    """F fla/layers/wall_attn.py WallAttention, fla/ops/wall_attn/naive.py."""
    q, k, v = plain(w, x)
    total = np.cumsum(log_sigmoid(w.split("forget", x)), 1)
    left = np.exp(np.minimum(total[:, :, None] - total[:, None], 0))
    logits = np.einsum("bthk,bshk,btshk->bhts", q, k, left) / math.sqrt(q.shape[-1])
    return w("output", join(attend(logits, v)))


def memory_mosaics(w, x, deviations):
    """O nanoMosaics/mosaic_model.py ContextMem. Its values, (1 - c) v_{t+1} + c v_t of length e^-0.5, have a number c a head that the
    program has not; leak is the logarithm of the authors' rates over those that they start with."""
    leak, sharpness = np.linspace(0.5, 5, w.heads) * np.exp(w.flat("memory.leak")), w.flat("memory.log_sharpness")
    q, k, v = plain(w, x)
    if "queries of their own" not in deviations:
        q = k
    distance = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
    average = np.where(distance >= 0, np.exp(-np.maximum(distance, 0) * leak[:, None, None]), 0)
    own = np.einsum("hts,bshk->bthk", average, k)
    asks = own - k + q
    asks, own = (y / (np.sqrt((y * y).sum(-1, keepdims=True)) + 1e-10) for y in (asks, own))
    logits = np.exp(sharpness)[:, None, None] * scores(asks, own)
    o = np.zeros(v.shape)
    o[:, 1:] = attend(logits[:, :, 1:], v, distance[1:] > 0)
    return w("output", join(o))


def mesa(w, x, deviations):
    """F fla/layers/mesa_net.py MesaNet, fla/ops/mesa_net/chunk_cg_solver_fwd.py: 30 steps of conjugate gradients from 0."""
    q, k, v = qkv(w, x, names="qk", act="qk")
    q, k = unit(q), unit(k)
    g, beta = np.exp(log_sigmoid(w("decay", x))), sigmoid(w("beta", x))
    ridge = np.log1p(np.exp(w["memory.ridge"])) + 0.25
    hk, hv, read = 0.0, 0.0, []
    for t in range(x.shape[1]):
        left, write = g[:, t, :, None, None], (beta[:, t, :, None] * k[:, t])[..., None]
        hk, hv = left * hk + write * k[:, t, :, None], left * hv + write * v[:, t, :, None]
        at = conjugate_gradients(hk, ridge, q[:, t], 0.0 if "no eps in conjugate gradients" in deviations else 1e-5)
        read.append(np.einsum("bhk,bhkv->bhv", at, hv))
    return w("output", join(rms(np.stack(read, 1), w["out_norm.gain"])))


def over(a, b):
    """a / b, and 0 where b is."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def conjugate_gradients(h, ridge, q, eps, steps=30):
    at, r, p = np.zeros(q.shape), q, q
    old = (r * r).sum(-1, keepdims=True)
    for _ in range(steps):
        hp = np.einsum("bhk,bhkl->bhl", p, h) + ridge * p
        size = over(old, (p * hp).sum(-1, keepdims=True) + eps)
        at, r = at + size * p, r - size * hp
        new = (r * r).sum(-1, keepdims=True)
        p, old = r + over(new, old + eps) * p, new
    return at


def linear_attention(w, x, deviations):
    """Z zoology/mixers/based.py Based, feature_maps/taylor.py TaylorExp: exp(q k / sqrt(d)) to second order."""
    q, k, v = plain(w, x)
    d = q.shape[-1]

    def features(y):
        pairs = (y[..., None] * y[..., None, :]).reshape(*y.shape[:-1], -1)
        return np.concatenate([np.ones_like(y[..., :1]), y / d**0.25, pairs / (math.sqrt(2) * math.sqrt(d))], -1)

    weights = np.where(causal(x.shape[1]), scores(features(q), features(k)), 0)
    eps = 1e-6 if "eps 1e-6 of the denominator" in deviations else 1e-12
    return w("output", join(np.einsum("bhts,bshv->bthv", weights / (weights.sum(-1, keepdims=True) + eps), v)))


def filtered(h, v):
    """sum of h_s v_{t-s}; h [T,C], v [B,T,C]."""
    T = v.shape[1]
    distance = np.arange(T)[:, None] - np.arange(T)
    return np.einsum("tsc,bsc->btc", np.where((distance >= 0)[..., None], h[np.maximum(distance, 0)], 0), v)


def places(T, length):
    """Z PositionalEmbedding with emb_dim 3: time, cosine and minus sine of a band of 1e-4, [T,3]."""
    angle = 1e-4 * 2 * math.pi * np.arange(T) / length
    return np.stack([np.linspace(0, 1, length)[:T], np.cos(angle), -np.sin(angle)], -1)


def long_conv(w, x, deviations, length=256):
    """Z zoology/mixers/base_conv.py BaseConv with kernel_size -1, convolution.py ImplicitLongConvolution. fft_conv adds its input.

    The authors' y = (h * u + u) (W u + b) + u has no projections of values and of the output.
    """
    into = np.stack([w.flat(f"memory.filter_{n}") for n in ("time", "cos", "sin")], -1)
    h = np.maximum(places(x.shape[1], length) @ into.T + w.flat("memory.filter_bias"), 0) @ w["memory.filter_out"].T
    h = np.tile(h + w.flat("memory.filter_out_bias"), w.heads)
    if "a memory between projections" in deviations:
        return w("output", filtered(h, w("value", x)) * w("gate", x))
    return (filtered(h, x) + x) * w("gate", x) + x


def hyena(w, x, deviations, length=256):
    """Z zoology/mixers/hyena.py Hyena, Filter, ExponentialModulation."""
    T = x.shape[1]
    into = np.stack([w.flat(f"memory.filter_{n}") for n in ("time", "cos", "sin")], -1)
    f = w.flat("memory.frequency")
    h = np.sin(f * (places(T, length) @ into.T + w.flat("memory.filter_bias")))
    for n in "12":
        h = np.sin(f * (h @ w["memory.filter_" + n].T + w.flat(f"memory.filter_{n}_bias")))
    h = h @ w["memory.filter_out"].T
    window = w.flat("memory.window")
    if "learned window" not in deviations:
        window = np.abs(np.linspace(math.log(1e-2) / 1.5, math.log(1e-2) / 0.3, len(window)))
    h = np.tile(h * np.exp(-np.linspace(0, 1, length)[:T, None] * window), w.heads)
    skip = np.tile(w.flat("memory.skip"), w.heads)
    v = conv(w("value", x), w["short_conv.v"], w["short_conv.v.bias"]) * w("pre_gate", x)
    return w("output", (filtered(h, v) + skip * v) * w("post_gate", x))


def h3(w, x, deviations):
    """Z zoology/mixers/h3/h3.py H3 with the kernel of ss_kernel_diag.py (bilinear; its B, which starts at 1, is 1), behind a convolution of
    four keys in place of the shift of ss_kernel_shift.py and its D."""
    q, k, v = w.split("query", x), w.heads_of(conv(w("key", x), w["short_conv.k"])), w.split("value", x)
    step = np.exp(w.flat("memory.log_step"))[:, None]
    a = step * (-0.5 + 1j * np.exp(w["memory.log_angle"]))
    c = w["memory.read"] + 1j * w["memory.read_imag"]
    if "kernel without its discretisation" in deviations:
        turn = np.exp(a)
    else:
        c, turn = c * step / (1 - a / 2), (1 + a / 2) / (1 - a / 2)
    kernel = 2 * (c * turn ** np.arange(x.shape[1])[:, None, None]).sum(-1).real
    distance = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
    h = np.where(distance[..., None] >= 0, kernel[np.maximum(distance, 0)], 0).transpose(2, 0, 1)
    h = h + w.flat("memory.skip")[:, None, None] * np.eye(x.shape[1])
    return w("output", join(np.einsum("bhts,bshv->bthv", scores(q, k) * h, v)))
