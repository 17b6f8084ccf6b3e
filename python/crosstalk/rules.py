"""A memory whose law is text: `rule`, a function of tensors, a description, and a layer of PyTorch."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, Sequence

from . import _core, checks
from .memories import _inputs, _plain, apply


class Rule:
    """What `rule` makes: `f(q=..., k=..., v=..., beta=...)` -> (o, state), the contract of `ct.apply`.

    `steps` is the law in canonical text, `inputs` its inputs with their shapes; `f.layer(width, heads=2)` is the law between its
    projections, an nn.Module.
    """

    def __init__(self, law: str | Sequence[str], **options: Any):
        if not isinstance(law, (str, list, tuple)):
            raise TypeError(f"a law is a str or a list of steps, not {type(law).__name__}")
        text = law if isinstance(law, str) else "; ".join(checks.text("a step of a law", step) for step in law)
        facts = _core.rule(text, {name: _plain(x) for name, x in options.items() if name in ("c", "c2", "c3")})
        self.options: dict[str, Any] = options
        self.steps: list[str] = [step.strip() for step in facts["text"].split(";")]
        self.equation: str = facts["equation"]
        self.states: list[str] = list(facts["states"])
        self.options = {"law": facts["text"], **options}
        known = _inputs("rule", {n: _plain(x) for n, x in self.options.items() if n in ("law", "c", "c2", "c3")}, [1] * 6)
        #: name -> (shape, whether it may be left out)
        self.inputs: dict[str, tuple[str, bool]] = {name: (shape, optional) for name, _, shape, optional in known}

    def __repr__(self) -> str:
        return f"crosstalk.rule({self.steps!r})"

    def __call__(self, q: Any = None, k: Any = None, v: Any = None, **given: Any) -> Any:
        inputs = {name: x for name, x in (("q", q), ("k", k), ("v", v)) if x is not None}
        return apply("rule", **inputs, **given, **self.options)

    def layer(self, width: int, **options: Any) -> Any:
        """The law as a layer (`ct.torch.Memory`): x `[B,T,width]` -> (y, state)."""
        from .torch import Memory

        return Memory("rule", width, **{**self.options, **options})


def rule(law: str | Sequence[str], **options: Any) -> Rule:
    """The memory that these steps write down (docs/rules.md), as a function.

    Numbers c, c2, c3 of the law, and other options of the memory `rule`, are keywords.

    >>> delta = ct.rule(["beta = sigmoid(token)", "S += beta (v - S k) k^T", "read S q"])
    >>> delta.inputs["beta"]
    ('[B,T,H]', False)
    """
    return Rule(law, **options)
