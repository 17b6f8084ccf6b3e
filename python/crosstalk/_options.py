"""Names and types of inputs and options. Made by scripts/python_stubs.py from the registries; a test holds it against them."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, Literal, Sequence, TypedDict


class Shared(TypedDict, total=False):
    """Options of nearly every memory, and how it is calculated."""

    d_dot: int
    degree: int
    denominator: bool
    eps: float
    favor_redraw: Literal["every_forward", "fixed"]
    favor_variant: Literal["hyperbolic", "positive"]
    feature_map: Literal["all_poly", "cosformer", "dpfp", "elu1", "exp", "favor", "favor_relu", "hedgehog", "identity", "power", "relu", "rfa", "silu", "square", "tanh", "taylor"]
    features: int
    form: str
    hedgehog_variant: Literal["softmax", "exp"]
    key_norm: Literal["none", "sum", "l2"]
    nu: int
    precision: Literal["fp64", "fp32", "tf32", "bf16"] | None
    scale: float
    threads: int | None


class Given(TypedDict, total=False):
    """Inputs of memories beside q, k and v, and their options."""

    a: Any
    a0: Any
    angle: Any
    angle0: Any
    angles: int
    b: Any
    b0: Any
    b1_0: Any
    b2_0: Any
    base: float
    beta: Any
    beta_a: Any
    beta_max: float
    beta_on_write: bool
    bias: Any
    bonus: Any
    c: float
    c0: Any
    c2: float
    c3: float
    center: Any
    correction: Any
    d_dot: int
    decay: float | Literal["none", "mamba"]
    decay_start: float
    degree: int
    denominator: bool
    digits: int
    eigenvalues: Literal["positive", "either"]
    eps: float
    erase_gate: Any
    erase_key: Any
    favor_redraw: Literal["every_forward", "fixed"]
    favor_variant: Literal["hyperbolic", "positive"]
    feature_map: Literal["all_poly", "cosformer", "dpfp", "elu1", "exp", "favor", "favor_relu", "hedgehog", "identity", "power", "relu", "rfa", "silu", "square", "tanh", "taylor"]
    features: int
    filter_1: Any
    filter_1_bias: Any
    filter_2: Any
    filter_2_bias: Any
    filter_bias: Any
    filter_cos: Any
    filter_out: Any
    filter_out_bias: Any
    filter_sin: Any
    filter_time: Any
    forget_gate: Any
    frequency: Any
    gain: Any
    gate: Any
    gate_scale: Literal["one", "key"]
    gate_weights: Literal["zero", "drawn"]
    h0: Any
    hedgehog_variant: Literal["softmax", "exp"]
    in_context_rate: Any
    inner_steps: int
    input_gate: Any
    iterations: int
    k0: Any
    k_bias: Any
    k_gain: Any
    kappa1: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"]
    kappa2: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"]
    kernel: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"]
    key_norm: Literal["none", "sum", "l2"]
    l0: Any
    law: str
    length: int
    level_gate: Any
    log_decay: Any
    log_decay_a: Any
    log_decay_v: Any
    log_input: Any
    log_rate: Any
    lora: Literal["linear", "tanh"]
    lower_bound: float
    m0: Any
    max_rate: float
    memories: int
    mini_batch: int
    mix: Any
    momentum_gate: Any
    n0: Any
    nu: int
    order: int
    output_gate: Any
    p0: Any
    p1_0: Any
    p2_0: Any
    path_conv: int
    path_key: Any
    post_gate: Any
    pre_gate: Any
    predict: Literal["decayed", "undecayed"]
    q_bias: Any
    q_gain: Any
    rank: Literal["head", "width"]
    rate: Any
    rate_from: float
    rates: Literal["drawn", "counted"]
    read: Any
    read_imag: Any
    read_norm: Literal["none", "attention", "layernorm"]
    reset_gate: Any
    residual: bool
    ridge: Any
    router: Any
    row_norm: Literal["none", "sum"]
    row_norm1: Literal["none", "sum"]
    row_norm2: Literal["none", "sum"]
    s0: Any
    s_imag0: Any
    scale: float
    second_query: Any
    selected: int
    sharpness: Any
    signed_decay: Any
    sink: Any
    skip: Any
    slope: Any
    slots: int
    solve_with: Literal["key", "query"]
    squash: float
    start: Literal["zero", "steps", "drawn", "ramps", "constants", "plain", "released"]
    step: Any
    step_rank: Literal["keys", "token"]
    strict: bool
    tau: float
    u_cell: Any
    u_forget: Any
    u_input: Any
    u_new: Any
    u_output: Any
    u_reset: Any
    u_update: Any
    units: int
    update_gate: Any
    v0: Any
    value_norm: Literal["l2", "none"]
    w1_0: Any
    w2_0: Any
    waves: int
    window: Any
    write: Literal["step", "one"]
    write_gate: Any
    writes: int
    y0: Any
    z0: Any


class OfLayer(TypedDict, total=False):
    """Options of a memory and of the language model around it."""

    angles: int
    base: float
    beta: Literal["learned", "one"]
    beta_max: float
    beta_on_write: bool
    bias: bool
    biases: str
    bonus: bool
    c: float
    c2: float
    c3: float
    conv_width: int
    d_dot: int
    d_key: int
    d_value: int
    decay: float | Literal["none", "mamba"]
    decay_start: float
    decoder: Literal["none", "last"]
    degree: int
    denominator: bool
    digits: int
    dropout: float
    eigenvalues: Literal["positive", "either"]
    embed_dropout: float
    embedding: int
    eps: float
    favor_redraw: Literal["every_forward", "fixed"]
    favor_variant: Literal["hyperbolic", "positive"]
    feature_map: Literal["all_poly", "cosformer", "dpfp", "elu1", "exp", "favor", "favor_relu", "hedgehog", "identity", "power", "relu", "rfa", "silu", "square", "tanh", "taylor"]
    feature_scale: bool
    features: int
    gate: Literal["signed_sigmoid2", "sigmoid", "signed_exp", "softplus", "bounded"]
    gate_scale: Literal["one", "key"]
    gate_weights: Literal["zero", "drawn"]
    heads: int
    hedgehog_variant: Literal["softmax", "exp"]
    init: str
    inner: bool
    inner_steps: int
    input_shift: Literal["none", "static", "token"]
    input_shift_start: Literal["uniform", "rwkv4", "rwkv7"]
    iterations: int
    kappa1: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"]
    kappa2: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"]
    kernel: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"]
    key_codes: Literal["learned", "frozen"]
    key_groups: int
    key_norm: Literal["none", "sum", "l2"]
    key_start: float
    last_norm: Literal["same", "layer", "rms"]
    law: str | Sequence[str]
    layer: Literal["bare", "published"]
    layers: int
    length: int
    lora: Literal["linear", "tanh"]
    lower_bound: float
    max_length: int
    max_rate: float
    memories: int
    mini_batch: int
    mlp: Literal["none", "identity", "gelu", "swiglu"]
    mlp_ratio: float
    norm: Literal["layer", "rms"]
    nu: int
    order: int
    out_act: Literal["none", "silu"]
    out_deviation: Literal["scaled", "plain", "zero"]
    out_gate: Literal["none", "sigmoid", "silu", "gelu", "lora"]
    out_gate_rank: int
    out_norm: Literal["none", "rms", "layer", "group", "rms_all"]
    out_norm_bias: bool
    out_norm_eps: float
    out_norm_gain: Literal["head", "shared", "off"]
    out_norm_order: Literal["before", "after"]
    out_norm_start: Literal["one", "depth"]
    out_skip: Literal["none", "head", "channel"]
    parts: Literal["own", "equal"]
    path_conv: int
    positions: Literal["none", "learned"]
    predict: Literal["decayed", "undecayed"]
    prenorm: bool
    probe_keys: Literal["random", "orthonormal", "near_orthogonal"]
    probe_scale: float
    probe_values: int
    projection_start: Literal["law", "orthogonal"]
    qk_norm: Literal["none", "shared", "head"]
    rank: Literal["head", "width"]
    rate: float | Literal["", "drawn", "one", "rational", "softplus"]
    rate_from: float
    rates: Literal["drawn", "counted"]
    read_norm: Literal["none", "attention", "layernorm"]
    readout: Literal["linear", "mlp"]
    residual: bool
    rotary: bool
    rotary_base: float
    rotary_period: int
    row_norm: Literal["none", "sum"]
    row_norm1: Literal["none", "sum"]
    row_norm2: Literal["none", "sum"]
    scale: float
    selected: int
    short_conv: Literal["none", "q", "k", "v", "qk", "qv", "kv", "qkv"]
    short_conv_bias: bool
    short_conv_silu: bool
    short_conv_start: Literal["uniform", "deviation"]
    short_conv_width: int
    silu: Literal["none", "q", "k", "v", "qk", "qv", "kv", "qkv"]
    slots: int
    solve_with: Literal["key", "query"]
    squash: float
    stack: str
    start: Literal["zero", "steps", "drawn", "ramps", "constants", "plain", "released"]
    step_rank: Literal["keys", "token"]
    strict: bool
    tau: float
    tied_head: bool
    token_shift: Literal["none", "q", "k", "v", "qk", "qv", "kv", "qkv"]
    token_shift_law: Literal["channel", "head"]
    units: int
    value_codes: int
    value_norm: Literal["l2", "none"]
    value_residual: bool
    waves: int
    weight_deviation: float
    weight_dropout: float
    window: int
    write: Literal["step", "one"]
    writes: int


class OfTask(TypedDict, total=False):
    """Options of tasks."""

    alphabet: int
    answers: int
    associations: int
    content: str
    context_vocabulary: int
    contexts: int
    curriculum: str
    data: int
    elements: int
    eval_length: int
    eval_longest: int
    eval_shortest: int
    examples: int
    factors: Literal["all", "swaps", "three"]
    filler: Literal["zero", "random"]
    folder: str
    form: Literal["parity", "flat", "brackets"]
    fresh: bool
    group: str
    held_out_pairs: int
    hops: int
    identity_fraction: float
    inputs: int
    key_vocabulary: int
    keys: int | Literal["shared", "unique"]
    layout: Literal["blocks", "triples", "fused", "slots", "split", "tag"]
    least_hops: int
    length: int
    letters: int
    load: int
    longest: int
    longest_word: int
    map: int
    modulus: int
    motif: int
    names: Literal["sorted", "random"]
    nodes: int
    noise: float
    noise_vocabulary: int
    operations: int
    order: Literal["shuffled", "file", "reverse", "same", "odds_first"]
    pair_choice: int
    pairs: int
    passes: int
    places: Literal["before", "uniform"]
    pop: float
    power: float
    queries: int
    query_at: Literal["end", "every"]
    query_by: Literal["zone", "pair", "element", "key"]
    segments: str
    set_fraction: float
    shortest: int
    shortest_word: int
    stacks: int
    start: bool
    table: str
    test_segments: str
    times: bool
    train_labels: Literal["next", "due"]
    transition: int
    update_fraction: float
    values: int | Literal["distinct", "any"]
    vocabulary: int
