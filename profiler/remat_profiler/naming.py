"""Readable unique names: `layer1.0.conv1`, `layer1.0.conv1.backward.grad_input`, `fc.weight.grad`.

An operator is called after the module that ran it; where a module runs several (a residual block
its addition, say) the operator type is added. Names are for people and for `bench instances show`;
nothing is derived from them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .aliasing import Value, schema_name
from .capture import MODEL, Capture, mark_of

if TYPE_CHECKING:
    from .trace import Operator, Storage

OUTPUT_NAMES: dict[str, tuple[str, ...]] = {
    "convolution_backward": ("grad_input", "grad_weight", "grad_bias"),
    "_native_batch_norm_legit_functional": ("", "save_mean", "save_rstd"),
    "_native_batch_norm_legit": ("", "save_mean", "save_rstd"),
    "native_batch_norm": ("", "save_mean", "save_rstd"),
    "cudnn_batch_norm": ("", "save_mean", "save_var", "reserve"),
    "batch_norm_statistics": ("save_mean", "save_rstd"),
    "native_batch_norm_backward": ("grad_input", "grad_weight", "grad_bias"),
    "cudnn_batch_norm_backward": ("grad_input", "grad_weight", "grad_bias"),
    "native_layer_norm": ("", "mean", "rstd"),
    "native_layer_norm_backward": ("grad_input", "grad_weight", "grad_bias"),
    "max_pool2d_with_indices": ("", "indices"),
    "native_dropout": ("", "mask"),
    "nll_loss_forward": ("", "total_weight"),
    "nll_loss2d_forward": ("", "total_weight"),
}


def short_type(operator: Operator) -> str:
    """`convolution_backward`: the operator type without namespace."""
    return schema_name(operator.node).partition("::")[2]


class Namer:
    """Names operators and storages of one iteration, in their order."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.taken: Counter[str] = Counter()

    def name(self, operators: list[Operator], storages: list[Storage], gradients: dict[Value, str]) -> None:
        """Sets `name` on all of them."""
        for operator in operators:
            if operator.phase != "backward":
                operator.name = self._unique(self._forward_name(operator))
        parts = Counter(op.differentiates for op in operators if op.phase == "backward")
        readers = _first_differentiating_reader(operators)
        for operator in operators:
            if operator.phase == "backward":
                operator.name = self._unique(self._backward_name(operator, operators, parts, readers))
        for operator in operators:
            for output in operator.outputs:
                storages[output].name = _storage_name(operator, storages[output], gradients)
        for storage in storages:
            if storage.kind == "input":
                storage.name = self.capture.inputs[storage.value.node]

    def _unique(self, name: str) -> str:
        count = self.taken[name]
        self.taken[name] += 1
        if not count:
            return name
        return self._unique(f"{name}_{count}")

    def _forward_name(self, operator: Operator) -> str:
        kind = short_type(operator).lstrip("_")
        if operator.phase == "loss":
            return f"loss.{kind}"
        path = operator.module.removeprefix(MODEL).lstrip(".")
        role = mark_of(operator.node).get("role")
        if role:
            return f"{path}.{role}" if path else str(role)
        if path in self.capture.leaf_modules:
            return path
        return f"{path}.{kind}" if path else kind

    def _backward_name(
        self, operator: Operator, operators: list[Operator], parts: Counter[int | None], readers: dict[int, int]
    ) -> str:
        if operator.differentiates is not None:
            base = f"{operators[operator.differentiates].name}.backward"
            kind = mark_of(operator.node).get("role") or short_type(operator)
            return base if parts[operator.differentiates] == 1 else f"{base}.{kind}"
        kind = short_type(operator)
        reader = next((readers[o] for o in operator.outputs if o in readers), None)
        if reader is None:
            return f"backward.{kind}"
        role = "grad_sum" if kind == "add" else kind
        return f"{operators[reader].name}.{role}"


def _first_differentiating_reader(operators: list[Operator]) -> dict[int, int]:
    """For each storage, the forward operator that its first reader with such a link differentiates."""
    found: dict[int, int] = {}
    for operator in operators:
        if operator.differentiates is not None:
            for tensor in operator.inputs:
                found.setdefault(tensor, operator.differentiates)
    return found


def _storage_name(operator: Operator, storage: Storage, gradients: dict[Value, str]) -> str:
    if storage.value in gradients:
        return f"{gradients[storage.value]}.grad"
    index = storage.value.index
    if index is None:
        return operator.name
    known = OUTPUT_NAMES.get(short_type(operator), ())
    suffix = known[index] if index < len(known) else str(index)
    return f"{operator.name}.{suffix}" if suffix else operator.name
