"""Names and types of inputs and options. Made by scripts/python_stubs.py from the registries; a test holds it against them."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, Literal, Sequence, TypedDict


class Shared(TypedDict, total=False):
    """Options of nearly every memory, and how it is calculated."""

    cu_seqlens: Any
    d_dot: int | Any
    degree: int | Any
    denominator: bool | Any
    eps: float | Any
    favor_redraw: Literal["every_forward", "fixed"] | Any
    favor_variant: Literal["hyperbolic", "positive"] | Any
    feature_map: Literal["all_poly", "cosformer", "dpfp", "elu1", "exp", "favor", "favor_relu", "hedgehog", "identity", "power", "relu", "rfa", "silu", "square", "tanh", "taylor"] | Any
    features: int | Any
    form: str | Any
    hedgehog_variant: Literal["softmax", "exp"] | Any
    key_norm: Literal["none", "sum", "l2"] | Any
    nu: int | Any
    precision: Literal["fp64", "fp32", "tf32", "bf16"] | Any
    reset: Any
    scale: float | Any
    threads: int | Any


class Given(TypedDict, total=False):
    """Inputs of memories beside q, k and v, and their options."""

    a: Any
    a0: Any
    alpha: Any
    angle: Any
    angle0: Any
    angles: int | Any
    b: Any
    b0: Any
    b1_0: Any
    b2_0: Any
    base: float | Any
    beta: Any
    beta_a: Any
    beta_max: float | Any
    beta_on_write: bool | Any
    bias: Any
    bonus: Any
    bounds: Literal["same", "layers"] | Any
    c: float | Any
    c0: Any
    c2: float | Any
    c3: float | Any
    center: Any
    correction: Any
    d0: Any
    d_dot: int | Any
    decay: float | Literal["none", "mamba"] | Any
    decay_start: float | Any
    degree: int | Any
    denominator: bool | Any
    digits: int | Any
    e0: Any
    eigenvalues: Literal["positive", "either"] | Any
    eps: float | Any
    erase_gate: Any
    erase_key: Any
    eta: Any
    favor_redraw: Literal["every_forward", "fixed"] | Any
    favor_variant: Literal["hyperbolic", "positive"] | Any
    feature_map: Literal["all_poly", "cosformer", "dpfp", "elu1", "exp", "favor", "favor_relu", "hedgehog", "identity", "power", "relu", "rfa", "silu", "square", "tanh", "taylor"] | Any
    features: int | Any
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
    gamma: Any
    gate: Any
    gate_scale: Literal["one", "key"] | Any
    gate_weights: Literal["zero", "drawn"] | Any
    h0: Any
    hedgehog_variant: Literal["softmax", "exp"] | Any
    in_context_rate: Any
    information: float | Any
    inner_steps: int | Any
    input_gate: Any
    iterations: int | Any
    k0: Any
    k_bias: Any
    k_gain: Any
    kappa1: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"] | Any
    kappa2: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"] | Any
    kernel: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"] | Any
    key_norm: Literal["none", "sum", "l2"] | Any
    l0: Any
    law: str | Any
    length: int | Any
    lengths: Literal["before", "after"] | Any
    level_gate: Any
    log_decay: Any
    log_decay_a: Any
    log_decay_v: Any
    log_input: Any
    log_mu: Any
    log_rate: Any
    lora: Literal["linear", "tanh"] | Any
    lower_bound: float | Any
    m0: Any
    max_rate: float | Any
    memories: int | Any
    mini_batch: int | Any
    mix: Any
    momentum_gate: Any
    n0: Any
    noise: Any
    nu: int | Any
    omega: Any
    order: int | Any
    output_gate: Any
    p0: Any
    p1_0: Any
    p2_0: Any
    path_conv: int | Any
    path_conv_start: Literal["uniform", "normal"] | Any
    path_key: Any
    post_gate: Any
    pre_gate: Any
    predict: Literal["decayed", "undecayed"] | Any
    prior: Any
    q_bias: Any
    q_gain: Any
    query_share: Any
    r: Any
    rank: Literal["head", "width"] | Any
    rate: Any
    rate_from: float | Any
    rates: Literal["drawn", "counted"] | Any
    ratio: float | Any
    read: Any
    read_imag: Any
    read_norm: Literal["none", "attention", "layernorm"] | Any
    reset_gate: Any
    residual: bool | Any
    ridge: Any
    router: Any
    row_norm: Literal["none", "sum"] | Any
    row_norm1: Literal["none", "sum"] | Any
    row_norm2: Literal["none", "sum"] | Any
    s0: Any
    s_imag0: Any
    scale: float | Any
    second_key: Any
    second_query: Any
    second_share: Any
    selected: int | Any
    sharpness: Any
    signed_decay: Any
    sink: Any
    skip: Any
    slope: Any
    slots: int | Any
    solve_with: Literal["key", "query"] | Any
    solver: Literal["chebyshev", "exact"] | Any
    squash: float | Any
    start: Literal["zero", "steps", "drawn", "ramps", "constants", "plain", "released", "layers"] | Any
    step: Any
    step_rank: Literal["keys", "token"] | Any
    strict: bool | Any
    tau: float | Any
    turn: Any
    u_cell: Any
    u_forget: Any
    u_input: Any
    u_new: Any
    u_output: Any
    u_reset: Any
    u_update: Any
    units: int | Any
    update_gate: Any
    v0: Any
    value_norm: Literal["l2", "none"] | Any
    value_precision: Any
    w1_0: Any
    w2_0: Any
    waves: int | Any
    window: Any
    write: Literal["step", "one"] | Any
    write_gate: Any
    writes: int | Any
    y0: Any
    z0: Any


class Named(Given, total=False):
    """The same with q, k and v."""

    k: Any
    q: Any
    v: Any


class OfLayer(TypedDict, total=False):
    """Options of a memory and of the language model around it."""

    angles: int | Any
    base: float | Any
    beta: Literal["learned", "one"] | Any
    beta_max: float | Any
    beta_on_write: bool | Any
    bias: bool | Any
    biases: str | Any
    blocks: int | Any
    bonus: bool | Any
    bounds: Literal["same", "layers"] | Any
    c: float | Any
    c2: float | Any
    c3: float | Any
    conv_width: int | Any
    d_dot: int | Any
    d_key: int | Any
    d_value: int | Any
    decay: float | Literal["none", "mamba"] | Any
    decay_start: float | Any
    decoder: Literal["none", "last"] | Any
    degree: int | Any
    denominator: bool | Any
    digits: int | Any
    dropout: float | Any
    eigenvalues: Literal["positive", "either"] | Any
    embed_dropout: float | Any
    embedding: int | Any
    eps: float | Any
    favor_redraw: Literal["every_forward", "fixed"] | Any
    favor_variant: Literal["hyperbolic", "positive"] | Any
    feature_map: Literal["all_poly", "cosformer", "dpfp", "elu1", "exp", "favor", "favor_relu", "hedgehog", "identity", "power", "relu", "rfa", "silu", "square", "tanh", "taylor"] | Any
    feature_scale: bool | Any
    features: int | Any
    gate: Literal["signed_sigmoid2", "sigmoid", "signed_exp", "softplus", "bounded"] | Any
    gate_scale: Literal["one", "key"] | Any
    gate_weights: Literal["zero", "drawn"] | Any
    heads: int | Any
    hedgehog_variant: Literal["softmax", "exp"] | Any
    information: float | Any
    init: str | Any
    inner: bool | Any
    inner_steps: int | Any
    input_conv: str | Any
    input_shift: Literal["none", "static", "token"] | Any
    input_shift_start: Literal["uniform", "rwkv4", "rwkv7"] | Any
    iterations: int | Any
    kappa1: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"] | Any
    kappa2: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"] | Any
    kernel: Literal["linear", "relu", "relu2", "round", "exp", "cosine_exp", "taylor", "power"] | Any
    key_codes: Literal["learned", "frozen"] | Any
    key_groups: int | Any
    key_norm: Literal["none", "sum", "l2"] | Any
    key_start: float | Any
    last_norm: Literal["same", "layer", "rms"] | Any
    law: str | Sequence[str] | Any
    layer: Literal["bare", "published"] | Any
    layers: int | Any
    length: int | Any
    lengths: Literal["before", "after"] | Any
    lora: Literal["linear", "tanh"] | Any
    lower_bound: float | Any
    max_length: int | Any
    max_rate: float | Any
    memories: int | Any
    mini_batch: int | Any
    mlp: Literal["none", "identity", "gelu", "swiglu"] | Any
    mlp_ratio: float | Any
    norm: Literal["layer", "rms"] | Any
    nu: int | Any
    order: int | Any
    out_act: Literal["none", "silu"] | Any
    out_deviation: Literal["scaled", "plain", "zero"] | Any
    out_gate: Literal["none", "sigmoid", "silu", "gelu", "lora"] | Any
    out_gate_rank: int | Any
    out_norm: Literal["none", "rms", "layer", "group", "rms_all"] | Any
    out_norm_bias: bool | Any
    out_norm_eps: float | Any
    out_norm_gain: Literal["head", "shared", "off"] | Any
    out_norm_order: Literal["before", "after"] | Any
    out_norm_start: Literal["one", "depth"] | Any
    out_skip: Literal["none", "head", "channel", "convolved"] | Any
    parts: Literal["own", "equal"] | Any
    path_conv: int | Any
    path_conv_start: Literal["uniform", "normal"] | Any
    positions: Literal["none", "learned"] | Any
    predict: Literal["decayed", "undecayed"] | Any
    prenorm: bool | Any
    probe_keys: Literal["random", "orthonormal", "near_orthogonal"] | Any
    probe_scale: float | Any
    probe_values: int | Any
    projection_start: Literal["law", "orthogonal", "xavier", "small"] | Any
    qk_norm: Literal["none", "shared", "head"] | Any
    rank: Literal["head", "width"] | Any
    rate: float | Literal["", "drawn", "one", "rational", "softplus"] | Any
    rate_from: float | Any
    rates: Literal["drawn", "counted"] | Any
    ratio: float | Any
    read_norm: Literal["none", "attention", "layernorm"] | Any
    readout: Literal["linear", "mlp"] | Any
    residual: bool | Any
    rotary: bool | Any
    rotary_base: float | Any
    rotary_period: int | Any
    row_norm: Literal["none", "sum"] | Any
    row_norm1: Literal["none", "sum"] | Any
    row_norm2: Literal["none", "sum"] | Any
    scale: float | Any
    selected: int | Any
    short_conv: Literal["none", "q", "k", "v", "qk", "qv", "kv", "qkv"] | Any
    short_conv_bias: bool | Any
    short_conv_silu: bool | Any
    short_conv_start: Literal["uniform", "normal"] | Any
    short_conv_width: int | Any
    silu: Literal["none", "q", "k", "v", "qk", "qv", "kv", "qkv"] | Any
    slots: int | Any
    solve_with: Literal["key", "query"] | Any
    solver: Literal["chebyshev", "exact"] | Any
    squash: float | Any
    stack: str | Any
    start: Literal["zero", "steps", "drawn", "ramps", "constants", "plain", "released", "layers"] | Any
    step_rank: Literal["keys", "token"] | Any
    strict: bool | Any
    tau: float | Any
    tied_head: bool | Any
    token_shift: Literal["none", "q", "k", "v", "qk", "qv", "kv", "qkv"] | Any
    token_shift_law: Literal["channel", "head"] | Any
    units: int | Any
    value_codes: int | Any
    value_norm: Literal["l2", "none"] | Any
    value_residual: bool | Any
    waves: int | Any
    weight_deviation: float | Any
    weight_dropout: float | Any
    window: int | Any
    write: Literal["step", "one"] | Any
    writes: int | Any


class OfModel(OfLayer, total=False):
    """Options of a whole language model."""

    width: int | Any


class OfTask(TypedDict, total=False):
    """Options of tasks."""

    alphabet: int | Any
    answers: str | int | Any
    assign_share: float | Any
    associations: int | Any
    content: str | Any
    context_vocabulary: int | Any
    contexts: int | Any
    curriculum: str | Any
    data: int | Any
    depth: int | Any
    drawn_table: int | Any
    elements: int | Any
    eval_ignore: float | Any
    eval_lanes: int | Any
    eval_length: int | Any
    eval_longest: int | Any
    eval_share: float | Any
    eval_shortest: int | Any
    eval_undo: int | Any
    examples: int | Any
    factors: Literal["all", "swaps", "three"] | Any
    filler: Literal["zero", "random"] | Any
    folder: str | Any
    form: Literal["parity", "flat", "brackets", "prefix"] | Any
    fresh: bool | Any
    group: str | Any
    held_out_pairs: int | Any
    hidden_share: float | Any
    hops: int | Any
    identity_fraction: float | Any
    ignore: float | Any
    inputs: int | Any
    key_vocabulary: int | Any
    keys: int | Literal["shared", "unique"] | Any
    lanes: int | Any
    layout: Literal["blocks", "triples", "fused", "slots", "split", "tag"] | Any
    least_hops: int | Any
    length: int | Any
    letters: int | Any
    lines: int | Any
    load: int | Any
    longest: int | Any
    longest_word: int | Any
    machine: Literal["parity", "even_pairs", "counter", "cycle", "flip_flop", "undo", "majority", "dyck", "language", "random", "table"] | Any
    map: int | Any
    modulus: int | Any
    motif: int | Any
    names: Literal["sorted", "random"] | Any
    nodes: int | Any
    noise: float | Any
    noise_vocabulary: int | Any
    operations: int | Any
    order: Literal["shuffled", "file", "reverse", "same", "odds_first", "sorted", "set"] | Any
    pair_choice: int | Any
    pairs: int | Any
    passes: int | Any
    places: Literal["before", "uniform"] | Any
    pop: float | Any
    power: float | Any
    queries: int | Any
    query_at: Literal["end", "every"] | Any
    query_by: Literal["zone", "pair", "element", "key"] | Any
    reveal: Literal["usual", "every", "end", "marks", "shown", "next"] | Any
    reveal_every: int | Any
    segments: str | Any
    set_fraction: float | Any
    shortest: int | Any
    shortest_word: int | Any
    stacks: int | Any
    start: bool | Any
    states: int | Any
    string: int | Any
    table: str | Any
    test_segments: str | Any
    test_share: float | Any
    times: bool | Any
    train_labels: Literal["next", "due"] | Any
    transition: int | Any
    update_fraction: float | Any
    values: int | Literal["distinct", "any"] | Any
    variables: int | Any
    vocabulary: int | Any
