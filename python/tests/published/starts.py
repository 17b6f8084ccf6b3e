"""How their authors' code starts each parameter of a layer, under the program's names.

STARTS names for each memory laws by patterns of names, the first that fits; a law is one of the functions below. `off` says by which law a sample
was not drawn: by bounds that hold at any number of draws (Dvoretzky, Kiefer, Wolfowitz with Massart's constant; least and largest of n),
each at a false-alarm rate of RATE.
"""
# SPDX-License-Identifier: Apache-2.0
import fnmatch
import math

import numpy as np

RATE = 1e-10
WIDTH, HEADS, LAYERS = 32, 8, 48  # of the models that the test starts
KEY = WIDTH // HEADS
dt_low, dt_high = math.log(1e-3), math.log(0.1)


class Drawn:
    """A law with a distribution function on [low, high]."""

    def __init__(self, text, cdf, low=-np.inf, high=np.inf):
        self.text, self.cdf, self.low, self.high = text, cdf, low, high

    def off(self, arrays):
        x = np.sort(np.concatenate([a.reshape(-1) for a in arrays.values()]).astype(float))
        n = len(x)
        if x[0] < self.low - 1e-6 or x[-1] > self.high + 1e-6:
            return f"{x[0]:.4g} .. {x[-1]:.4g} are not within {self.low:.4g} .. {self.high:.4g}"
        f = self.cdf(x)
        distance = max((np.arange(1, n + 1) / n - f).max(), (f - np.arange(n) / n).max())
        if distance > math.sqrt(math.log(2 / RATE) / (2 * n)):
            return f"{n} numbers, mean {x.mean():.4g}, deviation {x.std():.4g}: a Kolmogorov-Smirnov distance of {distance:.3f}"
        for tail, name in ((f[0], "none is below"), (1 - f[-1], "none is above")):
            if n * math.log1p(-min(tail, 1 - 1e-16)) < math.log(RATE):
                return f"of {n} numbers {name} {x[0 if name.endswith('below') else -1]:.4g}"
        return ""


class Fixed:
    """Numbers that follow from a place: of the parameter's shape, or one for all."""

    def __init__(self, text, of):
        self.text, self.of = text, of

    def off(self, arrays):
        for layer, array in arrays.items():
            want = np.asarray(self.of(Place(layer)), float)
            want = want.reshape(array.shape) if want.size == array.size else np.broadcast_to(want, array.shape)
            if np.abs(array - want).max() > 1e-4 * max(1, np.abs(want).max()):
                return f"layer {layer}: {array.reshape(-1)[:4].round(4)} .., not {want.reshape(-1)[:4].round(4)} .."
        return ""


class Orthogonal:
    """nn.init.orthogonal_: rows or columns, whichever are fewer, are orthogonal and of length `gain`."""

    def __init__(self, gain):
        self.text, self.gain = f"orthogonal times {gain}", gain

    def off(self, arrays):
        for layer, a in arrays.items():
            a = a.T if a.shape[0] > a.shape[1] else a
            error = np.abs(a @ a.T - self.gain**2 * np.eye(len(a))).max()
            if error > 1e-4:
                return f"layer {layer}: products of rows are off by {error:.3g}, their lengths {np.sqrt((a * a).sum(1)).mean():.3g}"
        return ""


class Place:
    """A layer of the models that the test starts, with what RWKV's starts are made of."""

    layers, width, heads = LAYERS, WIDTH, HEADS
    n = np.arange(WIDTH)
    line, ddd = n / (WIDTH - 1), n / WIDTH

    def __init__(self, layer):
        self.layer, self.late, self.early = layer, layer / (LAYERS - 1), 1 - layer / LAYERS  # ratio_0_to_1, ratio_1_to_almost0


erf = np.vectorize(math.erf)


def normal(deviation):
    return Drawn(f"N(0, {deviation:.4g}^2)", lambda x: 0.5 * (1 + erf(x / deviation / math.sqrt(2))))


def uniform(low, high):
    return Drawn(f"U({low:.4g}, {high:.4g})", lambda x: np.clip((x - low) / (high - low), 0, 1), low, high)


def log_uniform(low, high):
    return Drawn(f"log U({low}, {high})", lambda x: np.clip((np.exp(x) - low) / (high - low), 0, 1),
                 math.log(low) if low else -np.inf, math.log(high))


def of_step(text, step):
    """A number whose dt = step(x), which rises with x, is exp U(log 1e-3, log 0.1)."""
    return Drawn(text, lambda x: np.clip((np.log(step(x)) - dt_low) / (dt_high - dt_low), 0, 1))


def constant(value):
    return Fixed(f"{value:.6g}", lambda at: value)


def by(text, of):
    return Fixed(text, of)


DT = of_step("softplus^-1(exp U(log 1e-3, log 0.1))", lambda x: np.logaddexp(0, x))
LEAST = math.exp(-5)


def signed_step(x):
    """dt of alpha = exp(-dt) = e^-5 + (1 - e^-5) tanh(x / 2), which falls with x (C signed_gate_init, "shipped")."""
    return -np.log(LEAST + (1 - LEAST) * np.tanh(np.maximum(x, 0) / 2) - 1e-12)


SIGNED = Drawn("2 artanh((exp(-dt) - e^-5) / (1 - e^-5))", lambda x: 1 - np.clip((np.log(signed_step(x)) - dt_low) / (dt_high - dt_low), 0, 1), 0)


def torch_linear(inputs):
    return uniform(-1 / math.sqrt(inputs), 1 / math.sqrt(inputs))


SCALED = normal(0.02 / math.sqrt(2 * LAYERS))

ONE, ZERO, SMALL = constant(1), constant(0), normal(0.02)
# F fla/models/*/modeling_*.py _init_weights: Linear and Conv1d N(0, initializer_range^2), biases 0; norms start at 1. Its outputs start as
# all weights, which is model.out_deviation = "plain": the study's, not the layer's, as sizes are.
FLA = {"output.weight": SCALED, "*.weight": SMALL, "short_conv.?": SMALL, "*.bias": ZERO, "*gain": ONE, "qk_norm.?": ONE, "out_skip": ONE}
GATED = {"memory.A_log": log_uniform(0, 16), "decay.bias": DT}
KDA = {"memory.A_log": log_uniform(1, 16), "decay.up.bias": DT}
# M mamba_ssm/models/mixer_seq_simple.py _init_weights, which L has too: maps and convolutions as PyTorch starts them, but the last.
TORCH = {"output.weight": uniform(-1 / math.sqrt(2 * WIDTH * LAYERS), 1 / math.sqrt(2 * WIDTH * LAYERS)), "out_skip": ONE,
         "qk_norm.?": ONE, "short_conv.?": uniform(-0.5, 0.5), "short_conv.?.bias": uniform(-0.5, 0.5)}
# Z zoology/model.py _init_weights.
ZOOLOGY = {"output.weight": SCALED, "*.weight": SMALL, "*.bias": ZERO}
SMALL_INIT = normal(math.sqrt(2 / (5 * WIDTH)))  # X xlstm/components/init.py


def zigzag(at):
    z = (at.n % KEY - (KEY - 1) / 2) / ((KEY - 1) / 2)
    return z * np.abs(z)


STARTS = {
    "deltanet": FLA, "gla": FLA, "gsa": FLA, "rope": FLA, "qk_norm": FLA, "fox": FLA, "parallax": FLA,
    "gated_delta": FLA | GATED, "delta_product": FLA | GATED, "mom": FLA | GATED,
    "kda": FLA | KDA,
    # These have no model in F: convolutions keep their constructor's start.
    "gated_delta2": FLA | KDA | {"short_conv.?": uniform(-0.5, 0.5)}, "simple_gla": FLA | {"short_conv.?": uniform(-0.5, 0.5)},
    "complex_kda": FLA | {"memory.A_log": ZERO, "decay.up.bias": SIGNED},
    "comba": FLA | GATED | {"memory.inner_decay": ONE, "memory.correction": ONE},
    "precond_gated_delta": FLA | GATED | {"memory.A_log_a": log_uniform(0, 16), "decay_a.bias": DT, "memory.center": constant(-0.2)},
    "precond_kda": FLA | KDA | {"memory.A_log_a": log_uniform(1, 16), "decay_a.bias": DT, "memory.center": constant(-0.2)},
    "mesa": FLA | {"memory.ridge": constant(math.log(math.expm1(0.75)))},
    "log_linear_gated_delta": FLA | GATED | {"memory.level_scale": ONE},
    "raven": FLA | {"memory.A_log": log_uniform(1e-4, 16), "decay.bias": DT},
    "path": FLA | {"memory.path_key_conv": SMALL}, "path_fox": FLA | {"memory.path_key_conv": SMALL},
    "wall": FLA | {"forget.bias": constant(8)},
    # F fla/models/hgrn2/modeling_hgrn2.py:241: equal before the softmax
    "hgrn2": FLA | {"memory.bound": by("logit(l / L)", lambda at: math.log(at.layer / (at.layers - at.layer)))},
    # Qwen3Config.initializer_range
    "gated_attention": FLA,
    "rwkv7": {  # F fla/layers/rwkv7.py _initialize_weights, LoRA._initialize_weights
        "query.weight": Orthogonal(1), "key.weight": Orthogonal(0.1), "value.weight": Orthogonal(1), "output.weight": ZERO,
        "*.down.weight": ZERO, "*.up.weight": Orthogonal(0.1),
        "decay.up.bias": by("-6 + 6 (n / (C - 1))^(1 + r^0.3) + 0.5 + 2.5 z",
                            lambda at: -6 + 6 * at.line ** (1 + at.late**0.3) + 0.5 + 2.5 * zigzag(at)),
        "rate.up.bias": by("-0.19 + 0.3 z + 0.4 (n / (C - 1) - 0.5)", lambda at: -0.19 + 0.3 * zigzag(at) + 0.4 * (at.line - 0.5)),
        "value_residual.up.bias": by("0.73 - 0.4 (n / (C - 1) - 0.5)", lambda at: 0.73 - 0.4 * (at.line - 0.5)),
        "memory.erase_scale": by("0.71 - 0.1 (n / (C - 1) - 0.5)", lambda at: 0.71 - 0.1 * (at.line - 0.5)),
        "memory.key_mix": constant(1.02), "bonus": constant(-0.04), "out_norm.bias": ZERO,
        "out_norm.gain": by("((l + 1) / L)^0.7", lambda at: ((at.layer + 1) / at.layers) ** 0.7),
        **{"input_shift." + name: by(f"1 - (n / C)^({power} (1 - l / L))", lambda at, p=power: 1 - at.ddd ** (p * at.early))
           for name, power in (("query", 0.2), ("decay", 0.9), ("key", 0.7), ("value", 0.7), ("rate", 0.9), ("out_gate", 0.2))}},
    "rwkv6": {  # R6 RWKV_Tmix_x060, generate_init_weight
        "query.weight": Orthogonal(1), "key.weight": Orthogonal(0.1), "value.weight": Orthogonal(1), "out_gate.weight": Orthogonal(0.1),
        "output.weight": ZERO, "*.down.weight": ZERO, "*.up.weight": uniform(-0.01, 0.01), "out_norm.bias": ZERO,
        "decay.up.bias": by("-6 + 5 (n / (C - 1))^(0.7 + 1.3 r)", lambda at: -6 + 5 * at.line ** (0.7 + 1.3 * at.late)),
        "memory.bonus": by("r (1 - n / (C - 1)) + 0.1 ((n + 1) % 3 - 1)", lambda at: at.late * (1 - at.line) + 0.1 * ((at.n + 1) % 3 - 1)),
        "out_norm.gain": by("((l + 1) / L)^0.7", lambda at: ((at.layer + 1) / at.layers) ** 0.7),
        "input_shift.value": by("1 - (n / C)^(1 - l / L) - 0.3 r", lambda at: 1 - at.ddd**at.early - 0.3 * at.late),
        **{"input_shift." + name: by(f"1 - (n / C)^({power} (1 - l / L))", lambda at, p=power: 1 - at.ddd ** (p * at.early))
           for name, power in (("all", 1), ("decay", 1), ("key", 1), ("query", 0.5), ("out_gate", 0.5))}},
    "rwkv4": {  # R4 RWKV_TimeMix, RWKV_Init; mu is 1 - time_mix
        "channel_key.weight": ZERO, "receptance.weight": ZERO, "output.weight": ZERO, "value.weight": Orthogonal(1), "*.bias": ZERO,
        "memory.decay": by("-5 + 8 (n / (C - 1))^(0.7 + 1.3 r)", lambda at: -5 + 8 * at.line ** (0.7 + 1.3 * at.late)),
        "memory.bonus": by("log 0.3 + 0.5 ((n + 1) % 3 - 1)", lambda at: math.log(0.3) + 0.5 * ((at.n + 1) % 3 - 1)),
        "input_shift.channel_key": by("1 - (n / C)^(1 - l / L)", lambda at: 1 - at.ddd**at.early),
        "input_shift.value": by("1 - (n / C)^(1 - l / L) - 0.3 r", lambda at: 1 - at.ddd**at.early - 0.3 * at.late),
        "input_shift.receptance": by("1 - (n / C)^(0.5 (1 - l / L))", lambda at: 1 - at.ddd ** (0.5 * at.early))},
    "retnet": {  # T MultiScaleRetention.reset_parameters: Xavier
        "output.weight": uniform(-math.sqrt(6 / (3 * WIDTH)), math.sqrt(6 / (3 * WIDTH))),
        **{name + ".weight": uniform(-(2**-2.5) * math.sqrt(6 / (n * WIDTH)), 2**-2.5 * math.sqrt(6 / (n * WIDTH)))
           for name, n in (("query", 2), ("key", 2), ("value", 3), ("out_gate", 3))}},
    "mamba1": TORCH | {
        "memory.log_rate": by("log 1 .. N", lambda at: np.tile(np.log(np.arange(1, 3)), 2 * at.width)), "step.up.bias": DT,
        "step.up.weight": torch_linear(2), "value.weight": torch_linear(WIDTH), "out_gate.weight": torch_linear(WIDTH),
        "*.weight": torch_linear(2 * WIDTH)},
    "mamba2": TORCH | {"memory.A_log": log_uniform(1, 16), "step.bias": DT, "*gain": ONE, "*.weight": torch_linear(WIDTH)},
    "log_linear_attention": FLA | {  # F fla/models/log_linear_mamba2/modeling_log_linear_mamba2.py
        "output.weight": uniform(-1 / math.sqrt(4 * WIDTH * LAYERS), 1 / math.sqrt(4 * WIDTH * LAYERS)), "step.bias": DT,
        "memory.A_log": by("log 1 .. H", lambda at: np.log(np.arange(1, at.heads + 1))), "memory.level_scale": ONE},
    "mamba3": {"step.bias": DT, "memory.?_bias": ONE} | TORCH | {"*.weight": torch_linear(WIDTH)},
    "longhorn_diagonal": {"beta.up.bias": ZERO, "beta.up.weight": torch_linear(2)} | TORCH
                         | {"value.weight": torch_linear(WIDTH), "out_gate.weight": torch_linear(WIDTH), "*.weight": torch_linear(2 * WIDTH)},
    "mlstm": {  # X mLSTMLayer.reset_parameters, mLSTMCell.reset_parameters (the program adds 3 .. 6 over the heads to the bias)
        "forget_gate.*": ZERO, "input_gate.bias": normal(0.1), "input_gate.*": ZERO, "out_skip": ONE,
        "output.weight": normal(2 / LAYERS / math.sqrt(WIDTH)),
        "short_conv.up*": uniform(-0.5, 0.5), "*.weight": SMALL_INIT, "out_norm.gain": ONE},
    "slstm": {  # X sLSTMLayer.reset_parameters, sLSTMCellBase.reset_parameters
        "memory.u_*": ZERO, "out_norm.gain": ONE, "input_gate.bias": ZERO, "output_gate.bias": ZERO,
        "*_gate.weight": SMALL_INIT, "value.weight": SMALL_INIT,
        "short_conv.input": uniform(-0.5, 0.5), "short_conv.input.bias": uniform(-0.5, 0.5),
        "forget_gate.bias": by("5 - 12 (n / (V - 1))^(0.3 + 1.3 r)", lambda at: 5 - 12 * (at.n % KEY / (KEY - 1)) ** (0.3 + 1.3 * at.late))},
    "softmax": ZOOLOGY, "sliding_window": ZOOLOGY,
    "linear_attention": {"*.weight": SMALL},
    "h3": {  # Z zoology/mixers/h3/h3.py, ss_kernel.py, dplr.py (linear): output_linear is not out_proj
        "*.weight": SMALL, "*.bias": ZERO, "memory.skip": normal(1), "memory.log_step": uniform(dt_low, dt_high),
        "memory.read*": normal(math.sqrt(0.5)),
        "memory.log_angle": by("log(pi n)", lambda at: np.tile(np.log(np.pi * np.maximum(np.arange(16), 1e-9)), at.heads))},
    "hyena": {  # Z zoology/mixers/hyena.py; _init_weights draws the filter's maps too
        "memory.frequency": ONE, "memory.filter_*bias": ZERO, "memory.filter_*": SMALL, "memory.skip": normal(1),
        "memory.window": by("4.6 / 1.5 .. 4.6 / 0.3", lambda at: np.linspace(-math.log(1e-2) / 1.5, -math.log(1e-2) / 0.3, KEY)),
        "short_conv.?": torch_linear(3), "short_conv.?.bias": torch_linear(3)} | ZOOLOGY,
    "long_conv": {"memory.filter_*bias": ZERO, "memory.filter_*": SMALL, "*.weight": SMALL, "*.bias": ZERO},
    "memory_mosaics": {  # O; the program's leak is the logarithm of the rate over its start, log_sharpness that of both keys' scales
        "memory.leak": ZERO, "memory.log_sharpness": constant(2), "output.weight": SCALED, "*.weight": SMALL},
    "ttt_linear": FLA | {"memory.gain": ONE, "memory.start": SMALL, "memory.bias": ZERO, "memory.start_b": ZERO},
    "ttt_mlp": FLA | {"memory.gain": ONE, "memory.w?_0": SMALL, "memory.bias": ZERO, "memory.b?_0": ZERO},
}


WITHOUT = {"attention_sink", "deltaformer"}  # gpt-oss has no start in its code, DeltaFormer no code
# Parameters that the program starts otherwise, with the words of 'Lacks' that say so, or None where none do.
KNOWN = {
    "complex_kda": {"decay.up.*": "decays whose signs start as its source ships them"},
    "h3": {"short_conv.k": "HiPPO's start", "memory.log_angle": "HiPPO's start", "output.weight": "the start of its output map"},
    "hyena": {"memory.filter_*": "filters that start as N(0, 0.02^2)"},
    "log_linear_attention": {"output.weight": "the start of its output map"},
    "long_conv": {"memory.filter_*": "filters that start as N(0, 0.02^2)", "output.weight": "without projections of values and of the output"},
    "longhorn_diagonal": {"*.weight": "maps that start as nn.Linear"},
    "mamba1": {"step.up.weight": "start of the weights of its steps", "*.weight": "maps that start as nn.Linear"},
    "mamba2": {"*.weight": "maps that start as nn.Linear"},
    "mamba3": {"*.weight": "maps that start as nn.Linear"},
    "rwkv4": {"channel_key.weight": "keys and receptances that start at 0", "receptance.weight": "keys and receptances that start at 0",
              "value.weight": "starts of its value and output maps", "output.weight": "starts of its value and output maps"},
    "rwkv6": {"query.weight": "orthogonal starts", "key.weight": "orthogonal starts", "value.weight": "orthogonal starts",
              "out_gate.weight": "orthogonal starts", "output.weight": "an output map that starts at 0",
              "decay.*.weight": "the other factor of its small maps", "out_norm.gain": "gains of the norm that grow"},
    "slstm": {"output.weight": "an output projection", "input_gate.bias": "slope of the gates' biases", "forget_gate.bias": "slope of the gates' biases"},
}


def known(memory, name):
    """Whether the program is known to start a parameter otherwise."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in KNOWN.get(memory, ()))


def law_of(memory, name):
    """The law of a parameter, or nothing where its authors' code starts none such."""
    laws = STARTS.get(memory, {})
    exact = laws.get(name)
    return exact or next((law for pattern, law in laws.items() if fnmatch.fnmatchcase(name, pattern)), None)


def starts_off(memory, name, arrays):
    """Why `arrays`, {number of the layer: array}, were not drawn by the authors' law; '' where they may have been."""
    law = law_of(memory, name)
    if law is None:
        return "no such parameter there"
    return law.off(arrays)
