"""PyTorch: gradients of apply, batches as tensors, one OpenMP runtime."""
# SPDX-License-Identifier: Apache-2.0
import gc
import re
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import crosstalk as ct
from conftest import OPTIONS, inputs_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def tensors(memory, dtype: Any = np.float64, **sizes):
    return {n: torch.from_numpy(x).requires_grad_() for n, x in inputs_of(memory, dtype, **sizes).items()}


@pytest.mark.parametrize("memory", ct.memories())
def test_gradients_of_every_memory(memory):
    options = OPTIONS.get(memory, {})
    x = tensors(memory, B=1, T=4, H=1, K=3, V=2, **options)
    names = list(x)
    f = lambda *given: ct.apply(memory, **dict(zip(names, given)), **options)[0]  # noqa: E731
    assert torch.autograd.gradcheck(f, tuple(x.values()), atol=1e-6, rtol=1e-4, fast_mode=True)


def start_of(state):
    return f"{state.lower()}_0" if state[-1].isdigit() else f"{state.lower()}0"


WITH_STATES = [memory for memory in ct.memories() if ct.describe(memory).states]


@pytest.mark.parametrize("memory", WITH_STATES)
def test_gradients_of_the_states_of_every_memory(memory):
    options = OPTIONS.get(memory, {})
    plain = inputs_of(memory, B=1, T=3, H=1, K=3, V=2, **options)
    _, before = ct.apply(memory, **plain, **options)  # states that there are: of some not every number is one
    plain.update({start_of(n): s for n, s in before.items() if start_of(n) in ct.describe(memory).inputs})
    x = {n: torch.from_numpy(y).requires_grad_() for n, y in plain.items()}
    names = list(x)

    def f(*given):
        o, state = ct.apply(memory, **dict(zip(names, given)), **options)
        return (o, *state.values())

    assert torch.autograd.gradcheck(f, tuple(x.values()), atol=1e-6, rtol=1e-4, fast_mode=True)


@pytest.mark.parametrize("memory", ["gated_delta", "mesa", "ttt_mlp", "slstm"])
def test_a_sequence_in_two_pieces_has_the_gradients_of_the_whole(memory):
    x = tensors(memory, T=10, optional=True)
    letters = {name: shape for name, (shape, _) in ct.describe(memory).inputs.items()}
    start = {state: start_of(state) for state in ct.describe(memory).states}
    cut = lambda part: {n: y[:, part] if letters[n].startswith("[B,T") else y for n, y in x.items()}  # noqa: E731
    whole, end = ct.apply(memory, **x)
    first, state = ct.apply(memory, **cut(slice(0, 4)))
    rest = {n: y for n, y in cut(slice(4, 10)).items() if n not in start.values()}
    second, last = ct.apply(memory, **rest, **{start[n]: s for n, s in state.items()})
    weight, of_end = torch.randn_like(whole), {n: torch.randn_like(s) for n, s in end.items()}
    loss = lambda o, s: (o * weight).sum() + sum((s[n] * of_end[n]).sum() for n in s)  # noqa: E731
    want = torch.autograd.grad(loss(whole, end), list(x.values()))
    got = torch.autograd.grad(loss(torch.cat([first, second], 1), last), list(x.values()))
    for name, a, b in zip(x, got, want):
        torch.testing.assert_close(a, b, msg=name, rtol=1e-9, atol=1e-9)


def test_gradients_of_a_state_alone_and_with_cotangents_of_numpy():
    x = tensors("gated_delta")
    d_S = torch.randn(2, 2, 3, 4, dtype=torch.float64)
    ct.apply("gated_delta", **x)[1]["S"].backward(d_S)
    plain = {n: y.detach().numpy() for n, y in x.items()}
    o, state, d = ct.apply("gated_delta", d_state={"S": d_S.numpy()}, **plain)
    for name, y in x.items():
        np.testing.assert_array_equal(y.grad.numpy(), d[name], err_msg=name)
    with pytest.raises(TypeError, match="d_state names z, which is no state; there are S"):
        ct.apply("gated_delta", d_state={"z": d_S.numpy()}, **plain)
    with pytest.raises(ValueError, match=r"d_state\['S'\] has shape \[1, 2, 3, 4\]; expected \[2, 2, 3, 4\]"):
        ct.apply("gated_delta", d_state={"S": d_S.numpy()[:1]}, **plain)


def test_against_a_loop_in_torch():
    x = tensors("gated_delta", np.float64, B=2, T=30, H=2, K=8, V=6)
    x["s0"] = torch.randn(2, 2, 6, 8, dtype=torch.float64).requires_grad_()

    def loop(q, k, v, log_decay, beta, s0):
        S, o = s0, []
        for t in range(q.shape[1]):
            S = S * log_decay[:, t].exp()[..., None, None]
            u = beta[:, t][..., None] * (v[:, t] - torch.einsum("bhvk,bhk->bhv", S, k[:, t]))
            S = S + u[..., None] * k[:, t][:, :, None, :]
            o.append(torch.einsum("bhvk,bhk->bhv", S, q[:, t]))
        return torch.stack(o, 1), S

    want, end = loop(**x)
    got, state = ct.apply("gated_delta", **x)
    weight, of_end = torch.randn_like(want), torch.randn_like(end)
    ours = torch.autograd.grad((got * weight).sum() + (state["S"] * of_end).sum(), list(x.values()))
    theirs = torch.autograd.grad((want * weight).sum() + (end * of_end).sum(), list(x.values()))
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(state["S"], end)
    for name, a, b in zip(x, ours, theirs):
        torch.testing.assert_close(a, b, msg=name)


def test_two_calls_before_one_backward_and_a_backward_twice():
    x = tensors("delta")
    one, _ = ct.apply("delta", **x)
    two, _ = ct.apply("delta", **{n: y * 0.5 for n, y in x.items()})
    both = torch.autograd.grad(one.sum() + two.sum(), x["k"], retain_graph=True)[0]
    again = torch.autograd.grad(one.sum() + two.sum(), x["k"])[0]
    alone = torch.autograd.grad(ct.apply("delta", **x)[0].sum(), x["k"])[0]
    assert torch.equal(both, again) and not torch.equal(both, alone)


def test_outputs_may_be_changed_in_place():
    x = tensors("linear_attention")
    o, _ = ct.apply("linear_attention", **x)
    want = torch.autograd.grad(ct.apply("linear_attention", **x)[0].sum(), x["k"])[0]
    o.mul_(2)
    assert torch.allclose(torch.autograd.grad(o.sum(), x["k"])[0], 2 * want)


def test_plans_come_back_to_the_pool():
    ct.release()
    x = tensors("delta")
    for _ in range(20):
        ct.apply("delta", **x)[0].sum().backward()
    gc.collect()
    assert ct._core.pooled()[0] == 1
    assert all(y.grad is not None for y in x.values())


def test_types_are_said():
    x = tensors("delta")
    o, state = ct.apply("delta", **x)
    assert o.requires_grad and state["S"].requires_grad
    with torch.no_grad():
        assert not ct.apply("delta", **x)[0].requires_grad
    with pytest.raises(TypeError, match=r"q is bfloat16; convert it first, for example q.float\(\)"):
        ct.apply("delta", **{n: y.detach().bfloat16() for n, y in x.items()})
    with pytest.raises(TypeError, match="all inputs must be torch tensors"):
        ct.apply("delta", **{**x, "beta": x["beta"].detach().numpy()})
    with pytest.raises(ValueError, match="beta has shape"):
        ct.apply("delta", **{**x, "beta": x["beta"][:, :3]})
    with pytest.raises(RuntimeError, match="once_differentiable|does not require grad|twice"):
        g = torch.autograd.grad(o.sum(), x["k"], create_graph=True)[0]
        torch.autograd.grad(g.sum(), x["q"])


def test_gradients_given_a_cotangent():
    x = {n: y.detach() for n, y in tensors("delta").items()}
    d_o = torch.randn_like(x["v"])
    o, state, d = ct.apply("delta", d_o=d_o, **x)
    want = ct.apply("delta", d_o=d_o.numpy(), **{n: y.numpy() for n, y in x.items()})
    np.testing.assert_array_equal(o.numpy(), want[0])
    np.testing.assert_array_equal(d["beta"].numpy(), want[2]["beta"])


def test_batches_as_tensors():
    task = ct.task("mqar", length=64, pairs=8)
    batch = next(task.batches(batch=8, device="cpu"))
    same = next(task.batches(batch=8))
    assert batch.tokens.dtype == torch.int32
    np.testing.assert_array_equal(batch.tokens.numpy(), same.tokens)
    np.testing.assert_array_equal(batch.labels.numpy(), same.labels)
    logits = torch.randn(8, 64, 8192)
    want = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=-100)
    torch.testing.assert_close(batch.cross_entropy(logits), want)
    perfect = torch.nn.functional.one_hot(batch.labels.clamp(min=0), 8192).float()
    assert batch.accuracy(perfect) == 1.0
    kept = batch.clone()
    assert torch.equal(kept.tokens, batch.tokens) and kept.tokens.data_ptr() != batch.tokens.data_ptr()


@pytest.mark.parametrize("first, second", [("torch", "crosstalk"), ("crosstalk", "torch")])
def test_one_openmp_runtime(first, second):
    code = f"import {first}, {second}; print(open('/proc/self/maps').read())"
    maps = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert len({line.split()[-1] for line in maps.splitlines() if re.search(r"lib(gomp|iomp5|omp)[-.]", line)}) == 1


def unaligned(x):
    """A copy that is no multiple of 64 bytes from the beginning of memory."""
    room = torch.empty(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape)
    return room.copy_(x)


def test_memory_that_was_read_in_place_is_let_go_where_other_memory_comes():
    x = {n: torch.from_numpy(y) for n, y in inputs_of("delta", np.float32, B=8, T=64, K=32, V=32).items()}  # large enough
    want = ct.apply("delta", **{n: y.numpy() for n, y in x.items()}, d_o=np.ones((8, 64, 2, 32), np.float32))[2]
    given = {n: y.clone().requires_grad_() for n, y in x.items()}
    with torch.autograd.graph.saved_tensors_hooks(lambda y: y.detach().clone(), unaligned):  # as those that move tensors away
        o, _ = ct.apply("delta", **given)
    with torch.no_grad():
        for y in given.values():
            y.fill_(7)
    first = torch.ones_like(o)
    o.backward(first, retain_graph=True)
    for name, y in given.items():
        assert (y == 7).all(), f"{name} was written"
        torch.testing.assert_close(y.grad, torch.from_numpy(want[name]))
    o.backward(unaligned(torch.full_like(o, 2)))
    assert (first == 1).all()
    torch.testing.assert_close(given["v"].grad, 3 * torch.from_numpy(want["v"]))


def test_a_loop_of_ones_own_learns():
    torch.manual_seed(0)
    task = ct.task("mqar", vocabulary=32, length=16, pairs=2)
    embed, head = torch.nn.Embedding(32, 32), torch.nn.Linear(32, 32)
    project = torch.nn.Linear(64, 3 * 32)
    parameters = [*embed.parameters(), *head.parameters(), *project.parameters()]
    optimizer, losses = torch.optim.Adam(parameters, 1e-2), []
    for step, batch in enumerate(task.batches(batch=32, device="cpu")):
        x = embed(batch.tokens)
        x = torch.cat([x, torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]], -1)
        q, k, v = (y.unflatten(-1, (1, 32)) for y in project(x).chunk(3, -1))
        o, _ = ct.apply("linear_attention", q=q, k=k, v=v)
        loss = batch.cross_entropy(head(o.flatten(-2)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 60:
            break
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:5])


def test_the_short_way_of_tensors():
    x = {n: torch.from_numpy(y) for n, y in inputs_of("gated_delta", np.float32, T=12).items()}
    want, ends = ct.apply("gated_delta", **x)
    negative = {**x, "v": torch._neg_view(-x["v"])}
    strided = {n: y.transpose(0, 1).contiguous().transpose(0, 1) for n, y in x.items()}
    for given in (x, negative, strided, {**x, "v": torch.nn.Parameter(x["v"], requires_grad=False)}):
        for _ in range(2):
            o, state = ct.apply("gated_delta", **given)
            assert torch.equal(o, want) and torch.equal(state["S"], ends["S"]) and o.grad_fn is None
    followed = {**x, "v": x["v"].clone().requires_grad_()}
    for _ in range(2):
        assert ct.apply("gated_delta", **followed)[0].grad_fn is not None
        with torch.no_grad():
            o, _ = ct.apply("gated_delta", **followed)
        assert o.grad_fn is None and torch.equal(o, want)
    with pytest.raises(TypeError, match="all inputs must be torch tensors"):
        ct.apply("gated_delta", **{**x, "v": x["v"].numpy()})
    with pytest.raises(ValueError, match="holds nan"):
        ct.apply("gated_delta", **{**x, "v": x["v"] * float("nan")})
    with pytest.raises(TypeError, match="dense"):
        ct.apply("gated_delta", **{**x, "v": x["v"].to_sparse()})


def test_compiled_modules_leave_memories_as_they_are():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.linear = ct.torch.Memory("gated_delta", 16, heads=2), torch.nn.Linear(16, 16)
            self.delta = ct.torch.function("delta")

        def forward(self, x):
            q = self.layer(self.linear(x))[0].unflatten(-1, (2, 8))
            beta = torch.sigmoid(q[..., 0])
            return (ct.apply("delta", q, q, q, beta=beta)[0] + self.delta(q, q, q, beta=beta)[0]).flatten(-2) @ self.linear.weight

    torch.manual_seed(0)
    net, x = Net(), torch.randn(2, 8, 16)
    net(x).square().sum().backward()
    want, gradient = net(x), net.linear.weight.grad.clone()
    net.zero_grad()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        got = torch.compile(net, backend="aot_eager")(x)
    assert torch.equal(got, want) and [str(warning.message) for warning in told] == []
    got.square().sum().backward()
    torch.testing.assert_close(net.linear.weight.grad, gradient)
