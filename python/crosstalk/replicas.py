"""Runs of one PyTorch model side by side: replicas under vmap, each with its own seeds, rate and weight decay.

A model that vmap refuses (random numbers, values read in Python, buffers that change) is trained one run after the other.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import torch
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

EPS = 1e-8  # of Adam


def _check_logits(logits: Any, rows: Sequence[int], letters: str, vocabulary: int) -> None:
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"the model gives a {type(logits).__name__}; logits {letters} are needed, a tensor and nothing else")
    if list(logits.shape[:-1]) != list(rows) or logits.shape[-1] < vocabulary:
        raise TypeError(f"the model gives {list(logits.shape)}; logits {letters} = {[*rows, vocabulary]} are needed")


def undecayed(model: torch.nn.Module, words: str) -> set[str]:
    """Names of the parameters that train.no_decay takes out of weight decay: none, or words with commas: marked (`p._no_weight_decay`
    is true), norms (of modules whose class is called ...Norm...), biases, ends of names. Raises ValueError for a word that names none."""
    found: set[str] = set()
    if words == "none":
        return found
    norms = tuple(name for name, module in model.named_modules() if "Norm" in type(module).__name__)
    for word in words.replace(",", " ").split():
        named = {
            n
            for n, p in model.named_parameters()
            if (word == "marked" and getattr(p, "_no_weight_decay", False))
            or (word == "norms" and n.rpartition(".")[0] in norms)
            or (word == "biases" and n.endswith("bias"))
            or n == word
            or n.endswith("." + word)
        }
        if not named:
            raise ValueError(f"train.no_decay: {word} names no parameter of the model; there are {', '.join(dict(model.named_parameters()))}")
        found |= named
    return found


def answer_losses(
    model: Callable[..., Any], answers: bool, batch: tuple[Any, Any, Any], vocabulary: int
) -> tuple[Any, Any, Any]:
    """Cross-entropy of each query slot, its answer, and whether it is used: [B,Q] each. Raises TypeError where the model gives
    anything but logits."""
    tokens, position, target = batch
    if answers:
        logits = model(tokens, position)
        _check_logits(logits, position.shape, "[B,Q,vocabulary]", vocabulary)
    else:
        logits = model(tokens)
        _check_logits(logits, tokens.shape, "[B,T,vocabulary]", vocabulary)
        at = (position - 1).clamp(min=0)[..., None].expand(*position.shape, logits.shape[-1])
        logits = torch.gather(logits, -2, at)
    used = target >= 0
    loss = torch.nn.functional.cross_entropy(
        logits.float().flatten(0, -2) if logits.dtype in (torch.float16, torch.bfloat16) else logits.flatten(0, -2),
        target.clamp(min=0).flatten(),
        reduction="none",
    )
    return loss.view(target.shape) * used, logits.argmax(-1), used


@contextlib.contextmanager
def _no_fast_path() -> Iterator[None]:
    """Attention of torch.nn by the operators that it trains with: vmap has no rules for those that it evaluates with."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class _Answering(torch.nn.Module):
    """`model.answer` where there is one, as a forward."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, *x: Any) -> Any:
        call: Any = self.model.answer if hasattr(self.model, "answer") else self.model
        return call(*x)


class Replicas:
    """R models of one shape, their optimizer, and what a step and an evaluation do."""

    def __init__(self, models: Sequence[torch.nn.Module], configs: Sequence[dict[str, Any]], device: Any, together: bool):
        config = configs[0]
        if config["train.optimizer"] == "muon":
            raise ValueError('train.optimizer = "muon" trains the models that Crosstalk builds; give "adam" or "adamw" here')
        self.device, self.together = torch.device(device), together
        self.answers = hasattr(models[0], "answer")
        self.vocabulary = int(config["task.vocabulary"])
        double = config["train.precision"] == "fp64"
        self.autocast = config["train.precision"] == "bf16"
        self.undecayed = {f"model.{n}" for n in undecayed(models[0], config["train.no_decay"])}
        models = [_Answering(m.double() if double else m).to(self.device).train() for m in models]
        self.params, self.buffers = stack_module_state(models)
        self.params = {n: p.detach().clone() for n, p in self.params.items()}
        self.trained = [n for n, p in models[0].named_parameters() if p.requires_grad]  # in one order in every process
        self.model = models[0] if not together else models[0].to("meta")
        self.m = {n: torch.zeros_like(self.params[n]) for n in self.trained}
        self.v = {n: torch.zeros_like(self.params[n]) for n in self.trained}
        decays = config["train.optimizer"] == "adamw"
        self.decay = self._numbers([c["train.weight_decay"] if decays else 0.0 for c in configs])
        self.beta1, self.beta2, self.clip = (config[f"train.{n}"] for n in ("beta1", "beta2", "clip_norm"))
        self.seeds = [(int(c["init_seed"]), int(c["data_seed"])) for c in configs]
        self._step = self._step_of()

    def _numbers(self, values: Sequence[float]) -> Any:
        return torch.tensor(list(values), dtype=torch.float64, device=self.device)

    @property
    def count(self) -> int:
        return int(self.decay.shape[0])

    @property
    def parameters(self) -> int:
        return sum(self.params[n][0].numel() for n in self.trained)

    def _loss(self, params: Any, buffers: Any, batch: Any) -> Any:
        with self._precision():
            loss, _, used = answer_losses(
                lambda *x: functional_call(self.model, (params, buffers), x), self.answers, batch, self.vocabulary
            )
        return loss.sum() / used.sum()

    def _precision(self) -> Any:
        if not self.autocast:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def _step_of(self) -> Any:
        def trained(params: Any, rest: Any, buffers: Any, batch: Any) -> Any:
            return self._loss({**rest, **params}, buffers, batch)

        if self.together:
            return vmap(grad_and_value(trained), randomness="error")

        def alone(params: Any, rest: Any, buffers: Any, batch: Any) -> Any:
            leaves = {n: p[0].detach().requires_grad_() for n, p in params.items()}
            own = {n: b[0] for n, b in buffers.items()}
            loss = self._loss({**{n: p[0] for n, p in rest.items()}, **leaves}, own, tuple(x[0] for x in batch))
            found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
            gradients = {
                n: (torch.zeros_like(leaves[n]) if g is None else g)[None] for n, g in zip(leaves, found)
            }
            for n, b in own.items():  # buffers that a forward pass changes, such as running means
                buffers[n][0].copy_(b)
            return gradients, loss.detach()[None]

        return alone

    def step(self, batch: Any, number: int, rates: Sequence[float]) -> Any:
        """Update `number`, counted from 1, with these learning rates; the losses before it, and the norms of the gradients before
        they are clipped, [2,R] in double."""
        batch = self._taken(batch)
        if not self.together:  # whatever is drawn follows from the run and the step alone
            torch.manual_seed((self.seeds[0][0] * 1000003 + self.seeds[0][1]) * 1000003 + number & (1 << 63) - 1)
        params = {n: self.params[n] for n in self.trained}
        rest = {n: p for n, p in self.params.items() if n not in self.trained}
        gradients, loss = self._step(params, rest, self.buffers, batch)
        rate = self._numbers(rates)
        norm = self._norms(gradients)
        scale = (self.clip / (norm + 1e-6)).clamp(max=1.0) if self.clip > 0 else None
        for n in self.trained:
            p, g = self.params[n], gradients[n]
            one = (-1,) + (1,) * (p.dim() - 1)
            if scale is not None:
                g = g * scale.to(p.dtype).view(one)
            if n not in self.undecayed:
                p.mul_((1 - rate * self.decay).to(p.dtype).view(one))
            self.m[n].mul_(self.beta1).add_(g, alpha=1 - self.beta1)
            self.v[n].mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
            size = (rate / (1 - self.beta1**number)).to(p.dtype).view(one)
            p.sub_(size * self.m[n] / ((self.v[n] / (1 - self.beta2**number)).sqrt() + EPS))
        return torch.stack([loss.detach().double(), norm])

    @staticmethod
    def _norms(gradients: Any) -> Any:
        """Of each replica's gradients, all together."""
        # Squares lie in memory of their own: a sum over them does not depend on where gradients lie.
        return torch.stack([g.double().square().flatten(1).sum(1) for g in gradients.values()]).sum(0).sqrt()

    @torch.no_grad()
    def read(self, batch: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """Loss, hit (1, 0; -1 where a slot is not used) and answer of every query slot: [R,B,Q]."""
        batch = self._taken(batch)

        def one(params: Any, buffers: Any, batch: Any) -> Any:
            with self._precision():
                call = lambda *x: functional_call(self.model, (params, buffers), x)  # noqa: E731
                return answer_losses(call, self.answers, batch, self.vocabulary)

        self.model.eval()
        if self.together:
            with _no_fast_path():
                loss, said, used = vmap(one, randomness="error")(self.params, self.buffers, batch)
        else:
            params = {n: p[0] for n, p in self.params.items()}
            found = one(params, {n: b[0] for n, b in self.buffers.items()}, tuple(x[0] for x in batch))
            loss, said, used = (x[None] for x in found)
        self.model.train()
        hits = torch.where(used, (said == batch[2]).int(), -1).to(torch.int32)
        return loss.double().cpu().numpy(), hits.cpu().numpy(), said.to(torch.int32).cpu().numpy()

    def _taken(self, batch: Any) -> Any:
        return tuple(torch.from_numpy(x).to(self.device, torch.long) for x in batch)

    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these replicas alone."""
        at = torch.tensor(list(rows), device=self.device)
        for all in (self.params, self.buffers, self.m, self.v):
            for n in all:
                all[n] = all[n][at].contiguous()
        self.decay = self.decay[at]
        self.seeds = [self.seeds[r] for r in rows]

    def state(self, r: int) -> dict[str, Any]:
        """All that replica r has come to."""
        return {
            name: {n: x[r].detach().cpu().clone() for n, x in all.items()}
            for name, all in (("params", self.params), ("buffers", self.buffers), ("m", self.m), ("v", self.v))
        }

    def restore(self, r: int, state: dict[str, Any]) -> None:
        for name, all in (("params", self.params), ("buffers", self.buffers), ("m", self.m), ("v", self.v)):
            if state[name].keys() != all.keys():
                raise ValueError("the saved state is of another model")
            for n, x in all.items():
                x[r].copy_(state[name][n])
