#!/usr/bin/env python3
"""Reference of `crosstalk apply` in numpy: each memory's recurrence by plain loops, a head of a sequence at a time.

    forward(memory, inputs, options)                    -> o [B,T,H,V], states {name: array}
    gradients(memory, inputs, options, d_o)             -> {input: gradient of sum(o * d_o)}, by complex step
    directional(memory, inputs, options, d_o, towards)  -> derivative of sum(o * d_o) along one change of the inputs

The functions of the memories work on complex numbers as they are differentiable functions: what looks at the size of a
number (relu, maximum, absolute value, round) looks at its real part, so that a step of 1e-30 i gives the derivative to
the last bit.
"""
# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import numpy as np

STEP = 1e-30

# Shapes by letters: B sequences, T tokens, N writes a token, H heads, K and V the sizes of keys and values, L levels.
COMMON = {"q": "BTHK", "k": "BTHK", "v": "BTHV"}


def spec(optional=(), states=("S",), **further):
    return {"inputs": {**COMMON, **further}, "optional": set(optional), "states": states}


SPECS = {
    "softmax": spec(states=()),
    "sliding_window": spec(states=()),
    "alibi": spec(states=(), slope="H"),
    "fox": spec(states=(), log_decay="BTH"),
    "kernel_attention": spec(states=()),
    "linear_attention": spec(optional=["z0"], z0="BHK"),
    "retnet": spec(log_decay="H"),
    "peng_gate": spec(optional=["z0"], beta="BTH", z0="BHK"),
    "mamba2": spec(log_decay="BTH", step="BTH"),
    "mlstm": spec(states=("S", "n", "m"), log_decay="BTH", log_input="BTH", optional=("n0", "m0"), n0="BHK", m0="BH"),
    "gla": spec(log_decay="BTHK"),
    "hgrn2": spec(log_decay="BTHK"),
    "dfw": spec(log_decay="BTHK", log_decay_v="BTHV"),
    "rwkv6": spec(log_decay="BTHK", bonus="HK"),
    "rwkv7": spec(log_decay="BTHK", erase_key="BTHK", in_context_rate="BTHK"),
    "delta": spec(beta="BTH"),
    "longhorn": spec(beta="BTH"),
    "gated_delta": spec(log_decay="BTH", beta="BTH"),
    "comba": spec(optional=["correction"], log_decay="BTH", beta="BTH", erase_key="BTHK", correction="H"),
    "kda": spec(log_decay="BTHK", beta="BTH"),
    "gated_delta2": spec(log_decay="BTHK", erase_gate="BTHK", write_gate="BTHV"),
    "delta_product": spec(optional=["log_decay"], k="BTNHK", v="BTNHV", beta="BTNH", log_decay="BTH"),
    "deltaformer": spec(optional=["beta"], states=(), beta="BTH"),
    "dplr": spec(log_decay="BTHK", a="BTHK", b="BTHK"),
    "fwm": spec(beta="BTH"),
    "deltanet": spec(beta="BTH"),
    "complex_kda": spec(signed_decay="BTHK", beta="BTH"),
    "precond_gated_delta": spec(optional=["a0"], states=("S", "A"), log_decay="BTH", beta="BTH", log_decay_a="BTH",
                                beta_a="BTH", center="H", a0="BHK"),
    "fast_weights": spec(optional=["a0"], states=("S", "A"), a0="BHKK"),
    "log_linear_attention": spec(optional=["step"], states=(), log_decay="BTH", step="BTH", level_gate="BTHL"),
    "log_linear_gated_delta": spec(states=(), log_decay="BTH", beta="BTH", level_gate="BTHL"),
    "mamba1": spec(step="BTHV", log_rate="VK"),
    "rwkv4": spec(optional=["y0", "l0"], states=("y", "L"), k="BTHV", log_decay="V", bonus="V", y0="BHV", l0="BHV"),
}
del SPECS["hgrn2"]["inputs"]["k"]
del SPECS["rwkv4"]["inputs"]["q"]
for name in SPECS:  # the state before the first token
    if "S" in SPECS[name]["states"]:
        SPECS[name]["inputs"]["s0"] = "BHVK"
        SPECS[name]["optional"].add("s0")


# --- functions that a complex step may pass through ---

def relu(x):
    return np.where(np.real(x) > 0, x, 0)


def larger(a, b):
    return a if np.real(a) >= np.real(b) else b


def absolute(x):
    return x if np.real(x) >= 0 else -x


def length(x):
    return np.sqrt(np.sum(x * x))


def rounded(x, digits):
    """Rounded to decimals, with the gradient of x (straight through)."""
    return np.round(np.real(x), digits) + (x - np.real(x))


def layer_norm(x):
    centred = x - np.mean(x)
    return centred / np.sqrt(np.mean(centred * centred) + 1e-5)


FEATURE_MAPS = {
    "identity": lambda x: x,
    "elu1": lambda x: np.where(np.real(x) > 0, x + 1, np.exp(np.where(np.real(x) > 0, 0, x))),
    "relu": relu,
    "tanh": np.tanh,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "exp": np.exp,
}


def dpfp(x, nu):
    f = np.concatenate([relu(x), relu(-x)])
    return np.concatenate([f * np.roll(f, shift) for shift in range(1, nu + 1)])


def hedgehog(x):
    """With W the identity and b zero."""
    e = np.exp(np.concatenate([2 * x, -2 * x]) - np.max(np.abs(np.real(2 * x))))
    return e / np.sum(e)


def monomials(x, n, weight):
    """weight(a) x^a for all multi-indices a with |a| <= n."""
    return np.array([weight(a) * np.prod([e ** i for e, i in zip(x, a)])
                     for a in itertools.product(range(n + 1), repeat=len(x)) if sum(a) <= n])


def factorials(a):
    return math.prod(math.factorial(i) for i in a)


def mapped(x, options):
    name = options.get("feature_map", "identity")
    n = options.get("degree", 2)
    if name == "dpfp":
        return dpfp(x, options.get("nu", 1))
    if name == "hedgehog":
        return hedgehog(x)
    if name == "taylor":
        return monomials(x, n, lambda a: factorials(a) ** -0.5)
    if name == "power":
        return monomials(x, n, lambda a: (math.factorial(n) / (math.factorial(n - sum(a)) * factorials(a) * n ** sum(a)))
                         ** 0.5)
    return FEATURE_MAPS[name](x)


def features(x, options):
    """A row of q or k after feature_map and key_norm."""
    y = mapped(x, options)
    norm = options.get("key_norm", "none")
    return y / np.sum(y) if norm == "sum" else y / length(y) if norm == "l2" else y


# --- attention ---

def softmax_row(logits):
    e = np.exp(logits - np.max(np.real(logits)))
    return e / np.sum(e)


def kernel_row(name, x, keys, options):
    """kappa(scale x.k_j) for every key."""
    s = options.get("scale", 1.0) * (keys @ x)
    order = options.get("order", 2)
    if name == "linear":
        return s
    if name == "relu":
        return relu(s)
    if name == "relu2":
        return relu(s) ** 2
    if name == "round":
        return rounded(s, options.get("digits", 0))
    if name == "exp":
        return np.exp(s)
    if name == "power":
        return (1 + s / order) ** order
    if name == "cosine_exp":
        cosine = np.array([k @ x / (length(k) * length(x)) for k in keys], dtype=s.dtype)
        return np.exp(options.get("tau", 1.0) * (cosine - 1))
    assert name == "taylor", name
    total = term = np.ones_like(s)
    for m in range(1, order + 1):
        term = term * s / m
        total = total + term
    return total


def weights_of(name, norm, x, keys, options):
    if len(keys) == 0:
        return np.zeros(0)
    if norm == "sum" and name == "exp":
        return softmax_row(options.get("scale", 1.0) * (keys @ x))
    row = kernel_row(name, x, keys, options)
    return row / np.sum(row) if norm == "sum" else row


def attention(x, options, seen, bias):
    """Softmax over the tokens seen(t) of scale q.k plus bias(t, j)."""
    rows = []
    for t, q in enumerate(x["q"]):
        js = seen(t)
        if not js:
            rows.append(np.zeros_like(x["v"][0]))
            continue
        logits = np.array([options.get("scale", 1.0) * (q @ x["k"][j]) + bias(t, j) for j in js])
        rows.append(softmax_row(logits) @ x["v"][js])
    return rows, {}


def softmax(x, options):
    strict = options.get("strict", False)
    return attention(x, options, lambda t: list(range(t if strict else t + 1)), lambda t, j: 0)


def sliding_window(x, options):
    return attention(x, options, lambda t: list(range(max(0, t - options["window"] + 1), t + 1)), lambda t, j: 0)


def alibi(x, options):
    return attention(x, options, lambda t: list(range(t + 1)), lambda t, j: -x["slope"] * (t - j))


def fox(x, options):
    return attention(x, options, lambda t: list(range(t + 1)), lambda t, j: np.sum(x["log_decay"][j + 1:t + 1]))


def kernel_attention(x, options):
    kernel, norm = options.get("kernel", "linear"), options.get("row_norm", "none")
    return [weights_of(kernel, norm, q, x["k"][:t + 1], options) @ x["v"][:t + 1] for t, q in enumerate(x["q"])], {}


def deltaformer(x, options):
    u, rows = [], []
    for t, q in enumerate(x["q"]):
        asks = q if options.get("solve_with", "key") == "query" else x["k"][t]
        beta = x["beta"][t] if "beta" in x else 1.0
        new = (beta if options.get("beta_on_write", False) else 1.0) * x["v"][t]
        if t > 0:
            row = weights_of(options.get("kappa1", "exp"), options.get("row_norm1", "sum"), asks, x["k"][:t], options)
            new = new - beta * (row @ np.array(u))
        u.append(new)
        row = weights_of(options.get("kappa2", "exp"), options.get("row_norm2", "sum"), q, x["k"][:t + 1], options)
        rows.append(row @ np.array(u))
    return rows, {}


# --- recurrences: how token t changes the state S [V,K] ---

def delta_step(state, t, x, beta=None):
    beta = x["beta"][t] if beta is None else beta
    return state + beta * np.outer(x["v"][t] - state @ x["k"][t], x["k"][t])


def rwkv7_step(state, t, x, _):
    erase = x["erase_key"][t]
    return (state * np.exp(x["log_decay"][t]) - np.outer(state @ erase, x["in_context_rate"][t] * erase)
            + np.outer(x["v"][t], x["k"][t]))


def longhorn_step(state, t, x, _):
    k = x["k"][t]
    return delta_step(state, t, x, x["beta"][t] / (1 + x["beta"][t] * (k @ k)))


def gated_delta_step(state, t, x, options):
    faded = np.exp(x["log_decay"][t]) * state
    predicts = state if options.get("predict", "decayed") == "undecayed" else faded
    return faded + x["beta"][t] * np.outer(x["v"][t] - predicts @ x["k"][t], x["k"][t])


def comba_step(state, t, x, _):
    return (np.exp(x["log_decay"][t]) * state
            + x["beta"][t] * np.outer(x["v"][t] - state @ x["erase_key"][t], x["k"][t]))


def kda_step(state, t, x, _):
    return delta_step(state * np.exp(x["log_decay"][t]), t, x)


def complex_kda_step(state, t, x, _):
    return delta_step(state * x["signed_decay"][t], t, x)


def gated_delta2_step(state, t, x, _):
    faded = state * np.exp(x["log_decay"][t])
    k = x["k"][t]
    return faded + np.outer(x["write_gate"][t] * x["v"][t] - faded @ (x["erase_gate"][t] * k), k)


def delta_product_step(state, t, x, _):
    if "log_decay" in x:
        state = np.exp(x["log_decay"][t]) * state
    for n in range(len(x["k"][t])):
        k = x["k"][t][n]
        state = state + x["beta"][t][n] * np.outer(x["v"][t][n] - state @ k, k)
    return state


def dplr_step(state, t, x, _):
    return (state * np.exp(x["log_decay"][t]) + np.outer(state @ x["a"][t], x["b"][t])
            + np.outer(x["v"][t], x["k"][t]))


def fwm_step(state, t, x, _):
    if t == 0:
        return x["beta"][0] * np.outer(x["v"][0], x["k"][0])
    new = delta_step(state, t, x)
    return new / (relu(length(new) - 1) + 1)


def dfw_step(state, t, x, _):
    return (np.exp(x["log_decay_v"][t])[:, None] * state * np.exp(x["log_decay"][t])
            + np.outer(x["v"][t], x["k"][t]))


def hgrn2_step(state, t, x, _):
    alpha = np.exp(x["log_decay"][t])
    return state * alpha + np.outer(x["v"][t], 1 - alpha)


def mamba1_step(state, t, x, _):
    decay = np.exp(-x["step"][t][:, None] * np.exp(x["log_rate"]))
    return decay * state + np.outer(x["step"][t] * x["v"][t], x["k"][t])


def outer_step(decay, write):
    """S_t = decay_t S_{t-1} + write_t v_t k_t^T."""
    return lambda state, t, x, _: decay(x, t) * state + write(x, t) * np.outer(x["v"][t], x["k"][t])


STEPS = {
    "linear_attention": outer_step(lambda x, t: 1, lambda x, t: 1),
    "retnet": outer_step(lambda x, t: np.exp(x["log_decay"]), lambda x, t: 1),
    "peng_gate": outer_step(lambda x, t: 1 - x["beta"][t], lambda x, t: x["beta"][t]),
    "mamba2": outer_step(lambda x, t: np.exp(x["log_decay"][t]), lambda x, t: x["step"][t]),
    "gla": outer_step(lambda x, t: np.exp(x["log_decay"][t]), lambda x, t: 1),
    "rwkv6": outer_step(lambda x, t: np.exp(x["log_decay"][t]), lambda x, t: 1),
    "hgrn2": hgrn2_step,
    "dfw": dfw_step,
    "rwkv7": rwkv7_step,
    "delta": lambda state, t, x, _: delta_step(state, t, x),
    "deltanet": lambda state, t, x, _: delta_step(state, t, x),
    "complex_kda": complex_kda_step,
    "longhorn": longhorn_step,
    "gated_delta": gated_delta_step,
    "comba": comba_step,
    "kda": kda_step,
    "gated_delta2": gated_delta2_step,
    "delta_product": delta_product_step,
    "dplr": dplr_step,
    "fwm": fwm_step,
    "mamba1": mamba1_step,
}


def recurrence(memory, x, options):
    T, V = len(x["v"]), x["v"].shape[-1]
    state = x["s0"] if "s0" in x else np.zeros((V, x["q"].shape[-1]))
    z = x.get("z0", 0)
    rows = []
    for t in range(T):
        q = options.get("scale", 1.0) * x["q"][t]
        if memory == "rwkv6":  # reads before it writes
            rows.append(state @ q + x["v"][t] * ((x["bonus"] * x["k"][t]) @ q))
        if memory == "comba" and "correction" in x:
            q = options.get("scale", 1.0) * (x["q"][t] - x["correction"] * x["erase_key"][t])
        state = STEPS[memory](state, t, x, options)
        if memory == "rwkv6":
            continue
        o = state @ q
        if options.get("denominator", False):
            beta = x["beta"][t] if memory == "peng_gate" else None
            z = z + x["k"][t] if beta is None else (1 - beta) * z + beta * x["k"][t]
            o = o / (z @ q + options.get("eps", 0.0))
        rows.append(layer_norm(o) if options.get("read_norm", "none") == "layernorm" else o)
    return rows, {"S": state, "z": z} if options.get("denominator", False) else {"S": state}


def mlstm(x, options):
    state, n = x.get("s0", np.zeros((x["v"].shape[-1], x["q"].shape[-1]))), x.get("n0", 0)
    m = x.get("m0", 0 if "s0" in x or "n0" in x else -np.inf)
    rows = []
    for t, row in enumerate(x["q"]):
        q = options.get("scale", 1.0) * row
        before, own = x["log_decay"][t] + m, x["log_input"][t]
        m = own if np.isinf(np.real(before)) else larger(before, own)
        f, i = (0 if np.isinf(np.real(before)) else np.exp(before - m)), np.exp(own - m)
        state = f * state + i * np.outer(x["v"][t], x["k"][t])
        n = f * n + i * x["k"][t]
        rows.append(state @ q / larger(absolute(n @ q), np.exp(-m)))
    return rows, {"S": state, "n": n, "m": m}


def rwkv4(x, _):
    """An average of values weighed by e^k, a channel each; y0 is such an average with the divisor e^l0."""
    def average(n, further):  # over n tokens and what was there before, and over further (logarithm of a weight, value)
        logs = [(n - 1 - j) * x["log_decay"] + x["k"][j] for j in range(n)] + [log for log, _ in further]
        values = list(x["v"][:n]) + [value for _, value in further]
        if "y0" in x:
            logs.append(n * x["log_decay"] + x["l0"])
            values.append(x["y0"])
        weights = [np.exp(log) for log in logs]
        return sum(w * v for w, v in zip(weights, values)) / sum(weights), np.log(sum(weights))

    T = len(x["v"])
    rows = [average(t, [(x["bonus"] + x["k"][t], x["v"][t])])[0] for t in range(T)]
    y, L = average(T, [])
    return rows, {"y": y, "L": L}


def precond_gated_delta(x, options):
    """Keys are written times M_t, which is below 1 where the sum of squares A_t is large."""
    state = x["s0"] if "s0" in x else np.zeros((x["v"].shape[-1], x["q"].shape[-1]))
    used = x["a0"] if "a0" in x else np.zeros(x["q"].shape[-1])
    rows = []
    for t, row in enumerate(x["q"]):
        k = x["k"][t]
        used = np.exp(x["log_decay_a"][t]) * used + x["beta_a"][t] * k * k
        r = np.log(used + 1e-6) - x["center"]
        size = np.where(np.real(r) > 0, r, -r)
        m = np.exp(-np.log(options.get("squash", 1.5)) * r / (1 + size))
        faded = np.exp(x["log_decay"][t]) * state
        state = faded + x["beta"][t] * np.outer(x["v"][t] - faded @ k, m * k)
        rows.append(state @ (options.get("scale", 1.0) * row))
    return rows, {"S": state, "A": used}


def fast_weights(x, options):
    """Queries settle in an inner loop on what earlier keys left (A) before they read (S)."""
    K, decay, rate = x["q"].shape[-1], options.get("decay", 0.95), options.get("rate", 0.5)
    steps = options.get("inner_steps", 1)
    state = x["s0"] if "s0" in x else np.zeros((x["v"].shape[-1], K))
    keys = x["a0"] if "a0" in x else np.zeros((K, K))
    rows = []
    for t, row in enumerate(x["q"]):
        q = options.get("scale", 1.0) * row
        keys = decay * keys + rate * np.outer(x["k"][t], x["k"][t])
        state = decay * state + rate * np.outer(x["v"][t], x["k"][t])
        h = relu(layer_norm(q)) if steps > 0 else q
        for _ in range(steps):
            h = relu(layer_norm(q + keys @ h))
        rows.append(state @ h)
    return rows, {"S": state, "A": keys} if steps > 0 else {"S": state}


def level(t, j):
    """0 for the token itself, else one more than the highest binary digit in which t and j differ."""
    return (t ^ j).bit_length()


def log_linear(erases):
    """Every token's write on its own, carried on by the tokens after it, weighed by the gate of its level."""
    def read(x, options):
        T, writes, rows = len(x["v"]), [], []
        for t in range(T):
            k, alpha = x["k"][t], np.exp(x["log_decay"][t])
            beta = x["beta"][t] if erases else x["step"][t] if "step" in x else 1
            writes = [alpha * (w - beta * np.outer(w @ k, k)) if erases else alpha * w for w in writes]
            writes.append(beta * np.outer(x["v"][t], k))
            q = options.get("scale", 1.0) * x["q"][t]
            rows.append(sum(x["level_gate"][t][level(t, j)] * (w @ q) for j, w in enumerate(writes)))
        return rows, {}
    return read


OWN = {"precond_gated_delta": precond_gated_delta, "fast_weights": fast_weights,
       "log_linear_attention": log_linear(False), "log_linear_gated_delta": log_linear(True), "softmax": softmax, "sliding_window": sliding_window, "alibi": alibi, "fox": fox, "mlstm": mlstm,
       "kernel_attention": kernel_attention, "deltaformer": deltaformer, "rwkv4": rwkv4}


# --- heads and sequences ---

def one_head(memory, inputs, b, h):
    """What head h of sequence b is given: arrays without B and H."""
    x = {}
    for name, array in inputs.items():
        letters = SPECS[memory]["inputs"][name]
        at = tuple(b if c == "B" else h if c == "H" else slice(None) for c in letters)
        x[name] = array[at]
    return x


def head_forward(memory, x, options):
    if memory != "rwkv4":  # its k is no key that queries are held against
        x = dict(x)
        for name in ("q", "k"):
            if name in x:
                flat = x[name].reshape(-1, x[name].shape[-1])
                x[name] = np.array([features(row, options) for row in flat]).reshape(x[name].shape[:-1] + (-1,))
    rows, states = OWN[memory](x, options) if memory in OWN else recurrence(memory, x, options)
    return np.array(rows), states


def sizes(memory, inputs):
    B, T = inputs["v"].shape[:2]
    return B, T, inputs["v"].shape[-2], inputs["v"].shape[-1]


def forward(memory, inputs, options):
    B, T, H, V = sizes(memory, inputs)
    o, states = np.zeros((B, T, H, V)), {}
    for b in range(B):
        for h in range(H):
            o[b, :, h], end = head_forward(memory, one_head(memory, inputs, b, h), options)
            for name, value in end.items():
                value = np.asarray(value)
                states.setdefault(name, np.zeros((B, H) + value.shape))[b, h] = value
    return o, states


def gradients(memory, inputs, options, d_o):
    B, _, H, _ = sizes(memory, inputs)
    result = {name: np.zeros(array.shape) for name, array in inputs.items()}
    for b in range(B):
        for h in range(H):
            x = one_head(memory, inputs, b, h)
            parts = one_head(memory, result, b, h)  # views, or numbers where nothing is left to index
            for name in x:
                value = np.atleast_1d(np.asarray(x[name]))
                gradient = np.zeros(value.shape)
                for i in np.ndindex(value.shape):
                    stepped = value.astype(complex)
                    stepped[i] += 1j * STEP
                    o, _ = head_forward(memory, {**x, name: stepped.reshape(np.shape(x[name]))[()]}, options)
                    gradient[i] = np.sum(np.imag(o) / STEP * d_o[b, :, h])
                if np.ndim(parts[name]) == 0:
                    result[name][(b, h)[-result[name].ndim:]] += gradient[0]  # one number a head
                else:
                    parts[name] += gradient
    return result


def directional(memory, inputs, options, d_o, towards):
    B, _, H, _ = sizes(memory, inputs)
    total = 0.0
    for b in range(B):
        for h in range(H):
            x = one_head(memory, inputs, b, h)
            for name, change in one_head(memory, towards, b, h).items():
                x[name] = x[name] + 1j * STEP * change
            o, _ = head_forward(memory, x, options)
            total += np.sum(np.imag(o) / STEP * d_o[b, :, h])
    return total
