"""What the transcriptions share: weights by the program's names, parts of layers, and the language model around them.

Arrays are float64. x [B,T,C] is a layer's input; queries, keys and values are [B,T,H,K] and [B,T,H,V].
"""
# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def softplus(x):
    return np.logaddexp(0, x)


def log_sigmoid(x):
    return -np.logaddexp(0, -x)


def silu(x):
    return x * sigmoid(x)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def rms(x, gain=1.0, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def layer_norm(x, gain=1.0, bias=0.0, eps=1e-5):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain + bias


def unit(x, eps=1e-6):
    """fla/modules/l2norm.py: eps is added to the square of the length."""
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + eps)


def conv(x, weight, bias=0.0):
    """nn.Conv1d, depthwise and causal: x [B,T,C], weight [C,width], whose last column is the own token's."""
    width = weight.shape[1]
    padded = np.pad(x, ((0, 0), (width - 1, 0), (0, 0)))
    return sum(padded[:, i : i + x.shape[1]] * weight[:, i] for i in range(width)) + bias


def before(x):
    """The token before (nn.ZeroPad2d((0, 0, 1, -1)))."""
    return np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], 1)


def rotated(x, base=10000.0, positions=None, angles=None):
    """RoPE of x [B,T,H,K] on neighbours 2c, 2c + 1. Sources that turn halves differ in the order of a head's channels alone."""
    count = x.shape[-1] // 2
    if angles is None:
        positions = np.arange(x.shape[1]) if positions is None else positions
        angles = (positions[:, None] * base ** (-np.arange(count) / count))[:, None]
    cos, sin = np.cos(angles), np.sin(angles)
    pairs = x.reshape(*x.shape[:-1], count, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def softmax(scores, axis=-1):
    scores = np.exp(scores - scores.max(axis, keepdims=True))
    return scores / scores.sum(axis, keepdims=True)


def scores(q, k):
    """[B,H,T,T] of q, k [B,T,H,K]."""
    return np.einsum("bthk,bshk->bhts", q, k)


def causal(length, window=None):
    """[T,T], whether t sees s: all up to itself, or the last `window`."""
    distance = np.arange(length)[:, None] - np.arange(length)
    return (distance >= 0) & (distance < (window or length))


def attend(logits, v, mask=None):
    """Softmax over what `mask` lets through; logits [B,H,T,T], v [B,T,H,V]."""
    mask = causal(logits.shape[-1]) if mask is None else mask
    return np.einsum("bhts,bshv->bthv", softmax(np.where(mask, logits, -np.inf)), v)


def join(x):
    return x.reshape(*x.shape[:2], -1)


class Weights:
    """Weights of one layer under the program's names, which stand for [out,in] matrices and biases."""

    def __init__(self, arrays, layer, heads, layers):
        self.prefix, self.all = f"layers.{layer}.", arrays
        self.layer, self.heads, self.layers, self.memo = layer, heads, layers, {}

    def __getitem__(self, name):
        return self.all[self.prefix + name].astype(float)

    def __contains__(self, name):
        return self.prefix + name in self.all

    def __call__(self, name, x, through=lambda y: y):
        """nn.Linear, or two of them with `through` in between (nn.Sequential)."""
        if name + ".down.weight" in self:
            x, name = through(x @ self[name + ".down.weight"].T), name + ".up"
        x = x @ self[name + ".weight"].T
        return x + self[name + ".bias"] if name + ".bias" in self else x

    def split(self, name, x, heads=None, **more):
        """The same, [B,T,H,.]."""
        return self.heads_of(self(name, x, **more), heads)

    def heads_of(self, x, heads=None):
        return x.reshape(*x.shape[:2], heads or self.heads, -1)

    def flat(self, name):
        """All heads' numbers in a row."""
        return self[name].reshape(-1)


def loss(arrays, layer, tokens, position, target, heads, layers, deviations=frozenset()):
    """Mean cross-entropy of the language model (RMSNorm 1e-5, SwiGLU, tied head) with the mixer `layer`."""
    x = arrays["embedding"].astype(float)[tokens]
    shared = {}
    for number in range(layers):
        w = Weights(arrays, number, heads, layers)
        w.memo = shared
        x = x + layer(w, rms(x, w["norm.gain"]), deviations)
        h = rms(x, w["mlp_norm.gain"])
        x = x + w("mlp.out", silu(w("mlp.gate", h)) * w("mlp.in", h))
    logits = rms(x, arrays["norm.gain"]) @ arrays["embedding"].T
    logits = np.take_along_axis(logits, position[..., None], 1)
    logits = logits - logits.max(-1, keepdims=True)
    right = np.take_along_axis(logits, target[..., None], -1)[..., 0]
    return float((np.log(np.exp(logits).sum(-1)) - right).mean())
