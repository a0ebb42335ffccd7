"""Offers the alternatives to the operators of an instance: implementations after the default one.

Works on the JSON object beside the trace that it was written from. An alternative is offered wherever
its function computes the same result; whether a schedule may use it (the mask was saved, nobody needs
the overwritten input any more) is for the simulator to say.

Max-pooling is the one operator that changes otherwise: its 64-bit indices move from the operator's
outputs to what the default implementation saves, since the alternative makes 8-bit ones instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from ..aliasing import Storages, schema_name
from ..costs import Call, Cost, CostSource
from ..costs.work import Work, touched_bytes, work_of
from ..documents import Implementation, InPlace, Instance, Tensor
from ..trace import Operator, TracedIteration
from . import activations, batch_norm, bits, gist, pooling

FORWARD_RELU, BACKWARD_RELU = "aten::relu", "aten::threshold_backward"
FORWARD_HARDTANH, BACKWARD_HARDTANH = "aten::hardtanh", "aten::hardtanh_backward"
FORWARD_DROPOUT = "aten::native_dropout"
FORWARD_POOL, BACKWARD_POOL = "aten::max_pool2d_with_indices", "aten::max_pool2d_with_indices_backward"
NORMS = ("aten::_native_batch_norm_legit_functional", "remat_profiler::batch_norm_normalise")
BACKWARD_NORM = "aten::native_batch_norm_backward"
CONVOLUTIONS = "aten::convolution"
# Of a max-pool: kernel, stride, padding, dilation, ceil_mode.
Window = tuple[list[int], list[int], list[int], list[int], bool]
# Encoding smaller tensors (statistics, the logits of a classifier) would save nothing worth a schedule.
SMALLEST_ENCODED = 64 * 1024

# What packing costs in modelled instances, as multiples of the default's traffic: the ratios of times
# that MONeT's authors measured on a P100 (ResNet-50 at batch 184, images of 28x28 and more). Fused kernels
# would do better.
SAVING_MASK, FROM_MASK = 2.17, 1.86
SAVING_INDEX, FROM_INDEX = 1.17, 1.45

NOTES = {
    "alternatives": (
        "in modelled instances alternatives cost the bytes that they move; those that pack or unpack masks and "
        "indices, the default's bytes times the ratios that MONeT's authors measured on a P100; "
        "batch-norm:from-output needs weights that are not 0"
    ),
    "gist": (
        "gist:dpr-fp16 is lossy (activations kept as 16-bit floats); gist:ssdc is exact and its size assumes "
        f"that {gist.ASSUMED_DENSITY:.0%} of the elements are not 0; times of encoded implementations are those of "
        "the default plus encoding or decoding"
    ),
}


class _Attachment:
    """The instance, the trace, and what is needed to relate the two."""

    def __init__(self, instance: Instance, trace: TracedIteration, costs: CostSource) -> None:
        self.instance, self.trace, self.costs = instance, trace, costs
        self.operators = instance["operators"]
        self.tensors = {tensor["id"]: tensor for tensor in instance["tensors"]}
        self.of = Storages(trace.capture.graph_module.graph).of
        self.id_of = {storage.value: storage.id for storage in trace.storages}
        self.readers: dict[int, list[Operator]] = {}
        for operator in trace.operators:
            for tensor in operator.inputs:
                self.readers.setdefault(tensor, []).append(operator)
        self.saved: dict[tuple[int, str], int] = {}

    # Looking things up.

    def kind(self, operator: Operator) -> str:
        return schema_name(operator.node)

    def backward_of(self, operator: Operator, kind: str) -> list[Operator]:
        return [b for b in self.trace.operators if b.differentiates == operator.id and self.kind(b) == kind]

    def fake(self, tensor: int) -> torch.Tensor:
        return self.trace.storages[tensor].value.tensor

    def operand(self, operator: Operator, position: int) -> int | None:
        """Storage of an operand of the node, None for parameters and the like."""
        node = operator.node.args[position]
        return self.id_of.get(self.of(node)) if isinstance(node, torch.fx.Node) else None

    def value(self, operator: Operator, position: int, default: object = None) -> Any:
        """Argument of the node; fake tensors for nodes."""
        arguments = operator.node.args
        if position >= len(arguments):
            return default
        argument = arguments[position]
        return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument

    # Changing the instance.

    def save(self, operator: Operator, name: str, count: int, dtype: torch.dtype, shape: list[int] | None = None) -> int:
        """A tensor that an implementation saves; the same one for the same name."""
        key = operator.id, name
        if key not in self.saved:
            id = max(self.tensors) + 1
            entry: Tensor = {"id": id, "name": f"{self.operators[operator.id]['name']}.{name}", "bytes": count, "kind": "saved"}
            if shape is not None:
                entry["shape"] = shape
            entry["dtype"] = str(dtype).removeprefix("torch.")
            self.tensors[id] = entry
            self.instance["tensors"].append(entry)
            self.saved[key] = id
        return self.saved[key]

    def offer(self, operator: Operator, name: str, cost: Cost, *, inputs: list[int] | None = None, saves: list[int] | None = None,
              in_place: InPlace | None = None, recompute: bool = False) -> None:
        """Adds an implementation; `inputs` are left out where they are the operator's own."""
        entry: Implementation = {"name": name, "time": cost.time_ns}
        if cost.workspace_bytes:
            entry["workspace_bytes"] = cost.workspace_bytes
        if inputs is not None and sorted(inputs) != self.operators[operator.id]["inputs"]:
            entry["inputs"] = sorted(inputs)
        if saves:
            entry["saves"] = saves
        if in_place:
            entry["in_place"] = in_place
        if recompute:
            entry["recompute"] = True
        if cost.spread_ns is not None:
            entry["spread"] = cost.spread_ns
        self.operators[operator.id]["implementations"].append(entry)

    def call(self, name: str, function: Callable[..., object], arguments: tuple[object, ...], moved: int, kind: str = "elementwise",
             bounds: dict[int, int] | None = None, prepare: Callable[..., tuple[object, ...]] | None = None) -> Cost:
        work = Work(kind, 0.0, float(moved))
        return self.costs.cost_of_call(Call(name, function, arguments, work, 0, bounds or {}, prepare))

    def in_place(self, operator: Operator) -> InPlace | None:
        """The declaration, where the first operand is an activation as large as the first output."""
        source, output = self.operand(operator, 0), operator.outputs[0]
        if source is None or self.tensors[source]["kind"] == "input" or source == output:
            return None
        return {"output": output, "input": source} if self.tensors[source]["bytes"] == self.tensors[output]["bytes"] else None


def attach(instance: Instance, trace: TracedIteration, costs: CostSource, alternatives: bool, encodings: bool) -> None:
    """Adds MONeT's alternatives, Gist's encodings, or both."""
    a = _Attachment(instance, trace, costs)
    for operator in trace.operators:
        if operator.phase != "backward" and alternatives:
            for offer in _OFFERS.get(a.kind(operator), ()):
                offer(a, operator)
    if encodings:
        _Encodings(a).run()
    notes = instance["provenance"].setdefault("notes", [])
    notes += [NOTES[key] for key, wanted in (("alternatives", alternatives), ("gist", encodings)) if wanted]


def _relu(a: _Attachment, forward: Operator) -> None:
    x, y = a.operand(forward, 0), forward.outputs[0]
    fake = a.fake(y)
    count, size = fake.numel(), touched_bytes(fake)
    mask_size = bits.packed_bytes(count, 1)
    place = a.in_place(forward)
    if place:
        a.offer(forward, "relu:in-place", a.call("relu:in-place", activations.relu_in_place, (fake,), 2 * size),
                in_place=place)
    backwards = [b for b in a.backward_of(forward, BACKWARD_RELU) if b.node.args[2] == 0 and a.operand(b, 1) == y]
    if not backwards:
        return
    mask = a.save(forward, "mask", mask_size, torch.uint8, [mask_size])
    moved = round(SAVING_MASK * 2 * size)
    saving = a.call("relu:saving-mask", activations.relu_saving_mask, (fake,), moved)
    a.offer(forward, "relu:saving-mask", saving, saves=[mask])
    if place:
        both = a.call("relu:saving-mask-in-place", activations.relu_saving_mask_in_place, (fake,), moved)
        a.offer(forward, "relu:saving-mask-in-place", both, saves=[mask], in_place=place)
    for backward in backwards:
        grad, fake_grad = a.operand(backward, 0), a.value(backward, 0)
        if grad is None:
            continue
        if x is not None:
            cost = a.call("relu:from-input", activations.relu_from_input, (fake_grad, fake),
                          touched_bytes(fake_grad) + 2 * size)
            a.offer(backward, "relu:from-input", cost, inputs=[grad, x])
        _from_mask(a, backward, "relu:from-mask", grad, mask, size)


def _from_mask(a: _Attachment, backward: Operator, name: str, grad: int, mask: int, size: int) -> None:
    fake_grad, mask_size = a.value(backward, 0), a.tensors[mask]["bytes"]
    packed = torch.empty(mask_size, dtype=torch.uint8, device="meta")
    moved = round(FROM_MASK * (touched_bytes(fake_grad) + 2 * size))
    cost = a.call("from-mask", activations.from_mask, (fake_grad, packed), moved, bounds={1: 256})
    a.offer(backward, name, cost, inputs=[grad, mask])


def _hardtanh(a: _Attachment, forward: Operator) -> None:
    low, high = float(a.value(forward, 1, -1.0)), float(a.value(forward, 2, 1.0))
    y = forward.outputs[0]
    fake = a.fake(y)
    size, mask_size = touched_bytes(fake), bits.packed_bytes(fake.numel(), 1)
    place = a.in_place(forward)
    if place:
        cost = a.call("hardtanh:in-place", activations.hardtanh_in_place, (fake, low, high), 2 * size)
        a.offer(forward, "hardtanh:in-place", cost, in_place=place)
    backwards = a.backward_of(forward, BACKWARD_HARDTANH)
    if not backwards:
        return
    mask = a.save(forward, "mask", mask_size, torch.uint8, [mask_size])
    moved = round(SAVING_MASK * 2 * size)
    saving = a.call("hardtanh:saving-mask", activations.hardtanh_saving_mask, (fake, low, high), moved)
    a.offer(forward, "hardtanh:saving-mask", saving, saves=[mask])
    for backward in backwards:
        grad, fake_grad = a.operand(backward, 0), a.value(backward, 0)
        if grad is None:
            continue
        cost = a.call("hardtanh:from-output", activations.hardtanh_from_output, (fake_grad, fake, low, high),
                      touched_bytes(fake_grad) + 2 * size)
        a.offer(backward, "hardtanh:from-output", cost, inputs=[grad, y])
        _from_mask(a, backward, "hardtanh:from-mask", grad, mask, size)


def _dropout(a: _Attachment, forward: Operator) -> None:
    place = a.in_place(forward)
    if place and a.value(forward, 2) is True:
        fake = a.fake(forward.outputs[0])
        moved = 2 * touched_bytes(fake) + fake.numel()
        cost = a.call("dropout:in-place", activations.dropout_in_place, (fake, float(a.value(forward, 1))), moved)
        a.offer(forward, "dropout:in-place", cost, in_place=place)


def _norm(a: _Attachment, forward: Operator) -> None:
    y = forward.outputs[0]
    fake = a.fake(y)
    for backward in a.backward_of(forward, BACKWARD_NORM):
        # grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
        grad, rstd = a.operand(backward, 0), a.operand(backward, 6)
        weight = a.value(backward, 2)
        if grad is None or rstd is None or weight is None or a.value(backward, 7) is not True or not all(a.value(backward, 9)):
            continue
        arguments = (a.value(backward, 0), fake, weight, torch.empty_like(weight, device="meta"), a.fake(rstd))
        # Two passes over gradient and output, and one gradient written: what the default moves.
        moved = 3 * touched_bytes(arguments[0]) + 2 * touched_bytes(fake)
        cost = a.call("batch-norm:from-output", batch_norm.from_output, arguments, moved, "norm_backward")
        a.offer(backward, "batch-norm:from-output", cost, inputs=[grad, y, rstd])


def window_of(node: torch.fx.Node) -> Window:
    """Kernel, stride, padding, dilation, ceil_mode of a max-pool with both dimensions spelled out."""
    given = [node.args[position] if position < len(node.args) else None for position in range(1, 6)]
    kernel = _two(given[0], [])
    stride = _two(given[1] or None, kernel)
    return kernel, stride, _two(given[2], [0, 0]), _two(given[3], [1, 1]), bool(given[4])


def _two(value: list[int] | None, default: list[int]) -> list[int]:
    if value is None:
        return default
    return list(value) * 2 if len(value) == 1 else list(value)


def _pool(a: _Attachment, forward: Operator) -> None:
    kernel, backwards = window_of(forward.node)[0], _pool_backwards(a, forward)
    if prod(kernel) > 256 or not backwards:
        return
    _indices_are_saved(a, forward)
    y = a.fake(forward.outputs[0])
    index = a.save(forward, "kernel_index", y.numel(), torch.uint8, list(y.shape))
    a.offer(forward, "max-pool:kernel-index", _pool_forward_cost(a, forward), saves=[index])
    for backward, grad in backwards:
        cost = _pool_backward_cost(a, forward, backward)
        a.offer(backward, "max-pool:from-kernel-index", cost, inputs=[grad, index])


def _pool_forward_cost(a: _Attachment, forward: Operator) -> Cost:
    arguments = (a.value(forward, 0), *window_of(forward.node))
    moved = round(SAVING_INDEX * work_of(forward.node).bytes)
    return a.call("max-pool:kernel-index", pooling.max_pool_kernel_index, arguments, moved, "pool")


def _pool_backward_cost(a: _Attachment, forward: Operator, backward: Operator) -> Cost:
    """Measured on indices that come from a forward pass: made-up ones would lie outside of the image."""
    grad, x = a.value(backward, 0), a.value(forward, 0)

    def prepare(grad: torch.Tensor, x: torch.Tensor, *window: Any) -> tuple[object, ...]:
        return (grad, pooling.max_pool_kernel_index(x, *window)[1], list(x.shape[-2:]), *window)

    moved = round(FROM_INDEX * work_of(backward.node).bytes)
    return a.call("max-pool:from-kernel-index", pooling.max_pool_from_kernel_index, (grad, x, *window_of(forward.node)),
                  moved, "pool_backward", prepare=prepare)


def _pool_backwards(a: _Attachment, forward: Operator) -> list[tuple[Operator, int]]:
    """The backward operators with the gradients that they read, if they alone read the indices."""
    if len(forward.outputs) != 2:
        return []
    indices = forward.outputs[1]
    found = [(b, a.operand(b, 0)) for b in a.backward_of(forward, BACKWARD_POOL)]
    backwards = [(backward, grad) for backward, grad in found if grad is not None]
    alone = [backward for backward, _ in backwards]
    return backwards if backwards and all(reader in alone for reader in a.readers.get(indices, [])) else []


def _indices_are_saved(a: _Attachment, forward: Operator) -> None:
    """From the outputs of the operator to what its default implementation saves."""
    entry, indices = a.operators[forward.id], forward.outputs[1]
    if indices in entry["outputs"]:
        entry["outputs"] = [tensor for tensor in entry["outputs"] if tensor != indices]
        entry["implementations"][0]["saves"] = [indices]


_OFFERS: dict[str, tuple[Callable[[_Attachment, Operator], None], ...]] = {
    FORWARD_RELU: (_relu,), FORWARD_HARDTANH: (_hardtanh,), FORWARD_DROPOUT: (_dropout,), FORWARD_POOL: (_pool,),
    **dict.fromkeys(NORMS, (_norm,)),
}


@dataclass(frozen=True)
class _Encoded:
    """An encoded copy of an activation: the tensor, and what decoding costs."""

    name: str
    tensor: int
    decode: Cost
    workspace_bytes: int


class _Encodings:
    """Gist: for each activation that the backward pass reads, the encoding that its readers call for."""

    def __init__(self, a: _Attachment) -> None:
        self.a = a

    def run(self) -> None:
        for operator in self.a.trace.operators:
            if operator.phase != "backward" and operator.outputs:
                self._of(operator)

    def _of(self, operator: Operator) -> None:
        a, y = self.a, operator.outputs[0]
        readers = a.readers.get(y, [])
        forward = [reader for reader in readers if reader.phase != "backward"]
        backward = [reader for reader in readers if reader.phase == "backward"]
        kinds = {a.kind(reader) for reader in forward}
        relu = a.kind(operator) == FORWARD_RELU
        if relu and a.in_place(operator) and "relu:in-place" not in self._names(operator):
            size = touched_bytes(a.fake(y))
            cost = a.call("relu:in-place", activations.relu_in_place, (a.fake(y),), 2 * size)
            a.offer(operator, "gist:in-place", cost, in_place=a.in_place(operator))
        if relu and kinds == {FORWARD_POOL}:
            self._binarize(operator, forward, backward)
        elif a.tensors[y]["bytes"] >= SMALLEST_ENCODED and a.fake(y).dtype == torch.float32 and backward:
            encoded = self._ssdc(operator) if relu and CONVOLUTIONS in kinds else self._dpr(operator)
            for reader in backward:
                self._read(reader, y, encoded)

    def _names(self, operator: Operator) -> set[str]:
        return {entry["name"] for entry in self.a.operators[operator.id]["implementations"]}

    def _binarize(self, relu: Operator, pools: list[Operator], backward: list[Operator]) -> None:
        a, y = self.a, relu.outputs[0]
        fake = a.fake(y)
        size, count = touched_bytes(fake), bits.packed_bytes(fake.numel(), 1)
        mask = a.save(relu, "mask", count, torch.uint8, [count])
        cost = a.call("relu:saving-mask", activations.relu_saving_mask, (fake,), round(SAVING_MASK * 2 * size))
        a.offer(relu, "gist:binarize", cost, saves=[mask])
        for reader in backward:
            grad = a.operand(reader, 0)
            if a.kind(reader) == BACKWARD_RELU and grad is not None:
                _from_mask(a, reader, "gist:binarize", grad, mask, size)
        for pool in pools:
            self._pool_map(pool)

    def _pool_map(self, pool: Operator) -> None:
        a = self.a
        kernel, backwards = window_of(pool.node)[0], _pool_backwards(a, pool)
        if prod(kernel) > 16 or not backwards:
            return
        _indices_are_saved(a, pool)
        y = a.fake(pool.outputs[0])
        count = bits.packed_bytes(y.numel(), 4)
        stored = a.save(pool, "pool_map", count, torch.uint8, [count])
        narrow = torch.empty(y.shape, dtype=torch.uint8, device="meta")
        packed = torch.empty(count, dtype=torch.uint8, device="meta")
        made = _pool_forward_cost(a, pool)
        encode = a.call("gist:pool-map", gist.pool_map_encode, (narrow,), y.numel() + count, bounds={0: 16})
        decode = a.call("gist:pool-map-decode", gist.pool_map_decode, (packed, y.shape), y.numel() + count, bounds={0: 256})
        a.offer(pool, "gist:binarize", _sum(made, encode, y.numel()), saves=[stored])
        for backward, grad in backwards:
            run = _pool_backward_cost(a, pool, backward)
            a.offer(backward, "gist:binarize", _sum(run, decode, y.numel()), inputs=[grad, stored])

    def _ssdc(self, operator: Operator) -> _Encoded:
        a, y = self.a, operator.outputs[0]
        fake = a.fake(y)
        size, count = touched_bytes(fake), gist.ssdc_bytes(fake.numel(), fake.element_size())
        stored = a.save(operator, "csr", count, torch.uint8)
        encode = a.call("gist:ssdc", _ssdc_of_relu, (fake,), size + count)
        decode = a.call("gist:ssdc-decode", gist.ssdc_decode, (fake,), size + count, prepare=_ssdc_parts)
        self._offer_encoding(operator, "gist:ssdc", encode, stored)
        return _Encoded("gist:ssdc", stored, decode, size)

    def _dpr(self, operator: Operator) -> _Encoded:
        a, y = self.a, operator.outputs[0]
        fake = a.fake(y)
        size = touched_bytes(fake)
        stored = a.save(operator, "fp16", size // 2, torch.float16, list(fake.shape))
        half = torch.empty(fake.shape, dtype=torch.float16, device="meta")
        encode = a.call("gist:dpr-fp16", gist.dpr_encode, (fake,), size + size // 2)
        decode = a.call("gist:dpr-fp16-decode", gist.dpr_decode, (half, fake.dtype), size + size // 2)
        self._offer_encoding(operator, "gist:dpr-fp16", encode, stored)
        return _Encoded("gist:dpr-fp16", stored, decode, size)

    def _offer_encoding(self, operator: Operator, name: str, encode: Cost, stored: int) -> None:
        base = self.a.operators[operator.id]["implementations"][0]
        whole = _sum(_cost_of(base), encode, 0)
        saves = [*base.get("saves", []), stored]
        self.a.offer(operator, name, whole, saves=saves)
        if self.a.operators[operator.id].get("updates_state"):
            self.a.offer(operator, f"{name}-recompute", whole, saves=saves, recompute=True)

    def _read(self, reader: Operator, y: int, encoded: _Encoded) -> None:
        """The default implementation on the decoded copy; one implementation per reader and encoding."""
        entry = self.a.operators[reader.id]
        existing = next((i for i in entry["implementations"] if i["name"] == encoded.name), None)
        if existing is not None:
            inputs = existing.get("inputs", entry["inputs"])
            existing["inputs"] = sorted(encoded.tensor if tensor == y else tensor for tensor in inputs)
            existing["time"] += encoded.decode.time_ns
            existing["workspace_bytes"] = existing.get("workspace_bytes", 0) + encoded.workspace_bytes
            return
        inputs = [encoded.tensor if tensor == y else tensor for tensor in entry["inputs"]]
        cost = _sum(_cost_of(entry["implementations"][0]), encoded.decode, encoded.workspace_bytes)
        self.a.offer(reader, encoded.name, cost, inputs=inputs)


def _ssdc_of_relu(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return gist.ssdc_encode(torch.relu(x))


def _ssdc_parts(x: torch.Tensor) -> tuple[object, ...]:
    """What the decoder gets; half of a normal distribution is positive, as the sizes assume."""
    return (*_ssdc_of_relu(x), x.shape)


def _cost_of(entry: Implementation) -> Cost:
    return Cost(entry["time"], entry.get("workspace_bytes", 0), entry.get("spread"))


def _sum(base: Cost, extra: Cost, workspace: int) -> Cost:
    """One after the other, with a decoded copy in memory during the first."""
    spread = None if base.spread_ns is None else base.spread_ns + (extra.spread_ns or 0)
    return Cost(base.time_ns + extra.time_ns, max(base.workspace_bytes + workspace, extra.workspace_bytes), spread)
