"""From a plan to the two graphs that the compiler compiles.

*schedule*: the joint graph is unrolled in the order of the plan, every repetition a node of its own, free nodes made
anew where they are read; what is computed before the cut and read after it is saved. Any schedule can be applied.
*sets*: forward values that the plan keeps at the cut are tagged to be saved and all others to be recomputed, and
PyTorch's own min-cut partitioner does the rest. Uses one private function of PyTorch,
`_extract_fwd_bwd_modules`, whose callers in 2.9, 2.11 and 2.15 look the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch import partitioners
from torch.utils.checkpoint import CheckpointPolicy

from . import made
from .graph import (
    BATCH_NORM,
    BATCH_NORM_BACKWARD,
    Joint,
    is_call,
    is_mutation,
    is_symbolic,
    is_view,
    read_early,
    reads_of_overwritten,
    schema_name,
    storage_bytes,
)
from .room import Room

aten = torch.ops.aten
Graphs = tuple[fx.GraphModule, fx.GraphModule]
# Units in the order in which they run, those of one step together.
Order = Sequence[Sequence[int]]
# Outputs of a batch norm that are no new running statistics.
_REPEATED_OUTPUTS = 3
# Where a node of a planned graph says at which step it is computed.
_MARK = "rematplan"
# Where PyTorch's partitioner looks what to do with a node.
_TAG = "recompute"
# What an output node says of each of its values.
_OF_EACH_OUTPUT = {"desc", "output_stack_traces"}


def step_of(node: fx.Node) -> tuple[Room, int] | None:
    """The step that computes a node of a planned graph, and the plan's room."""
    return node.meta.get(_MARK)


def may_be_early(cat: fx.Node, step: int, joint: Joint, room: Room, steps: Mapping[fx.Node, int]) -> bool:
    """Whether all of a concatenation may be there from its first part on, and as long as any of them; not where both are one step,
    whose memory is counted as if they came one after the other. `steps` are those of the newest copy of each unit."""
    parts = {list(joint.looked_at(operand))[-1] for operand in cat.all_input_nodes} & steps.keys()
    begun = {steps[part] for part in parts}
    return (step not in begun and all(len(part.users) == 1 for part in parts)
            and room.take(min(begun, default=step), step - 1, storage_bytes((cat, 0))))


class Unrolled:
    """A joint graph in the order of a plan. `early` are the nodes before the cut. What a unit computes is marked with its step
    and the room that the plan leaves there (`step_of`)."""

    def __init__(self, joint: Joint, before: Order, after: Order, room: Room) -> None:
        self.joint, self.room = joint, room
        self.graph = fx.Graph(joint.module)
        self._copy: dict[fx.Node, fx.Node] = {}
        # The step of the newest copy of each unit, and the step that runs.
        self._steps: dict[fx.Node, int] = {}
        self._step = 0
        for node in joint.nodes:
            if node.op in ("placeholder", "get_attr"):
                self._emit(node)
        self._run(before)
        self._step += 1  # the cut
        first = self._values(joint.outputs[: joint.forward_outputs], joint, 0)
        for node in joint.mutations:
            for source in node.all_input_nodes:
                self._value(source)
            self._emit(node)
        self.early = set(self.graph.nodes)
        self._forget()
        self._run(after)
        rest = self._values(joint.outputs[joint.forward_outputs :], joint, joint.forward_outputs)
        self._hold_products()
        end = joint.graph.output_node()
        self.graph.output((*first, *rest)).meta.update(end.meta)
        self.graph.lint()
        self.module = fx.GraphModule(joint.module, self.graph)

    def _run(self, order: Order) -> None:
        for units in order:
            for index in units:
                self._run_unit(self.joint.units[index].node)
            self._step += 1

    def _run_unit(self, node: fx.Node) -> None:
        self._forget()
        for source in node.all_input_nodes:
            self._value(source)
        copy = self._emit(node)
        copy.meta[_MARK] = (self.room, self._step)
        for user in node.users:  # tuples may not cross the cut: they are taken apart at once
            if user.target is operator.getitem and not self._is_gone(copy, user):
                self._emit(user)
                self._make(user)
        self._make(node)
        self._steps[node] = self._step

    def _make(self, node: fx.Node) -> None:
        """A tensor of the plan is one of the compiler, too."""
        if self.joint.fuse and isinstance(node.meta.get("val"), torch.Tensor) and made.may_be_inlined(node):
            self._copy[node] = made.emit(self.graph, self._copy[node])
            self._copy[node].meta[_MARK] = (self.room, self._step)

    def _hold_products(self) -> None:
        """A product that is added to something steps later is made where it stands: inductor would make it with the sum, and keep
        its factors until then (the gradient of logits, for an embedding that is the last layer's weight, too)."""
        for node in list(self.graph.nodes) if self.joint.fuse else ():
            made_at, users = step_of(node), list(node.users)
            if node.target is aten.mm.default and made_at is not None and [user.target for user in users] == [aten.add.Tensor] and (
                    min(self._computed_at(users[0]), default=0) > made_at[1] + 1):
                with self.graph.inserting_after(node):
                    held = made.emit(self.graph, node)
                held.meta[_MARK] = made_at
                users[0].replace_input_with(node, held)

    def _computed_at(self, node: fx.Node) -> Iterator[int]:
        """The steps that compute a node: its own, or those of its readers, which take it in."""
        mark = step_of(node)
        if mark is not None:
            yield mark[1]
        else:
            for user in node.users:
                yield from self._computed_at(user)

    def _is_gone(self, copy: fx.Node, user: fx.Node) -> bool:
        """New running statistics, which a repeated batch norm does not make."""
        index = user.args[1]
        return copy.target is aten._native_batch_norm_legit.no_stats and isinstance(index, int) and index >= _REPEATED_OUTPUTS

    def _emit(self, node: fx.Node) -> fx.Node:
        again = node in self._copy
        copy = self.graph.node_copy(node, lambda source: self._copy[source])
        copy.meta = dict(node.meta)
        name = schema_name(node) if is_call(node) else ""
        if name == BATCH_NORM_BACKWARD and node.args[7]:  # of training: the statistics are not read
            copy.args = (*copy.args[:3], None, None, *copy.args[5:])
        if name == BATCH_NORM and again:
            # The running statistics have moved on meanwhile, and must not move again: the same result without them.
            x, weight, bias, _, _, training, momentum, epsilon = copy.args
            copy.target, copy.args = aten._native_batch_norm_legit.no_stats, (x, weight, bias, training, momentum, epsilon)
            copy.meta["val"] = node.meta["val"][:_REPEATED_OUTPUTS]
        if self.joint.fuse and copy.target is aten.cat.default and not may_be_early(node, self._step, self.joint, self.room, self._steps):
            copy.target = torch.ops.rematplan.joined.default
        if self.joint.fuse and copy.target is aten.convolution_backward.default:
            # What it reads beside others inductor would copy into the layout of the traced graph, and back for each of them.
            with self.graph.inserting_before(copy):
                copy.args = (*(made.emit(self.graph, read) for read in copy.args[:2]), *copy.args[2:])
        self._copy[node] = copy
        return copy

    def _forget(self) -> None:
        """What is free is made anew for every run of a unit: two readers of one copy are a reason for the compiler to keep it."""
        for node in [node for node in self._copy if node in self.joint.free and not is_symbolic(node) and not self._is_output(node)]:
            del self._copy[node]

    def _value(self, node: fx.Node) -> fx.Node:
        """The newest copy."""
        if node not in self._copy:
            for source in node.all_input_nodes:
                self._value(source)
            self._emit(node)
        return self._copy[node]

    def _is_output(self, node: fx.Node) -> bool:
        """One of several outputs of a unit, which comes and stays with it."""
        return node.target is operator.getitem and node.args[0] not in self.joint.free

    def _values(self, nodes: Iterable[fx.Node | None], joint: Joint, offset: int) -> list[Any]:
        raw = joint.graph.output_node().args[0]
        assert isinstance(raw, Sequence)
        return [raw[offset + i] if node is None else self._value(node) for i, node in enumerate(nodes)]

    def saved(self) -> list[fx.Node]:
        """What is made before the cut and read behind it."""
        outputs = self.graph.output_node().args[0]
        assert isinstance(outputs, Sequence)
        gradients = {node for node in outputs[self.joint.forward_outputs :] if isinstance(node, fx.Node)}
        return [node for node in self.graph.nodes
                if node in self.early and "tangents" not in node.name and node.op != "get_attr"
                and (node in gradients or any(user not in self.early and user.op != "output" for user in node.users))]


def scheduled(joint: Joint, before: Order, after: Order, room: Room) -> Graphs:
    """The two graphs of a schedule, whose steps leave this room."""
    unrolled = Unrolled(joint, before, after, room)
    saved = unrolled.saved()
    static_names = {node.name for node in joint.static}
    static = partitioners.OrderedSet(
        n for n in unrolled.graph.nodes if n.op == "placeholder" and n.name in static_names)
    return partitioners._extract_fwd_bwd_modules(
        unrolled.module, [node for node in saved if not is_symbolic(node)],
        saved_sym_nodes=[node for node in saved if is_symbolic(node)],
        num_fwd_outputs=joint.forward_outputs, static_lifetime_input_nodes=static)


def tagged(joint: Joint, before: Sequence[int], after: Sequence[int], room: Room, stock: Callable[[], Graphs]) -> Graphs:
    """The two graphs of a set: what the plan keeps at the cut is saved, the rest of the forward pass runs again where it is read."""
    untouched = [(node, node.target, node.meta.get(_TAG)) for node in joint.nodes]
    _tag(joint, before, after, room)
    try:
        return stock()
    except Exception:  # what comes next is PyTorch's partitioner without a plan
        for node, target, tag in untouched:
            node.target = target
            node.meta.pop(_TAG, None)
            if tag is not None:
                node.meta[_TAG] = tag
        raise


def _tag(joint: Joint, before: Sequence[int], after: Sequence[int], room: Room) -> None:
    """Tells PyTorch's partitioner what the plan saves."""
    kept = {joint.units[index].node for index in kept_at_the_cut(joint, before, after)}
    steps: dict[fx.Node, int] = {}
    for step, index in enumerate((*before, None, *after)):
        node = joint.units[index].node if index is not None else None
        if node is not None:
            if joint.fuse and node.target is aten.cat.default and not may_be_early(node, step, joint, room, steps):
                node.target = torch.ops.rematplan.joined.default
            steps[node] = step
    for node in joint.nodes:
        # One of several outputs that the backward pass alone reads may have a tag of the user's checkpoints.
        of_forward = node in joint.forward_nodes or node.target is operator.getitem and node.args[0] in joint.forward_nodes
        if of_forward and is_call(node) and not is_symbolic(node) and not is_mutation(node):
            source = node.args[0] if node.target is operator.getitem else node
            saved = source in kept and not (is_view(node) and node.target is not operator.getitem)
            node.meta[_TAG] = CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.MUST_RECOMPUTE


def min_cut(module: fx.GraphModule, forward_outputs: int, partition: Callable[[fx.GraphModule, int], Graphs]) -> Graphs:
    """The two graphs by PyTorch's partitioner, which is told to save what is computed of an input that is written to: it would
    compute it anew, from the new value. What the backward pass alone reads of that it would compute there whatever it is told, so
    that this is a result of the forward pass until the graphs are there."""
    for node in reads_of_overwritten(module.graph):
        node.meta[_TAG] = CheckpointPolicy.MUST_SAVE
    early = read_early(module.graph, forward_outputs)
    if not early:
        return partition(module, forward_outputs)
    longer, until = _with_outputs(module, forward_outputs, early), forward_outputs + len(early)
    forward, backward = partition(longer, until)
    end = forward.graph.output_node()
    end.args = (_without(end.args[0], forward_outputs, until),)
    for name in _OF_EACH_OUTPUT & end.meta.keys():
        end.meta[name] = _without(end.meta[name], forward_outputs, until)
    forward.recompile()
    return forward, backward


def _with_outputs(module: fx.GraphModule, at: int, more: Sequence[fx.Node]) -> fx.GraphModule:
    """A copy with these outputs besides, from that place on."""
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    outputs, meta = graph.graph_copy(module.graph, copies), dict(module.graph.output_node().meta)
    assert isinstance(outputs, Sequence)
    for name in _OF_EACH_OUTPUT & meta.keys():
        meta[name] = [*meta[name][:at], *(None for _ in more), *meta[name][at:]]
    graph.output((*outputs[:at], *(copies[node] for node in more), *outputs[at:])).meta.update(meta)
    return fx.GraphModule(module, graph)


def _without(values: Sequence[Any], begin: int, end: int) -> tuple[Any, ...]:
    return (*values[:begin], *values[end:])


def kept_at_the_cut(joint: Joint, before: Sequence[int], after: Sequence[int]) -> set[int]:
    """Units of which the backward pass reads something made before the cut."""
    made_again: set[int] = set()
    kept: set[int] = set()
    for index in after:
        for tensor in joint.units[index].reads:
            maker = joint.maker.get(tensor)
            if maker is not None and maker.index not in made_again and maker.index in set(before):
                kept.add(maker.index)
        made_again.add(index)
    for tensor in joint.gradients():
        maker = joint.maker.get(tensor)
        if maker is not None and maker.forward and maker.index not in made_again:
            kept.add(maker.index)
    return kept


def order_of_set(joint: Joint, keep: set[int]) -> tuple[list[int], list[int]]:
    """The schedule that a set means: what is not kept runs again when the backward pass first reads it."""
    forward = [unit.index for unit in joint.units if unit.forward]
    have, after = keep | {unit.index for unit in joint.units if unit.forward and not unit.repeatable}, []
    for unit in joint.units:
        if unit.forward:
            continue
        missing: set[int] = set()
        todo = [unit.index]
        while todo:
            for tensor in joint.units[todo.pop()].reads:
                maker = joint.maker.get(tensor)
                if maker is not None and maker.forward and maker.index not in have and maker.index not in missing:
                    missing.add(maker.index)
                    todo.append(maker.index)
        after += [*sorted(missing), unit.index]
        have |= missing | {unit.index}
    return forward, after
