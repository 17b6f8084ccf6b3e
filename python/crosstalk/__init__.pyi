"""What editors and type checkers know of the package. Made by scripts/python_stubs.py from the registries; a test holds it against them."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any, Literal, Mapping, Sequence, TypeVar, overload

from typing_extensions import Unpack

from . import jax as jax, torch as torch
from ._core import ConfigError as ConfigError, DeviceError as DeviceError, OptionError as OptionError
from ._core import OutOfMemory as OutOfMemory, StoreError as StoreError
from ._options import Given, OfTask, Shared
from .conversion import write_arrays as write_arrays
from .memories import Description as Description, describe as describe, memories as memories
from .memories import release as release, set_threads as set_threads
from .plots import plot as plot
from .rules import Rule as Rule, rule as rule
from .stores import read as read, weights as weights
from .studies import Plan as Plan, Result as Result, difference as difference, plan as plan, run as run, table as table
from .tasks import Batch as Batch, Task as Task, tasks as tasks
from .training import train as train
from .verifying import verify as verify

__all__: list[str]
__version__: str
Array = Any  #: of numpy or torch, or with __dlpack__ or __cuda_array_interface__; all of one kind in a call
_A = TypeVar("_A")  #: the kind

@overload
def apply(
    memory: Literal["alibi"], q: Array, k: Array, v: _A, *, slope: Array, strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["attention_sink"], q: Array, k: Array, v: _A, *, sink: Array, strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["comba"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, erase_key: Array,
    correction: Array = ..., s0: Array = ..., beta_max: float = ..., rate_from: float = ...,
    lengths: Literal["before", "after"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["complex_kda"], q: Array, k: Array, v: _A, *, signed_decay: Array, beta: Array, s0: Array = ...,
    beta_max: float = ..., gate: Literal["signed_sigmoid2", "sigmoid", "signed_exp"] = ..., decay_start: float = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["delta"], q: Array, k: Array, v: _A, *, beta: Array, s0: Array = ...,
    read_norm: Literal["none", "attention", "layernorm"] = ..., beta_max: float = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["delta_product"], q: Array, k: Array, v: _A, *, beta: Array, log_decay: Array = ..., s0: Array = ...,
    beta_max: float = ..., rate_from: float = ..., writes: int = ..., decay: Literal["none", "mamba"] = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["deltaformer"], q: Array, k: Array, v: _A, *, beta: Array = ...,
    kappa1: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"] = ...,
    kappa2: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"] = ..., order: int = ...,
    digits: int = ..., tau: float = ..., row_norm1: Literal["none", "sum"] = ..., row_norm2: Literal["none", "sum"] = ...,
    beta_max: float = ..., solve_with: Literal["key", "query"] = ..., beta_on_write: bool = ..., strict: bool = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["deltanet"], q: Array, k: Array, v: _A, *, beta: Array, s0: Array = ..., beta_max: float = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["dfw"], q: Array, k: Array, v: _A, *, log_decay: Array, log_decay_v: Array, s0: Array = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["diag_kdn"], q: Array, k: Array, v: _A, *, log_decay: Array, omega: Array, r: Array, prior: Array,
    d0: Array = ..., s0: Array = ..., information: float = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["differential_attention"], q: Array, k: Array, v: _A, *, second_query: Array, second_key: Array,
    second_share: Array, strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["dplr"], q: Array, k: Array, v: _A, *, log_decay: Array, a: Array, b: Array, s0: Array = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["erase_then_delta"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, gamma: Array,
    erase_key: Array, s0: Array = ..., beta_max: float = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["fast_weights"], q: Array, k: Array, v: _A, *, a0: Array = ..., s0: Array = ..., decay: float = ...,
    rate: float = ..., inner_steps: int = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["fox"], q: Array, k: Array, v: _A, *, log_decay: Array, strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["fwm"], q: Array, k: Array, v: _A, *, beta: Array, s0: Array = ...,
    read_norm: Literal["none", "attention", "layernorm"] = ..., beta_max: float = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["gated_attention"], q: Array, k: Array, v: _A, *, gate: Array, strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["gated_delta"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, s0: Array = ...,
    beta_max: float = ..., rate_from: float = ..., predict: Literal["decayed", "undecayed"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["gated_delta2"], q: Array, k: Array, v: _A, *, log_decay: Array, erase_gate: Array, write_gate: Array,
    s0: Array = ..., beta_max: float = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["gated_oja"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, s0: Array = ...,
    beta_max: float = ..., value_norm: Literal["l2", "none"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["gka"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, alpha: Array, h0: Array = ...,
    s0: Array = ..., rate_from: float = ..., solver: Literal["chebyshev", "exact"] = ..., iterations: int = ...,
    ratio: float = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["gla"], q: Array, k: Array, v: _A, *, log_decay: Array, s0: Array = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["gru"], *, v: _A, reset_gate: Array, update_gate: Array, u_reset: Array, u_update: Array, u_new: Array,
    h0: Array = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["gsa"], q: Array, k: Array, v: _A, *, log_decay: Array, a0: Array = ..., c0: Array = ..., slots: int = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["h3"], q: Array, k: Array, v: _A, *, rate: Array, angle: Array, read: Array, read_imag: Array, skip: Array,
    waves: int = ..., strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["hgrn2"], *, q: Array, v: _A, log_decay: Array, s0: Array = ..., lower_bound: float = ...,
    bounds: Literal["same", "layers"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["hyena"], *, v: _A, pre_gate: Array, post_gate: Array, filter_time: Array, filter_cos: Array,
    filter_sin: Array, filter_bias: Array, frequency: Array, filter_1: Array, filter_1_bias: Array, filter_2: Array,
    filter_2_bias: Array, filter_out: Array, window: Array, skip: Array, units: int = ..., length: int = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["iso_kdn"], q: Array, k: Array, v: _A, *, log_decay: Array, omega: Array, r: Array, prior: Array,
    d0: Array = ..., s0: Array = ..., information: float = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["kda"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, s0: Array = ..., beta_max: float = ...,
    gate: Literal["softplus", "bounded"] = ..., rate: Literal["", "drawn", "one"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["kernel_attention"], q: Array, k: Array, v: _A, *,
    kernel: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"] = ..., order: int = ...,
    digits: int = ..., tau: float = ..., row_norm: Literal["none", "sum"] = ..., strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["kla"], q: Array, k: Array, v: _A, *, log_decay: Array, noise: Array, value_precision: Array, p0: Array = ...,
    e0: Array = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["linear_attention"], q: Array, k: Array, v: _A, *, s0: Array = ..., z0: Array = ...,
    read_norm: Literal["none", "attention", "layernorm"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["log_linear_attention"], q: Array, k: Array, v: _A, *, log_decay: Array, step: Array = ..., level_gate: Array,
    write: Literal["step", "one"] = ..., strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["log_linear_gated_delta"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, level_gate: Array,
    beta_max: float = ..., rate_from: float = ..., strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["long_conv"], *, v: _A, gate: Array, filter_time: Array, filter_cos: Array, filter_sin: Array,
    filter_bias: Array, filter_out: Array, filter_out_bias: Array, units: int = ..., length: int = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["longhorn"], q: Array, k: Array, v: _A, *, beta: Array, s0: Array = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["longhorn_diagonal"], q: Array, k: Array, v: _A, *, beta: Array, s0: Array = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["lstm"], *, v: _A, input_gate: Array, forget_gate: Array, output_gate: Array, u_input: Array, u_forget: Array,
    u_cell: Array, u_output: Array, h0: Array = ..., c0: Array = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["m2rnn"], q: Array, k: Array, v: _A, *, log_decay: Array, turn: Array, s0: Array = ..., rate_from: float = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["mamba1"], q: Array, k: Array, v: _A, *, step: Array, log_rate: Array, s0: Array = ...,
    rates: Literal["drawn", "counted"] = ..., step_rank: Literal["keys", "token"] = ...,
    eigenvalues: Literal["positive", "either"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["mamba2"], q: Array, k: Array, v: _A, *, log_decay: Array, step: Array, s0: Array = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["mamba3"], q: Array, k: Array, v: _A, *, log_decay: Array, step: Array, mix: Array, angle: Array,
    k_bias: Array, q_bias: Array, k0: Array = ..., v0: Array = ..., angle0: Array = ..., s0: Array = ..., angles: int = ...,
    rate: Literal["rational", "softplus"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["memory_mosaics"], q: Array, k: Array, v: _A, *, log_decay: Array, sharpness: Array, strict: bool = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["mesa"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, ridge: Array, h0: Array = ...,
    s0: Array = ..., iterations: int = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["mlstm"], q: Array, k: Array, v: _A, *, log_decay: Array, log_input: Array, s0: Array = ..., n0: Array = ...,
    m0: Array = ..., gate_weights: Literal["zero", "drawn"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["mom"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, router: Array, m0: Array = ...,
    beta_max: float = ..., rate_from: float = ..., memories: int = ..., selected: int = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["momentum_deltanet"], q: Array, k: Array, v: _A, *, log_decay: Array, log_mu: Array, eta: Array, beta: Array,
    correction: Array = ..., m0: Array = ..., s0: Array = ..., beta_max: float = ..., rate_from: float = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["parallax"], q: Array, k: Array, v: _A, *, second_query: Array, strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["path"], q: Array, k: Array, v: _A, *, path_key: Array, beta: Array, beta_max: float = ...,
    path_conv: int = ..., path_conv_start: Literal["uniform", "normal"] = ..., strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["path_fox"], q: Array, k: Array, v: _A, *, path_key: Array, beta: Array, log_decay: Array,
    beta_max: float = ..., path_conv: int = ..., path_conv_start: Literal["uniform", "normal"] = ...,
    gate_scale: Literal["one", "key"] = ..., strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["peng_gate"], q: Array, k: Array, v: _A, *, beta: Array, s0: Array = ..., z0: Array = ...,
    read_norm: Literal["none", "attention", "layernorm"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["precond_gated_delta"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, log_decay_a: Array,
    beta_a: Array, center: Array, a0: Array = ..., s0: Array = ..., beta_max: float = ..., rate_from: float = ...,
    squash: float = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["precond_kda"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, log_decay_a: Array, beta_a: Array,
    center: Array, a0: Array = ..., s0: Array = ..., beta_max: float = ..., squash: float = ...,
    start: Literal["zero", "steps"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["q_delta"], q: Array, k: Array, v: _A, *, log_decay: Array, beta: Array, query_share: Array = ...,
    s0: Array = ..., beta_max: float = ..., rate_from: float = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["qk_norm"], q: Array, k: Array, v: _A, *, q_gain: Array = ..., k_gain: Array = ..., strict: bool = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["raven"], q: Array, k: Array, v: _A, *, log_decay: Array, router: Array, a0: Array = ..., c0: Array = ...,
    slots: int = ..., selected: int = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["retnet"], q: Array, k: Array, v: _A, *, log_decay: Array, s0: Array = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["rope"], q: Array, k: Array, v: _A, *, base: float = ..., strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["rwkv4"], *, v: _A, k: Array, log_decay: Array, bonus: Array, y0: Array = ..., l0: Array = ...,
    start: Literal["drawn", "ramps"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["rwkv6"], q: Array, k: Array, v: _A, *, log_decay: Array, bonus: Array, s0: Array = ...,
    start: Literal["drawn", "ramps"] = ..., lora: Literal["linear", "tanh"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["rwkv7"], q: Array, k: Array, v: _A, *, log_decay: Array, erase_key: Array, in_context_rate: Array,
    s0: Array = ..., start: Literal["ramps", "constants"] = ..., rank: Literal["head", "width"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["s4d"], q: Array, k: Array, v: _A, *, step: Array, log_rate: Array, angle: Array, read: Array,
    read_imag: Array, s_imag0: Array = ..., s0: Array = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["simple_gla"], q: Array, k: Array, v: _A, *, log_decay: Array, s0: Array = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["sliding_window"], q: Array, k: Array, v: _A, *, window: int = ..., strict: bool = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["slstm"], *, v: _A, input_gate: Array, forget_gate: Array, output_gate: Array, u_input: Array, u_forget: Array,
    u_cell: Array, u_output: Array, h0: Array = ..., y0: Array = ..., l0: Array = ...,
    start: Literal["plain", "released", "layers"] = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["softmax"], q: Array, k: Array, v: _A, *, strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["stick_breaking"], q: Array, k: Array, v: _A, *, strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["titans_linear"], q: Array, k: Array, v: _A, *, rate: Array, momentum_gate: Array, forget_gate: Array,
    p0: Array = ..., s0: Array = ..., mini_batch: int = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["titans_mlp"], q: Array, k: Array, v: _A, *, rate: Array, momentum_gate: Array, forget_gate: Array,
    w1_0: Array, w2_0: Array, p1_0: Array = ..., p2_0: Array = ..., max_rate: float = ..., mini_batch: int = ...,
    **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["ttt_linear"], q: Array, k: Array, v: _A, *, rate: Array, gain: Array, bias: Array, b0: Array = ...,
    s0: Array = ..., mini_batch: int = ..., residual: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["ttt_mlp"], q: Array, k: Array, v: _A, *, rate: Array, gain: Array, bias: Array, w1_0: Array, b1_0: Array,
    w2_0: Array, b2_0: Array, mini_batch: int = ..., residual: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: Literal["wall"], q: Array, k: Array, v: _A, *, log_decay: Array, strict: bool = ..., **options: Unpack[Shared],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: str, q: Array = ..., k: Array = ..., v: _A = ..., *, form: str | Any = ...,
    precision: Literal["fp64", "fp32", "tf32", "bf16"] | Any = ..., threads: int | Any = ..., reset: Any = ...,
    cu_seqlens: Any = ..., **given: Unpack[Given],
) -> tuple[_A, dict[str, _A]]: ...
@overload
def apply(
    memory: str, q: Array = ..., k: Array = ..., v: _A = ..., *, d_o: Array, d_state: Mapping[str, Array] | None = ...,
    form: str | Any = ..., precision: Literal["fp64", "fp32", "tf32", "bf16"] | Any = ..., threads: int | Any = ...,
    reset: Any = ..., cu_seqlens: Any = ..., **given: Unpack[Given],
) -> tuple[_A, dict[str, _A], dict[str, _A]]: ...
@overload
def apply(
    memory: str, q: Array = ..., k: Array = ..., v: _A = ..., *, d_o: Array = ..., d_state: Mapping[str, Array],
    form: str | Any = ..., precision: Literal["fp64", "fp32", "tf32", "bf16"] | Any = ..., threads: int | Any = ...,
    reset: Any = ..., cu_seqlens: Any = ..., **given: Unpack[Given],
) -> tuple[_A, dict[str, _A], dict[str, _A]]: ...
@overload
def task(
    name: Literal["arithmetic"], *, form: Literal["parity", "flat", "brackets", "prefix"] = ..., modulus: int = ...,
    query_at: Literal["end", "every"] = ..., times: bool = ..., shortest: int = ..., longest: int = ..., eval_shortest: int = ...,
    eval_longest: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["automaton"], *,
    machine: Literal["parity", "even_pairs", "counter", "cycle", "flip_flop", "undo", "majority", "dyck", "language", "random", "table"] = ...,
    table: str = ..., answers: str = ..., states: int = ..., inputs: int = ..., drawn_table: int = ...,
    reveal: Literal["usual", "every", "end", "marks", "shown", "next"] = ..., ignore: float = ..., eval_ignore: float = ...,
    depth: int = ..., eval_undo: int = ..., string: int = ..., examples: int = ..., shortest: int = ..., longest: int = ...,
    eval_shortest: int = ..., eval_longest: int = ...,
) -> Task: ...
@overload
def task(name: Literal["brevo"], *, nodes: int = ..., examples: int = ...) -> Task: ...
@overload
def task(name: Literal["compression"], *, vocabulary: int = ..., length: int = ..., examples: int = ...) -> Task: ...
@overload
def task(
    name: Literal["context_recall"], *, contexts: int = ..., pairs: int = ..., length: int = ..., vocabulary: int = ...,
    context_vocabulary: int = ..., key_vocabulary: int = ..., layout: Literal["blocks", "triples"] = ...,
    query_by: Literal["zone", "pair"] = ..., keys: Literal["shared", "unique"] = ..., values: Literal["distinct", "any"] = ...,
    power: float = ..., filler: Literal["zero", "random"] = ..., examples: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["depo"], *, nodes: int = ..., hops: int = ..., queries: int = ..., shortest_word: int = ...,
    longest_word: int = ..., alphabet: int = ..., examples: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["file"], *, folder: str = ..., content: str = ..., associations: int = ..., keys: int = ..., values: int = ...,
    order: Literal["shuffled", "file"] = ...,
) -> Task: ...
@overload
def task(name: Literal["induction"], *, vocabulary: int = ..., length: int = ...) -> Task: ...
@overload
def task(
    name: Literal["k_hop"], *, length: int = ..., letters: int = ..., hops: int = ..., least_hops: int = ...,
    query_at: Literal["every", "end"] = ..., examples: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["mad_recall"], *, vocabulary: int = ..., length: int = ..., noise_vocabulary: int = ..., noise: float = ...,
    motif: int = ..., train_labels: Literal["next", "due"] = ..., examples: int = ...,
) -> Task: ...
@overload
def task(name: Literal["memorise"], *, vocabulary: int = ..., length: int = ..., map: int = ..., examples: int = ...) -> Task: ...
@overload
def task(
    name: Literal["mqar"], *, vocabulary: int = ..., length: int = ..., pairs: int = ..., passes: int = ..., power: float = ...,
    filler: Literal["zero", "random"] = ..., examples: int = ..., fresh: bool = ..., segments: str = ..., test_segments: str = ...,
) -> Task: ...
@overload
def task(
    name: Literal["palindrome"], *, length: int = ..., vocabulary: int = ...,
    order: Literal["reverse", "same", "odds_first", "sorted", "set"] = ..., examples: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["reachability"], *, nodes: int = ..., vocabulary: int = ..., names: Literal["sorted", "random"] = ...,
    examples: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["reassign"], *, associations: int = ..., keys: int = ..., values: int = ..., length: int = ...,
    eval_length: int = ..., queries: int = ..., query_by: Literal["element", "key"] = ..., update_fraction: float = ...,
    layout: Literal["fused", "slots", "split"] = ..., power: float = ..., filler: Literal["zero", "random"] = ...,
    examples: int = ..., fresh: bool = ..., segments: str = ..., test_segments: str = ..., curriculum: str = ...,
) -> Task: ...
@overload
def task(name: Literal["recall"], *, associations: int = ..., keys: int = ..., values: int = ..., queries: int = ...) -> Task: ...
@overload
def task(name: Literal["regression"], *, inputs: int = ..., pairs: int = ..., noise: float = ..., queries: int = ...) -> Task: ...
@overload
def task(
    name: Literal["selective_copy"], *, vocabulary: int = ..., length: int = ..., data: int = ...,
    places: Literal["before", "uniform"] = ..., examples: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["stacks"], *, stacks: int = ..., elements: int = ..., length: int = ..., pop: float = ..., examples: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["swap"], *, associations: int = ..., keys: int = ..., values: int = ..., operations: int = ...,
    identity_fraction: float = ..., set_fraction: float = ..., query_at: Literal["every", "end"] = ..., queries: int = ...,
    layout: Literal["fused", "tag", "split"] = ..., curriculum: str = ...,
) -> Task: ...
@overload
def task(
    name: Literal["text"], *, folder: str = ..., content: str = ..., length: int = ..., vocabulary: int = ..., lanes: int = ...,
    eval_lanes: int = ..., eval_share: float = ..., test_share: float = ...,
) -> Task: ...
@overload
def task(
    name: Literal["tokens"], *, folder: str = ..., content: str = ..., vocabulary: int = ..., answers: int = ...,
    order: Literal["shuffled", "file"] = ..., load: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["trace"], *, variables: int = ..., values: int = ..., lines: int = ..., reveal_every: int = ...,
    assign_share: float = ..., hidden_share: float = ..., train_labels: Literal["next", "due"] = ..., examples: int = ...,
) -> Task: ...
@overload
def task(
    name: Literal["words"], *, group: str = ..., table: str = ..., factors: Literal["all", "swaps", "three"] = ...,
    length: int = ..., query_at: Literal["every", "end"] = ..., start: bool = ..., transition: int = ...,
    held_out_pairs: int = ..., pair_choice: int = ..., examples: int = ..., curriculum: str = ...,
) -> Task: ...
@overload
def task(name: str, **options: Unpack[OfTask]) -> Task: ...
