"""One use of a plan: checked inputs in, results out as arrays of their own."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, Mapping, Protocol, Sequence

from .arrays import Arrays

#: What backward may start from: nothing, o, or o and the states at the end.
NOTHING, OUTPUT, ENDS = 0, 1, 2


#: Names of outputs beside inputs, for a Fold.
OF_O, OF_STATE = "of o", "of the state "


class Fold(Protocol):
    """Replicas as one call of another kind: tensors [R,...] of an input or an output, as they stand there, and back."""

    @property
    def kind(self) -> Kind: ...
    def put(self, name: str, x: Any) -> Any: ...
    def take(self, name: str, x: Any) -> Any: ...


class Kind(Protocol):
    """What calls of one plan have in common."""

    recipe: Any  #: the module's
    key: Any  #: of calls whose backward passes begin at the same outputs

    def folded(self, R: int, batched: set[str], names: Sequence[str]) -> Fold | None:
        """R replicas in one call; None: they cannot be."""


class Call:
    """`inputs` are of the kind of `arrays`, and stay as they are as long as it lives: the plan may read them where they lie."""

    def __init__(self, kind: Kind, arrays: Arrays, inputs: Mapping[str, Any], gradients: int):
        self.core = kind.recipe.call(gradients, arrays.device, arrays.stream)
        self.arrays = arrays
        self.shapes = {name: tuple(x.shape) for name, x in inputs.items()}
        self.borrowed: dict[str, Any] = {}
        self.put(inputs)

    def put(self, inputs: Mapping[str, Any]) -> None:
        for name, x in inputs.items():
            self.borrowed[name] = self.arrays.put(self.core, "input", name, x, True)

    def forward(self, last: bool = False) -> tuple[Any, dict[str, Any]]:
        """`last`: nobody can change o before a backward pass, which may read it."""
        o = self.arrays.bound(self.core, "output", "o") if last else None
        self.core.forward(self.arrays.threads)
        states = {name: self.arrays.take(self.core, "state", name) for name in self.core.states}
        return self.arrays.take(self.core, "output", "o") if o is None else o, states

    def backward(self, d_o: Any, d_states: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Gradients by these inputs of sum(o d_o) and of the sums over states and what is given for them; None: 0."""
        arrays, core = self.arrays, self.core
        shape = core.shape("output", "o")
        kept = arrays.put(core, "cotangent", "d_o", arrays.zeros(shape) if d_o is None else d_o, True)
        for state in core.states:
            shape = core.shape("end_cotangent", state)
            if shape is not None:
                given = d_states.get(state)
                arrays.put(core, "end_cotangent", state, arrays.zeros(shape) if given is None else given)
        bound = {name: arrays.bound(core, "gradient", name) for name in names}
        core.backward(arrays.threads)
        self.borrowed["d_o"] = kept
        all = {}
        for name in names:
            gradient = bound[name]
            if gradient is None:
                gradient = arrays.take(core, "gradient", name)  # None: nothing depends on it
            if gradient is None:
                gradient = arrays.zeros(self.shapes[name])
            elif tuple(gradient.shape) != self.shapes[name]:
                gradient = gradient.reshape(self.shapes[name])
            all[name] = gradient
        return all


def forward(kind: Kind, arrays: Arrays, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """(o, states) where nobody asks for gradients."""
    if arrays.device < 0:
        return arrays.once(kind.recipe, inputs)
    return Call(kind, arrays, inputs, NOTHING).forward(True)
