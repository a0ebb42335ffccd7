"""Pointwise results that take the memory of an operand: the logits of a language model and their gradient are one buffer.

Inductor computes a pointwise operator over an operand of the same size that nobody reads afterwards. A plan that counts both
refuses budgets that `torch.compile` keeps without a plan. So the units between the first and the last of such a pair are one
operator of the instance (*parts*), within which the operand is overwritten: they run together, in their order, and again
together. That costs freedom, so only operands count that are large beside the whole peak, and pairs that do not raise it. Only loops and
products are between: a concatenation's parts are made when inductor likes, and then a result has no operand to lie over.

An operand that comes from the forward pass to a result of the backward pass is not within one operator. It is overwritten there
all the same, and a schedule that reads it afterwards is none (`Merged.reads_overwritten`). This file knows graphs and instances.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from remat_profiler.check import store_all
from remat_profiler.documents import Instance, Operator, Provenance, lasting

from .costs import PRODUCTS
from .graph import Joint, Tensor, Unit, is_pointwise, is_reduction, schema_name, storage_bytes, tensors_of
from .instance import Ids, label

# An operand counts that has at least this part of the peak; and so many units may be one operator.
_WORTH, _MOST = 32, 12


@dataclass(frozen=True)
class Pair:
    """A result that takes an operand's memory."""

    operand: Tensor
    result: Tensor


class Overwriting:
    """Pairs of a graph whose operand has at least so many bytes, the largest first."""

    def __init__(self, joint: Joint, least: int) -> None:
        self._joint = joint
        self._readers: dict[Tensor, list[int]] = {}
        for unit in joint.units:
            for tensor in unit.reads:
                self._readers.setdefault(tensor, []).append(unit.index)
        self._lasting = {*joint.kept_at_the_cut(), *joint.gradients()}
        found = filter(None, (self._pair(unit, max(least, 1)) for unit in joint.units))
        self.pairs = sorted(found, key=lambda pair: -storage_bytes(pair.operand))

    def joined(self, together: list[tuple[int, ...]], pair: Pair) -> list[tuple[int, ...]] | None:
        """Units that are planned together, with those of one more pair, each in the order in which they run; none where they cannot be."""
        apart, own = list[tuple[int, ...]](), self._between(pair)
        for other in together:
            if own.isdisjoint(other):
                apart.append(other)
            else:
                own.update(other)
        own = self._convex(own)
        units = [self._joint.units[index] for index in own]
        alike = len({unit.forward for unit in units}) == 1 and all(map(_is_plain, units))
        possible = alike and len(own) <= _MOST and all(own.isdisjoint(other) for other in apart)
        return [*apart, tuple(sorted(own))] if possible else None

    def _pair(self, unit: Unit, least: int) -> Pair | None:
        """What a unit's result may lie over: the first operand that ends there."""
        if not is_pointwise(unit.node) or len(unit.makes) != 1 or unit.makes[0] in self._lasting:
            return None
        result = unit.makes[0]
        for operand in unit.reads:
            maker = self._joint.maker.get(operand)
            if (maker is not None and len(maker.makes) == 1 and storage_bytes(operand) == storage_bytes(result) >= least
                    and operand not in self._lasting and self._readers[operand][-1] == unit.index
                    and self._is_read_where_written(unit, operand)):
                return Pair(operand, result)
        return None

    def _is_read_where_written(self, unit: Unit, operand: Tensor) -> bool:
        """Whether each element of the result is computed from the operand's element at the same place, and no other."""
        (made,), shown = tensors_of(unit.node), tensors_of(operand[0])[operand[1]]
        if made is None or shown is None or shown.dtype != made.dtype:
            return False
        for node in (unit.node, *unit.inlined):
            for source in node.all_input_nodes:
                if operand in self._joint.leaves(source):
                    read = source.meta["val"]
                    moved = read.stride() != made.stride() or read.storage_offset() != 0
                    if read.shape != made.shape or moved and operand[0] in self._joint.looked_at(source):
                        return False
        return True

    def _between(self, pair: Pair) -> set[int]:
        """Within a pass: from where the operand is made to where it ends. Else from there to where the result ends."""
        maker, writer = self._joint.maker[pair.operand], self._joint.maker[pair.result]
        if maker.forward == writer.forward:
            return {maker.index, *self._readers[pair.operand]}
        return {writer.index, *self._readers.get(pair.result, ())}

    def _convex(self, units: set[int]) -> set[int]:
        """With all that lies on a way from one of them to another."""
        after, needed = set(units), set(units)
        stretch = self._joint.units[min(units):max(units) + 1]
        for unit in stretch:
            if not after.isdisjoint(self._makers(unit)):
                after.add(unit.index)
        for unit in reversed(stretch):
            if unit.index in needed:
                needed.update(self._makers(unit))
        return after & needed

    def _makers(self, unit: Unit) -> list[int]:
        """Units that make what a unit reads."""
        return [maker.index for tensor in unit.reads if (maker := self._joint.maker.get(tensor)) is not None]


def _is_plain(unit: Unit) -> bool:
    """What inductor runs in the order that it is given: loops and products. The parts of a concatenation it may do early or late."""
    return is_pointwise(unit.node) or is_reduction(unit.node) or schema_name(unit.node).partition("::")[2] in PRODUCTS


@dataclass(frozen=True)
class Merged:
    """An instance in which several operators are one: which those are of each such (`parts`), in the order in which they run; and
    the operator that overwrites a tensor made elsewhere (`consumed`)."""

    instance: Instance
    parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    consumed: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(joint: Joint, instance: Instance) -> Merged:
        """By the pairs of a graph, each if it does not raise the peak of keeping everything."""
        merged, together, over = Merged(instance), list[tuple[int, ...]](), dict[int, int]()
        number, ids = {entry["name"]: entry["id"] for entry in instance["tensors"]}, Ids(joint)
        peak = store_all(instance).peak_bytes
        found = Overwriting(joint, peak // _WORTH)
        for pair in found.pairs:
            more = found.joined(together, pair)
            if more is None:
                continue
            now = over | {number[label(pair.result)]: number[label(pair.operand)]}
            tried = Merged._with(instance, {ids.of(units[-1]): tuple(map(ids.of, units)) for units in more}, now)
            if tried is not None and (needed := store_all(tried.instance).peak_bytes) <= peak:
                merged, together, over, peak = tried, more, now, needed
        return merged

    @staticmethod
    def _with(instance: Instance, parts: dict[int, tuple[int, ...]], over: dict[int, int]) -> Merged | None:
        """Nothing where an operator would be before another, and after it."""
        operators = _merged(instance, parts, over)
        if len(operators) != len(instance["operators"]) - sum(len(part) - 1 for part in parts.values()):
            return None
        made = {tensor for entry in operators for tensor in entry["outputs"]}
        within = {tensor for entry in instance["operators"] for tensor in entry["outputs"]} - made
        whole = {part: operator for operator, members in parts.items() for part in members}
        maker = {tensor: entry["id"] for entry in instance["operators"] for tensor in entry["outputs"]}
        consumed = {operand: whole[maker[result]] for result, operand in over.items() if operand in made}
        tensors = [entry for entry in instance["tensors"] if entry["id"] not in within]
        note = f"{sum(map(len, parts.values()))} units are {len(parts)} operators, within which results take their operands' memory"
        provenance: Provenance = {**instance["provenance"], "notes": [*instance["provenance"].get("notes", ()), note]}
        order = [entry["id"] for entry in operators]
        return Merged({**instance, "provenance": provenance, "tensors": tensors, "operators": operators, "order": order}, parts, consumed)

    def reads_overwritten(self, order: Iterable[int]) -> bool:
        """Whether a schedule reads a tensor after the operator that overwrites it."""
        entries, gone = {entry["id"]: entry for entry in self.instance["operators"]}, set[int]()
        for operator in order:
            if not gone.isdisjoint(entries[operator]["inputs"]):
                return True
            gone.difference_update(entries[operator]["outputs"])
            gone.update(tensor for tensor, by in self.consumed.items() if by == operator)
        return False


def _merged(instance: Instance, parts: dict[int, tuple[int, ...]], over: dict[int, int]) -> list[Operator]:
    """Operators in an order; those of a cycle are missing. `over` has tensors that lie over another one."""
    operators = {entry["id"]: entry for entry in instance["operators"]}
    inner = {member for members in parts.values() for member in members[:-1]}
    readers = Counter(tensor for entry in operators.values() for tensor in set(entry["inputs"]))
    size = {entry["id"]: entry["bytes"] for entry in instance["tensors"]}
    one = _One(readers, lasting(instance), size, over)
    return _in_order([one.of([operators[member] for member in parts[operator]]) if operator in parts else operators[operator]
                      for operator in instance["order"] if operator not in inner])


@dataclass(frozen=True)
class _One:
    """Makes several operators one. `readers`: how many operators read a tensor; `lasting` tensors are nobody's own."""

    readers: Counter[int]
    lasting: set[int]
    size: dict[int, int]
    over: dict[int, int]

    def of(self, members: list[Operator]) -> Operator:
        """With as much workspace as what is within it takes, beyond what it reads and gives."""
        size = self.size
        made = [tensor for entry in members for tensor in entry["outputs"]]
        left = Counter(tensor for entry in members for tensor in set(entry["inputs"]))
        gives = [tensor for tensor in made if left[tensor] < self.readers[tensor] or tensor in self.lasting]
        reads = sorted(left.keys() - set(made))
        kept = {self._place(tensor) for tensor in (*reads, *gives)}
        there, most = {self._place(tensor): size[tensor] for tensor in reads}, 0
        for entry in members:
            there |= {self._place(tensor): size[tensor] for tensor in entry["outputs"]}
            most = max(most, sum(there.values()) + entry["implementations"][0]["workspace_bytes"])
            left.subtract(set(entry["inputs"]))
            alive = kept | {self._place(tensor) for tensor in made if left[tensor] > 0}
            there = {place: bytes for place, bytes in there.items() if place in alive}
        counted = sum(size[tensor] for tensor in (*reads, *gives))
        return {**members[-1], "inputs": reads, "outputs": gives, "recomputable": all(entry["recomputable"] for entry in members),
                "implementations": [{"name": "default", "time": sum(entry["implementations"][0]["time"] for entry in members),
                                     "workspace_bytes": max(0, most - counted)}]}

    def _place(self, tensor: int) -> int:
        while tensor in self.over:
            tensor = self.over[tensor]
        return tensor


def _in_order(entries: list[Operator]) -> list[Operator]:
    """As they come, but after what they read; without those of a cycle."""
    maker = {tensor: at for at, entry in enumerate(entries) for tensor in entry["outputs"]}
    waits = [{maker[tensor] for tensor in entry["inputs"] if tensor in maker} for entry in entries]
    following: dict[int, list[int]] = {}
    for at, needed in enumerate(waits):
        for other in needed:
            following.setdefault(other, []).append(at)
    ready, order = [at for at, needed in enumerate(waits) if not needed], list[Operator]()
    while ready:
        at = heapq.heappop(ready)
        order.append(entries[at])
        for other in following.get(at, ()):
            waits[other].discard(at)
            if not waits[other]:
                heapq.heappush(ready, other)
    return order
