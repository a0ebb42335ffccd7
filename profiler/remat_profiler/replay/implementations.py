"""Runs one operator the way a step names: the framework's operator, or one of `alternatives`.

An implementation becomes a function without arguments that returns what it made, by tensor id of the instance.
Names are those that `alternatives/attach.py` gives. An algorithm of cuDNN's (`cudnn:...`) runs the framework's
operator: PyTorch has no way to choose one, and `notes` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx

from ..aliasing import schema_name
from ..alternatives import activations, batch_norm, gist, pooling
from ..alternatives.attach import window_of
from ..documents import Implementation, Instance
from ..errors import ProfilerError
from ..trace import STATEFUL, Operator
from .agreement import ALGORITHMS
from .values import Getter, Values

Run = Callable[[], dict[int, Any]]
ENCODINGS = ("gist:ssdc", "gist:dpr-fp16")
LOSSY = "gist:dpr-fp16"
# Implementations whose arithmetic is not the framework's: equal gradients up to rounding only.
ROUNDED = ("batch-norm:from-output", LOSSY)
_RUNNING = ("running_mean", "running_var")


@dataclass
class Library:
    """Makes runs; `notes` collects what a reader must know, `state_of` what the first run of an operator writes:
    pairs of an output's index and the buffer that takes it."""

    values: Values
    instance: Instance
    state_of: dict[fx.Node, list[tuple[int, torch.Tensor]]]
    notes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.entries = {entry["id"]: entry for entry in self.instance["operators"]}
        self.operators = {operator.id: operator for operator in self.values.trace.operators}
        self.traced = {storage.id for storage in self.values.trace.storages}

    def run_of(self, id: int, implementation: Implementation) -> Run:
        """The function that runs an operator with an implementation."""
        operator, name = self.operators[id], implementation["name"]
        again = bool(implementation.get("recompute"))
        if name in ("default", "recompute") or name.startswith(ALGORITHMS):
            if name.startswith(ALGORITHMS):
                self.notes.add("cudnn:... implementations ran the framework's own choice: PyTorch lets nobody name the algorithm")
            return self._framework(operator, implementation, again)
        base = name.removesuffix("-recompute")
        if base in ENCODINGS:
            encode = operator.phase != "backward"
            return (self._encoding if encode else self._decoding)(operator, implementation, base, again)
        key = schema_name(operator.node), name
        if key not in _MAKERS:
            raise ProfilerError(f"operator {id} ({operator.name}): the replay knows no implementation '{name}'")
        return _MAKERS[key](self, operator, implementation)

    # The framework's operator.

    def _framework(self, operator: Operator, implementation: Implementation, again: bool,
                   replaced: dict[str, Getter] | None = None) -> Run:
        node = operator.node
        if again and schema_name(node) in STATEFUL:
            replaced = (replaced or {}) | self._scratch_statistics(node)
        call: Getter = self.values.call(node, replaced)
        wanted = self._wanted(operator, implementation)
        state = [] if again else self.state_of.get(node, [])

        def run() -> dict[int, Any]:
            made = call()
            if isinstance(made, torch.Tensor):
                return {id: made for _, id in wanted}
            for index, buffer in state:
                buffer.copy_(made[index])
            return {id: made[index] for index, id in wanted}

        return run

    def _wanted(self, operator: Operator, implementation: Implementation) -> list[tuple[int, int]]:
        """Index among the node's outputs, 0 of a single one, and tensor id, of what is to be kept."""
        kept = {*self.entries[operator.id]["outputs"], *implementation.get("saves", [])} & self.traced
        storages = self.values.trace.storages
        return [(storages[id].value.index or 0, id) for id in sorted(kept)]

    def _scratch_statistics(self, node: fx.Node) -> dict[str, Getter]:
        """Copies of the running statistics, for a kernel that writes to them."""
        names = [argument.name for argument in node.target._schema.arguments]
        originals = {name: self.values.getter(node.args[names.index(name)]) for name in _RUNNING}
        return {name: _cloned(get) for name, get in originals.items()}

    # Gist's encodings: the framework's operator, and a copy in another form.

    def _encoding(self, operator: Operator, implementation: Implementation, name: str, again: bool) -> Run:
        (copy,) = [id for id in implementation.get("saves", []) if id not in self.traced]
        source = self.entries[operator.id]["outputs"][0]
        base = self._framework(operator, implementation, again)
        encode = gist.ssdc_encode if name == "gist:ssdc" else gist.dpr_encode

        def run() -> dict[int, Any]:
            made = base()
            made[copy] = encode(made[source])
            return made

        return run

    def _decoding(self, operator: Operator, implementation: Implementation, name: str, again: bool) -> Run:
        """The framework's operator, reading decoded copies where the tensor itself is not to be read."""
        values = self.values
        replaced: dict[str, Getter] = {}
        copies = self._copies(operator, implementation)
        decoded: dict[int, Any] = {}
        for argument, node in self._operands(operator.node):
            id = values.tensor_id(node)
            if id in copies:
                replaced[argument] = self._decoder(node, id, copies[id], name, decoded)
        base = self._framework(operator, implementation, again, replaced)

        def run() -> dict[int, Any]:
            try:
                return base()
            finally:
                decoded.clear()

        return run

    def _copies(self, operator: Operator, implementation: Implementation) -> dict[int, int]:
        """Encoded copy by the tensor that it stands for: made by the same forward operator, whose first output that is."""
        owner: dict[int, int] = {}
        for entry in self.instance["operators"]:
            for offered in entry["implementations"]:
                if offered["name"].removesuffix("-recompute") in ENCODINGS:
                    owner |= {id: entry["outputs"][0] for id in offered.get("saves", []) if id not in self.traced}
        return {owner[id]: id for id in implementation.get("inputs", []) if id in owner}

    def _decoder(self, node: fx.Node, id: int, copy: int, name: str, decoded: dict[int, Any]) -> Getter:
        """Decodes once a run, and then views the copy as the node views the tensor."""
        values = self.values
        fake = values.trace.storages[id].value.tensor
        view = values.getter(node)

        def decode() -> Any:
            if copy not in values.held:
                values._held_getter(copy)()
            if id not in decoded:
                stored = values.held[copy]
                decoded[id] = (gist.ssdc_decode(stored[0], stored[1], stored[2], fake.shape) if name == "gist:ssdc"
                               else gist.dpr_decode(stored, fake.dtype))
            there = values.held.get(id)
            values.held[id] = decoded[id]
            try:
                return view()
            finally:
                if there is None:
                    del values.held[id]
                else:
                    values.held[id] = there

        return decode

    @staticmethod
    def _operands(node: fx.Node) -> list[tuple[str, fx.Node]]:
        names = [argument.name for argument in node.target._schema.arguments]
        return [(names[i], value) for i, value in enumerate(node.args) if isinstance(value, fx.Node)]

    # What the makers below need.

    def operand(self, operator: Operator, position: int) -> Getter:
        """An operand of the node."""
        return self.values.getter(operator.node.args[position])

    def extra(self, implementation: Implementation, key: Literal["inputs", "saves"] = "inputs") -> int:
        """The one tensor among those read (or saved) that only alternatives know."""
        (id,) = [id for id in implementation.get(key, []) if id not in self.traced]
        return id

    def stored(self, implementation: Implementation) -> Getter:
        """That tensor, when it is read."""
        return self.values._held_getter(self.extra(implementation))

    def output(self, operator: Operator) -> int:
        """The first output."""
        return self.entries[operator.id]["outputs"][0]

    def forward_of(self, operator: Operator) -> Operator:
        """What a backward operator differentiates."""
        if operator.differentiates is None:
            raise ProfilerError(f"operator {operator.id} ({operator.name}) differentiates nothing, so that it has no alternative")
        return self.operators[operator.differentiates]


def _cloned(get: Getter) -> Getter:
    return lambda: get().clone()


def _one_in_one_out(function: Callable[..., Any], *positions: int) -> Callable[[Library, Operator, Implementation], Run]:
    """A function of the first operand, and of literals at other positions, that gives the first output."""

    def make(library: Library, operator: Operator, _implementation: Implementation) -> Run:
        x, y = library.operand(operator, 0), library.output(operator)
        literals = [float(operator.node.args[position]) for position in positions]
        return lambda: {y: function(x(), *literals)}

    return make


def _saving(function: Callable[..., Any], *positions: int) -> Callable[[Library, Operator, Implementation], Run]:
    """The same for a function that gives the output and what it saves."""

    def make(library: Library, operator: Operator, implementation: Implementation) -> Run:
        x, y, saved = library.operand(operator, 0), library.output(operator), library.extra(implementation, "saves")
        literals = [float(operator.node.args[position]) for position in positions]

        def run() -> dict[int, Any]:
            made, kept = function(x(), *literals)
            return {y: made, saved: kept}

        return run

    return make


def _from_mask(library: Library, operator: Operator, implementation: Implementation) -> Run:
    grad, mask, made = library.operand(operator, 0), library.stored(implementation), library.output(operator)
    return lambda: {made: activations.from_mask(grad(), mask())}


def _from_input(library: Library, operator: Operator, _implementation: Implementation) -> Run:
    grad, x = library.operand(operator, 0), library.operand(library.forward_of(operator), 0)
    made = library.output(operator)
    return lambda: {made: activations.relu_from_input(grad(), x())}


def _hardtanh_from_output(library: Library, operator: Operator, _implementation: Implementation) -> Run:
    forward = library.forward_of(operator)
    grad, y = library.operand(operator, 0), library.values._held_getter(library.output(forward))
    low, high = (float(value) for value in operator.node.args[2:4])
    made = library.output(operator)
    return lambda: {made: activations.hardtanh_from_output(grad(), y(), low, high)}


def _dropout_in_place(library: Library, operator: Operator, implementation: Implementation) -> Run:
    x, p = library.operand(operator, 0), float(operator.node.args[1])
    wanted = library._wanted(operator, implementation)
    if library.values.device.type != "cpu":
        library.notes.add("dropout:in-place draws other numbers than the framework's fused kernel")

    def run() -> dict[int, Any]:
        made = activations.dropout_in_place(x(), p)
        return {id: made[index] for index, id in wanted}

    return run


def _norm_from_output(library: Library, operator: Operator, implementation: Implementation) -> Run:
    forward = library.forward_of(operator)
    names = [argument.name for argument in forward.node.target._schema.arguments]
    weight, bias = (library.operand(forward, names.index(name)) for name in ("weight", "bias"))
    grad, rstd = library.operand(operator, 0), library.operand(operator, 6)
    y = library.values._held_getter(library.output(forward))
    wanted = library._wanted(operator, implementation)

    def run() -> dict[int, Any]:
        made = batch_norm.from_output(grad(), y(), weight(), bias(), rstd())
        return {id: made[index] for index, id in wanted}

    return run


def _pool(encode: bool) -> Callable[[Library, Operator, Implementation], Run]:
    def make(library: Library, operator: Operator, implementation: Implementation) -> Run:
        x, y, saved = library.operand(operator, 0), library.output(operator), library.extra(implementation, "saves")
        window = window_of(operator.node)

        def run() -> dict[int, Any]:
            made, index = pooling.max_pool_kernel_index(x(), *window)
            return {y: made, saved: gist.pool_map_encode(index) if encode else index}

        return run

    return make


def _pool_backward(decode: bool) -> Callable[[Library, Operator, Implementation], Run]:
    def make(library: Library, operator: Operator, implementation: Implementation) -> Run:
        grad, stored, made = library.operand(operator, 0), library.stored(implementation), library.output(operator)
        forward = library.forward_of(operator)
        window, size = window_of(forward.node), list(forward.node.args[0].meta["val"].shape[-2:])

        def run() -> dict[int, Any]:
            gradient, index = grad(), stored()
            index = gist.pool_map_decode(index, gradient.shape) if decode else index
            return {made: pooling.max_pool_from_kernel_index(gradient, index, size, *window)}

        return run

    return make


_RELU, _RELU_BACKWARD = "aten::relu", "aten::threshold_backward"
_POOL, _POOL_BACKWARD = "aten::max_pool2d_with_indices", "aten::max_pool2d_with_indices_backward"
_HARDTANH, _HARDTANH_BACKWARD = "aten::hardtanh", "aten::hardtanh_backward"
_MAKERS: dict[tuple[str, str], Callable[[Library, Operator, Implementation], Run]] = {
    (_RELU, "relu:in-place"): _one_in_one_out(activations.relu_in_place),
    (_RELU, "gist:in-place"): _one_in_one_out(activations.relu_in_place),
    (_RELU, "relu:saving-mask"): _saving(activations.relu_saving_mask),
    (_RELU, "gist:binarize"): _saving(activations.relu_saving_mask),
    (_RELU, "relu:saving-mask-in-place"): _saving(activations.relu_saving_mask_in_place),
    (_RELU_BACKWARD, "relu:from-input"): _from_input,
    (_RELU_BACKWARD, "relu:from-mask"): _from_mask,
    (_RELU_BACKWARD, "gist:binarize"): _from_mask,
    (_HARDTANH, "hardtanh:in-place"): _one_in_one_out(activations.hardtanh_in_place, 1, 2),
    (_HARDTANH, "hardtanh:saving-mask"): _saving(activations.hardtanh_saving_mask, 1, 2),
    (_HARDTANH_BACKWARD, "hardtanh:from-output"): _hardtanh_from_output,
    (_HARDTANH_BACKWARD, "hardtanh:from-mask"): _from_mask,
    ("aten::native_dropout", "dropout:in-place"): _dropout_in_place,
    ("aten::native_batch_norm_backward", "batch-norm:from-output"): _norm_from_output,
    (_POOL, "max-pool:kernel-index"): _pool(encode=False),
    (_POOL, "gist:binarize"): _pool(encode=True),
    (_POOL_BACKWARD, "max-pool:from-kernel-index"): _pool_backward(decode=False),
    (_POOL_BACKWARD, "gist:binarize"): _pool_backward(decode=True),
}
