"""torch.func: replicas of memories, layers and models by vmap, gradients and Jacobians of them, equal to those one by one."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import crosstalk as ct
from conftest import OPTIONS, inputs_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.func import functional_call, grad, hessian, jacrev, stack_module_state, vjp, vmap  # noqa: E402

R = 3


def total(outputs):
    """A number that every output decides."""
    o, states = outputs
    return o.sin().sum() + sum(s.cos().sum() for s in states.values())


def gradients(f, tensors):
    leaves = [t.clone().requires_grad_() for t in tensors]
    found = torch.autograd.grad(f(*leaves), leaves, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, found)]


@pytest.mark.parametrize("memory", ct.memories())
def test_replicas_of_every_memory(memory):
    options = OPTIONS.get(memory, {})
    plain = {n: torch.from_numpy(x) for n, x in inputs_of(memory, T=5, **options).items()}
    names = list(plain)
    alone = [[x * (0.6 + 0.1 * r) for x in plain.values()] for r in range(R)]
    f = lambda *x: ct.apply(memory, **dict(zip(names, x)), **options)  # noqa: E731
    stacked = [torch.stack(x) for x in zip(*alone)]
    o, states = vmap(f)(*stacked)
    found = vmap(grad(lambda *x: total(f(*x)), argnums=tuple(range(len(names)))))(*stacked)
    for r, x in enumerate(alone):
        want = f(*x)
        torch.testing.assert_close(o[r], want[0], rtol=1e-12, atol=1e-12)
        assert states.keys() == want[1].keys()
        for name in states:
            torch.testing.assert_close(states[name][r], want[1][name], rtol=1e-12, atol=1e-12, msg=name)
        for name, a, b in zip(names, found, gradients(lambda *x: total(f(*x)), x)):
            torch.testing.assert_close(a[r], b, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.parametrize("memory", ct.memories())
def test_replicas_of_every_layer(memory):
    heads = 1 if memory in ("mamba1", "rwkv4") else 2
    layers = [ct.torch.Memory(memory, 8, heads=heads, seed=s).double() for s in range(R)]
    x = torch.randn(R, 2, 5, 8, dtype=torch.float64)
    f = lambda parameters, x: total(functional_call(layers[0], parameters, (x,)))  # noqa: E731
    stacked, _ = stack_module_state(layers)
    of_parameters, of_x = vmap(grad(f, argnums=(0, 1)))(stacked, x)
    for r, layer in enumerate(layers):
        names, parameters = zip(*layer.named_parameters())
        want = gradients(lambda x, *p: f(dict(zip(names, p)), x), [x[r], *(p.detach() for p in parameters)])
        for name, a, b in zip(("x", *names), (of_x[r], *(of_parameters[n][r] for n in names)), want):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, msg=name)


def of_delta(*lead):
    torch.manual_seed(0)
    q, k, v = (torch.randn(*lead, 2, 5, 2, 3, dtype=torch.float64) / 2 for _ in "qkv")
    return q, k, v, torch.rand(*lead, 2, 5, 2, dtype=torch.float64)


def delta(q, k, v, beta):
    return ct.apply("delta", q=q, k=k, v=v, beta=beta)[0]


def test_vmap_in_vmap_and_other_dimensions():
    q, k, v, beta = of_delta(2, 3)
    want = torch.stack([torch.stack([delta(q[i, j], k[i, j], v[i, j], beta[i, j]) for j in range(3)]) for i in range(2)])
    assert torch.equal(vmap(vmap(delta))(q, k, v, beta), want)
    shared = torch.stack([delta(q[0, j], k[0, 0], v[0, j], beta[0, j]) for j in range(3)])
    assert torch.equal(vmap(delta, in_dims=(1, None, 0, 2))(q[0].movedim(0, 1), k[0, 0], v[0], beta[0].movedim(0, 2)), shared)
    layer = ct.torch.Memory("gated_delta", 8, heads=2).double()
    x = torch.randn(2, 3, 1, 4, 8, dtype=torch.float64)
    want = torch.stack([torch.stack([layer(y)[0] for y in row]) for row in x])
    torch.testing.assert_close(vmap(vmap(lambda y: layer(y)[0]))(x), want, rtol=1e-12, atol=1e-12)


def test_jacobians():
    q, k, v, beta = (x[:, :1, :3, :1] for x in of_delta(R))
    want = torch.autograd.functional.jacobian(lambda k: delta(q[0], k, v[0], beta[0]), k[0])
    torch.testing.assert_close(jacrev(delta, argnums=1)(q[0], k[0], v[0], beta[0]), want, rtol=1e-12, atol=1e-12)
    alone = torch.stack([jacrev(delta, argnums=1)(q[r], k[r], v[r], beta[r]) for r in range(R)])
    torch.testing.assert_close(vmap(jacrev(delta, argnums=1))(q, k, v, beta), alone, rtol=1e-12, atol=1e-12)
    o, back, *_ = vjp(lambda k: delta(q[0], k, v[0], beta[0]), k[0])
    (want,) = gradients(lambda k: delta(q[0], k, v[0], beta[0]).sum(), [k[0]])
    torch.testing.assert_close(back(torch.ones_like(o))[0], want)


def test_gradients_by_what_replicas_share():
    """Outside of vmap: gradients of the sum over replicas."""
    q, k, v, beta = of_delta(R)
    shared, own = k[0].clone().requires_grad_(), v.clone().requires_grad_()
    vmap(delta, in_dims=(0, None, 0, 0))(q, shared, own, beta).sum().backward()
    want = gradients(lambda k, v: sum(delta(q[r], k, v[r], beta[r]).sum() for r in range(R)), [shared.detach(), v])
    torch.testing.assert_close(shared.grad, want[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(own.grad, want[1], rtol=1e-12, atol=1e-12)


def test_what_is_refused():
    q, k, v, beta = of_delta(R)
    with pytest.raises(TypeError, match="d_o and d_state cannot be given inside of torch.func's transforms"):
        vmap(lambda q: ct.apply("delta", q=q, k=k[0], v=v[0], beta=beta[0], d_o=v[0])[0])(q)
    with pytest.raises(RuntimeError, match="jvp"):
        hessian(lambda k: delta(q[0], k, v[0], beta[0]).sum())(k[0])
    with pytest.raises(RuntimeError, match="differentiable once"):
        jacrev(jacrev(lambda k: delta(q[0], k, v[0], beta[0]).sum()))(k[0])
    with pytest.raises(ValueError, match="beta holds nan"):
        vmap(delta)(q, k, v, beta * np.nan)
    layers = [ct.torch.Memory("linear_attention", 8, heads=2, feature_map="favor", seed=s) for s in (1, 2)]
    x = torch.randn(1, 4, 8)
    stacked, _ = stack_module_state(layers)
    with pytest.raises(RuntimeError, match="random features"):
        vmap(lambda p: functional_call(layers[0], p, (x,))[0])(stacked)
    assert vmap(lambda x: layers[0](x)[0])(torch.randn(2, 1, 4, 8)).shape == (2, 1, 4, 8)
