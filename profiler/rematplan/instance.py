"""A joint graph as an instance of `bench` (FORMAT.md): units are operators, leaves are tensors.

The end of the forward pass is an operator, too: it reads what must be there then (outputs, new values of buffers, what the
backward pass reads of the old ones), and makes the tangents, from which the gradients are computed. So a schedule cuts itself
into the two passes, and a method that knows nothing of passes keeps them apart. Parameters and buffers are fixed bytes; other
inputs stay resident, since the caller holds them. So do outputs, which are made once: freed and made again, they would still
be there. (A batch norm, whose new statistics are outputs beside its result, may run again.) Tangents are freed after their
last use, as compiled graphs free them.

Operators that draw random numbers, or of which nothing is known, keep the order of the graph, or they would draw other numbers.
So each of them makes a tensor of no bytes that the next one reads. The end of the forward pass is one of them.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from remat_profiler.documents import INSTANCE_FORMAT, VERSION, Instance, Origin, Phase, TensorKind
from remat_profiler.documents import Operator as OperatorEntry
from remat_profiler.documents import Tensor as TensorEntry

from .costs import Costs, Workspaces, handed_out
from .graph import Joint, Tensor, hint, keeps_its_place, schema_name, storage_bytes

CUT = "end of the forward pass"


class Ids:
    """Which operator of the instance is which unit; the cut has an id of its own, after the forward pass."""

    def __init__(self, joint: Joint) -> None:
        self.cut = sum(unit.forward for unit in joint.units)

    def of(self, unit: int) -> int:
        """The operator of a unit."""
        return unit if unit < self.cut else unit + 1

    def unit(self, operator: int) -> int | None:
        """The unit of an operator; None for the cut."""
        return None if operator == self.cut else operator - (operator > self.cut)


def label(tensor: Tensor) -> str:
    """The name of a tensor in an instance."""
    return tensor[0].name + (f".{tensor[1]}" if tensor[1] else "")


def document(joint: Joint, costs: Costs, name: str, workspaces: Workspaces | None = None, always: int = 0) -> Instance:
    """The instance file, as a JSON object; without `workspaces` operators take none. `always` more bytes are there all the time.
    Tensors are as large as what the allocator of the workspaces' device hands out for them."""
    ids = Ids(joint)
    static = set(joint.static)
    device = "cpu" if workspaces is None else workspaces.device.type
    numbers: dict[Tensor, int] = {}
    entries: list[TensorEntry] = []

    def add(tensor: Tensor, kind: TensorKind) -> None:
        numbers[tensor] = len(entries)
        entries.append({"id": len(entries), "name": label(tensor), "bytes": handed_out(storage_bytes(tensor), device), "kind": kind})

    for node in joint.primals:
        if node not in static and isinstance(node.meta.get("val"), torch.Tensor):
            add((node, 0), "input")
    for node in joint.tangents:
        add((node, 0), "gradient")
    kinds = _Kinds(joint)
    for unit in joint.units:
        for tensor in unit.makes:
            add(tensor, kinds.of(tensor, unit.forward))
    operators: list[OperatorEntry] = []

    def operator(id: int, name: str, kind: str, phase: Phase, reads: tuple[Tensor, ...], makes: tuple[Tensor, ...],
                 recomputable: bool, time: int, workspace: int = 0) -> None:
        operators.append({
            "id": id, "name": name, "op_type": kind, "phase": phase,
            "inputs": sorted(numbers[t] for t in reads if t in numbers), "outputs": [numbers[t] for t in makes],
            "recomputable": recomputable, "implementations": [{"name": "default", "time": time, "workspace_bytes": workspace}],
        })

    def cut() -> None:
        operator(ids.cut, CUT, "cut", "backward", joint.kept_at_the_cut(), tuple((n, 0) for n in joint.tangents), False, 0)

    for unit in joint.units:
        if unit.index == ids.cut:
            cut()
        again = unit.repeatable and not kinds.outputs.issuperset(unit.makes)
        operator(ids.of(unit.index), unit.name, str(unit.node.target), "forward" if unit.forward else "backward",
                 unit.reads, unit.makes, again, costs.time(unit), workspaces.bytes(unit) if workspaces else 0)
    if ids.cut == len(joint.units):
        cut()
    _chain(entries, operators, [ids.of(unit.index) for unit in joint.units if keeps_its_place(unit.node)], ids.cut)
    measured: Origin = {"kind": "measured", "samples": 1, "statistic": "peak"}
    if workspaces is None:
        measured = {"kind": "generated", "generator": "none are counted"}
    origin: Origin = {"kind": "modelled", "model": costs.name}
    return {
        "format": INSTANCE_FORMAT, "version": VERSION, "name": name,
        "provenance": {
            "model": "graph of torch.compile", "batch_size": 1, "framework": {"name": "pytorch", "version": torch.__version__},
            "sizes": {"kind": "exact"}, "times": origin, "workspaces": measured,
            "notes": ["units of pointwise operators that a compiler fuses; what a unit computes on the way is not materialised"],
        },
        "fixed_bytes": {"parameters": _static_bytes(joint.static), "workspace": always},
        "tensors": entries, "operators": operators, "order": [entry["id"] for entry in operators],
    }


def _chain(tensors: list[TensorEntry], operators: list[OperatorEntry], placed: list[int], cut: int) -> None:
    """Has each of these operators, with the cut among them, read a tensor of no bytes that the one before it makes."""
    links = sorted({*placed, cut}) if placed else []
    for earlier, later in zip(links, links[1:]):
        number = len(tensors)
        # No node has such a name.
        tensors.append({"id": number, "name": f"order after {operators[earlier]['name']}", "bytes": 0,
                        "kind": "activation" if earlier < cut else "gradient"})
        operators[earlier]["outputs"] = [*operators[earlier]["outputs"], number]
        operators[later]["inputs"] = [*operators[later]["inputs"], number]


def layout_copies(joint: Joint) -> int:
    """Bytes of the copies that inductor makes where it turns convolutions (of two dimensions) channels-last, all of which count
    all the time: of their weights (before the first operator, kept for the backward pass), of the inputs of the graph that
    they read, and of one gradient of a weight, which is turned back. Weights of one pixel or one channel are as they were."""
    convolutions = [unit for unit in joint.units if schema_name(unit.node) == "aten::convolution" and unit.node.meta["val"].dim() == 4]
    weights = {weight for unit in convolutions
               if isinstance(weight := unit.node.args[1], fx.Node) and weight in joint.static and _is_turned(weight.meta["val"])}
    images = {tensor for unit in convolutions for tensor in unit.reads if tensor[0] in joint.primals and tensor[0] not in joint.static}
    sizes = [storage_bytes((weight, 0)) for weight in weights]
    return sum(sizes) + max(sizes, default=0) + sum(map(storage_bytes, images))


def _is_turned(weight: torch.Tensor) -> bool:
    channels, pixels = hint(weight.shape[1]), math.prod(hint(size) for size in weight.shape[2:])
    return channels > 1 and pixels > 1


def _static_bytes(nodes: list[fx.Node]) -> int:
    return sum(storage_bytes((node, 0)) for node in nodes if isinstance(node.meta.get("val"), torch.Tensor))


class _Kinds:
    """Kinds of tensors by who needs them."""

    def __init__(self, joint: Joint) -> None:
        self.outputs = set(joint.kept_at_the_cut()) & {
            leaf for node in joint.outputs[: joint.forward_outputs] if node is not None for leaf in joint.leaves(node)}
        self.gradients = set(joint.gradients())
        self.read_forward = {tensor for unit in joint.units if unit.forward for tensor in unit.reads}

    def of(self, tensor: Tensor, forward: bool) -> TensorKind:
        if tensor in self.outputs:
            return "output"
        if tensor in self.gradients:
            return "param_gradient"
        if not forward:
            return "gradient"
        return "activation" if tensor in self.read_forward else "saved"
