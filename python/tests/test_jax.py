"""ct.jax.apply: the bits of ct.apply, gradients, jit and vmap."""
# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest

import crosstalk as ct
from conftest import OPTIONS, inputs_of

jax = pytest.importorskip("jax", reason="JAX is not installed")
jax.config.update("jax_platforms", "cpu")
jnp = jax.numpy


@pytest.fixture(autouse=True, scope="module")
def float64():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def given(memory, dtype: Any = np.float64, **more):
    options = OPTIONS.get(memory, {})
    x = inputs_of(memory, dtype, T=5, **more, **options)
    return x, {n: jnp.asarray(y) for n, y in x.items()}, options


def read(memory, options):
    """The sum of all that a call gives, as a function of its inputs."""

    def sums(x):
        o, state = ct.jax.apply(memory, **x, **options)
        return o.sum() + sum(s.sum() for s in state.values())

    return sums


@pytest.mark.parametrize("memory", ct.memories())
def test_every_memory_has_the_bits_of_apply(memory):
    for dtype in (np.float64, np.float32):
        x, there, options = given(memory, dtype)
        o, state, d = ct.apply(memory, d_o=np.ones_like(ct.apply(memory, **x, **options)[0]), **x, **options)
        got, ends = ct.jax.apply(memory, **there, **options)
        assert got.dtype == dtype and ends.keys() == state.keys()
        np.testing.assert_array_equal(got, o)
        for name, s in state.items():
            np.testing.assert_array_equal(ends[name], s)
    gradients = jax.jit(jax.grad(lambda x: ct.jax.apply(memory, **x, **options)[0].sum()))(there)
    for name, g in d.items():
        np.testing.assert_array_equal(gradients[name], g, err_msg=name)


@pytest.mark.parametrize("memory", ct.memories())
def test_replicas_of_every_memory(memory):
    _, x, options = given(memory)
    replicas = {n: jnp.stack([y, y * 0.9, y * 0.8]) for n, y in x.items()}
    sums = read(memory, options)
    got, gradients = jax.vmap(jax.value_and_grad(sums))(replicas)
    for r in range(3):
        one, of_one = jax.value_and_grad(sums)({n: y[r] for n, y in replicas.items()})
        np.testing.assert_allclose(got[r], one, rtol=1e-12)
        for name, g in of_one.items():
            np.testing.assert_allclose(gradients[name][r], g, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("memory", ["delta", "gated_delta", "mlstm", "softmax", "s4d"])
def test_gradients_by_differences(memory):
    from jax.test_util import check_grads

    _, x, options = given(memory, B=1, H=1)
    check_grads(lambda *y: ct.jax.apply(memory, **dict(zip(x, y)), **options), tuple(x.values()), order=1, modes=["rev"])


def test_transformations_of_each_other():
    _, x, options = given("gated_delta")
    sums = read("gated_delta", options)
    replicas = {n: jnp.stack([y, y * 0.9]) for n, y in x.items()}
    within = jax.jit(jax.vmap(jax.grad(sums)))(replicas)
    around = jax.grad(lambda x: jax.vmap(sums)(x).sum())(replicas)
    for name in x:
        np.testing.assert_array_equal(within[name], around[name])
    twice = jax.vmap(jax.vmap(sums))({n: jnp.stack([y, y]) for n, y in replicas.items()})
    np.testing.assert_array_equal(twice[0], twice[1])
    shared = jax.vmap(lambda q: sums({**x, "q": q}))(replicas["q"])  # the other inputs are those of all
    np.testing.assert_allclose(shared[0], sums(x), rtol=1e-12)
    o, state = ct.jax.apply("gated_delta", x["q"], x["k"], x["v"], log_decay=x["log_decay"], beta=x["beta"])
    more = ct.jax.apply("gated_delta", **x, s0=state["S"])[0]
    np.testing.assert_array_equal(more, ct.apply("gated_delta", **{n: np.asarray(y) for n, y in x.items()}, s0=np.asarray(state["S"]))[0])


def test_without_jit():
    _, x, options = given("gated_delta")
    compiled = jax.grad(read("gated_delta", options))(x)
    with jax.disable_jit():
        for name, g in jax.grad(read("gated_delta", options))(x).items():
            np.testing.assert_array_equal(g, compiled[name])


def test_what_is_refused():
    _, x, options = given("gated_delta")
    sums = read("gated_delta", options)
    with pytest.raises(TypeError, match="memories are differentiable once"):
        jax.hessian(lambda v: sums({**x, "v": v}))(x["v"])
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(sums, (x,), (x,))
    with pytest.raises(Exception, match="log_decay holds .*0 or negative"):
        jax.block_until_ready(sums({**x, "log_decay": -x["log_decay"]}))
    with pytest.raises(TypeError, match="gated_delta has no input betta"):
        ct.jax.apply("gated_delta", **x, betta=x["beta"])  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="inputs are bfloat16; they must be float32 or float64"):
        ct.jax.apply("gated_delta", **{n: y.astype(jnp.bfloat16) for n, y in x.items()})
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(TypeError, match="q is float64, and JAX makes float32 of it"):
            ct.jax.apply("gated_delta", **{n: np.asarray(y) for n, y in x.items()})
    finally:
        jax.config.update("jax_enable_x64", True)


def test_documents_are_those_of_apply_and_differentiable():
    x, given_x, options = given("gated_delta")
    reset = np.array([[0, 0, 1, 0, 1], [1, 1, 0, 0, 0]])
    want_o, want, d = ct.apply("gated_delta", **x, reset=reset, d_o=np.ones_like(x["v"]))
    o, state = jax.jit(lambda y: ct.jax.apply("gated_delta", **y, reset=reset))(given_x)
    np.testing.assert_array_equal(o, want_o)
    np.testing.assert_array_equal(state["S"], want["S"])
    gradients = jax.grad(lambda y: ct.jax.apply("gated_delta", **y, reset=reset)[0].sum())(given_x)
    for name, g in gradients.items():
        np.testing.assert_allclose(g, d[name], rtol=1e-12, atol=1e-12)
    with pytest.raises(TypeError, match="reset decides shapes, so that it must be known before jit"):
        jax.jit(lambda y, r: ct.jax.apply("gated_delta", **y, reset=r)[0])(given_x, reset)
