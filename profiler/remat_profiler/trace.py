"""From a captured joint graph to the operators and storages of one training iteration.

`trace` keeps, for every operator, the node it came from, so that an executor can interpret the same
graph operator by operator. This file must not know of file formats or costs.

What is left out: dead code; views and tuple access (folded, see `aliasing`); the new values of
buffers (running statistics, counters) with operators that make nothing else; outputs that nobody
reads; *literals*, operators that read nothing and make at most 64 bytes (the gradient of the loss,
scalar constants), which are part of their readers; and *constants*, forward operators that depend on no
input and no parameter (attention masks, rotary embeddings), which are buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import getitem

import torch
from torch import fx

from .aliasing import Storages, Value, bound_arguments, read_operands, schema_name
from .capture import Capture, mark_of
from .errors import ProfilerError
from .naming import Namer

LITERAL_BYTES = 64
_NO_NODES = {getitem, torch.ops.aten.detach.default}
STATEFUL = {"aten::cudnn_batch_norm", "aten::miopen_batch_norm", "aten::native_batch_norm"}


@dataclass
class Storage:
    """One tensor of the instance."""

    id: int
    value: Value
    kind: str
    name: str = ""


@dataclass
class Operator:
    """One operator of the instance, and the node that it came from."""

    id: int
    node: fx.Node
    phase: str
    inputs: list[int]
    outputs: list[int]
    differentiates: int | None = None
    random: bool = False
    updates_state: bool = False
    name: str = ""
    module: str = ""


@dataclass
class TracedIteration:
    """Operators in the framework's order (ids count up along it), storages, fixed bytes."""

    capture: Capture
    storages: list[Storage]
    operators: list[Operator]
    parameter_bytes: int
    buffer_bytes: int
    literals: list[fx.Node] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def trace(capture: Capture) -> TracedIteration:
    """Assembles the iteration."""
    return _Assembly(capture).run()


def graph_size(capture: Capture) -> tuple[int, int]:
    """Nodes and values of the joint graph as FastSA counts them, before anything is folded.

    Nodes are live calls besides tuple access and `detach`; values are everything that they put out,
    used or not, and the parameters, buffers and inputs."""
    graph = capture.graph_module.graph
    needed = set(next(node for node in graph.nodes if node.op == "output").all_input_nodes)
    live = []
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
            if node.op == "call_function" and node.target not in _NO_NODES:
                live.append(node)
    outputs = sum(len(value) if isinstance(value := node.meta["val"], (list, tuple)) else 1 for node in live)
    return len(live), outputs + len(capture.parameters) + len(capture.buffers) + len(capture.inputs)


class _Assembly:
    """The working state of `trace`: one method per step, called once each, in order."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.graph = capture.graph_module.graph
        self.of = Storages(self.graph).of
        self.position = {node: index for index, node in enumerate(self.graph.nodes)}
        self.loss = self.of(capture.loss)
        self.gradients = {self.of(node): name for name, node in capture.gradients.items()}
        self.state = {value for node, _ in capture.new_state if (value := self.of(node)).index is not None}
        constants = [node for node in self.graph.nodes if node.op == "get_attr"]
        self.constant_bytes = sum(self._constant_nbytes(node) for node in constants)
        self.fixed = {Value(node) for node in [*capture.parameters, *capture.buffers, *constants]}
        self.fixed |= {Value(node) for node in capture.tangents} | self.state

    def run(self) -> TracedIteration:
        self._find_live()
        self._find_literals()
        self._find_constants()
        self._make_storages()
        self._make_operators()
        self._check_state()
        self._link_backward()
        Namer(self.capture).name(self.operators, self.storages, self.gradients)
        parameters = sum(Value(node).nbytes for node in self.capture.parameters)
        buffers = sum(Value(node).nbytes for node in self.capture.buffers)
        return TracedIteration(
            self.capture, self.storages, self.operators, parameters, buffers + self.constant_bytes,
            self.literals, [*self.capture.notes, *self._notes()],
        )

    def _notes(self) -> list[str]:
        if not self.constants:
            return []
        return [f"{self.constants} forward operators depend on no input and no parameter (masks, positions): "
                "what they make counts as buffers"]

    def _constant_nbytes(self, node: fx.Node) -> int:
        tensor = getattr(self.capture.graph_module, node.target)
        return tensor.untyped_storage().nbytes() if isinstance(tensor, torch.Tensor) else 0

    def _reads(self, node: fx.Node) -> list[Value]:
        """Values in storages of the instance that a node reads, each once."""
        values = dict.fromkeys(self.of(operand) for _, operand in read_operands(node))
        return [value for value in values if value not in self.fixed and value.node not in self.literal_set]

    literal_set: frozenset[fx.Node] = frozenset()

    def _find_live(self) -> None:
        """Nodes that the loss or a gradient needs, in graph order, and who reads each value."""
        needed = {self.loss.node} | {value.node for value in self.gradients}
        live = []
        self.readers: dict[Value, list[fx.Node]] = {}
        for node in reversed(list(self.graph.nodes)):
            if node in needed and node.op == "call_function":
                live.append(node)
                for value in self._reads(node):
                    needed.add(value.node)
                    self.readers.setdefault(value, []).append(node)
        self.live = live[::-1]

    def _find_literals(self) -> None:
        literals = [node for node in self.live if self._is_literal(node)]
        self.literals, self.literal_set = literals, frozenset(literals)
        self.live = [node for node in self.live if node not in self.literal_set]

    def _find_constants(self) -> None:
        """Forward operators that depend on no input and no parameter make the same in every iteration:
        what the others read of them is kept like a buffer."""
        written = {buffer for _, buffer in self.capture.new_state}
        known = {Value(node) for node in [*self.capture.buffers, *self.literals] if node not in written}
        known |= {Value(node) for node in self.graph.nodes if node.op == "get_attr"}
        last_forward = self.position[self.loss.node]
        constant = set()
        for node in self.live:
            read = {self.of(operand) for _, operand in read_operands(node)}
            if self.position[node] < last_forward and read <= known and not _is_random(node) and not _is_stateful(node):
                constant.add(node)
                known |= set(self._values_of(node))
        self.live = [node for node in self.live if node not in constant]
        kept = {value for node in self.live for value in self._reads(node) if value.node in constant}
        self.constant_bytes += sum(value.nbytes for value in kept)
        self.fixed |= known
        self.constants = len(constant)

    def _is_literal(self, node: fx.Node) -> bool:
        value = node.meta.get("val")
        return (
            not read_operands(node) and not _is_random(node)
            and isinstance(value, torch.Tensor) and Value(node).nbytes <= LITERAL_BYTES
        )

    def _make_storages(self) -> None:
        """Inputs first, then whatever a live operator makes and somebody wants."""
        last_forward = self.position[self.loss.node]
        self.forward = {node for node in self.live if self.position[node] <= last_forward}
        self.storages: list[Storage] = []
        self.id_of: dict[Value, int] = {}
        for node in self.capture.inputs:
            self._add_storage(Value(node), "input")
        for node in self.live:
            for value in self._values_of(node):
                if value in self.state:
                    continue
                if value in self.readers or value in self.gradients or value == self.loss:
                    self._add_storage(value, self._kind(value))

    def _values_of(self, node: fx.Node) -> list[Value]:
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            return [Value(node)]
        return [Value(node, index) for index, item in enumerate(value) if isinstance(item, torch.Tensor)]

    def _add_storage(self, value: Value, kind: str) -> None:
        self.id_of[value] = len(self.storages)
        self.storages.append(Storage(len(self.storages), value, kind))

    def _kind(self, value: Value) -> str:
        if value == self.loss:
            return "output"
        if value in self.gradients:
            return "param_gradient"
        if value.node not in self.forward:
            return "gradient"
        read_forward = any(reader in self.forward for reader in self.readers[value])
        return "activation" if read_forward else "saved"

    def _make_operators(self) -> None:
        self.operators: list[Operator] = []
        self.operator_of: dict[fx.Node, Operator] = {}
        for node in self.live:
            values = self._values_of(node)
            operator = Operator(
                id=len(self.operators), node=node, phase=self._phase(node),
                inputs=sorted(self.id_of[value] for value in self._reads(node)),
                outputs=[self.id_of[value] for value in values if value in self.id_of],
                random=_is_random(node),
                updates_state=any(v in self.state for v in values) or _is_stateful(node),
                module=str(mark_of(node).get("module", "")),
            )
            self.operators.append(operator)
            self.operator_of[node] = operator

    def _check_state(self) -> None:
        """New values of buffers come out of an operator beside its result, or of parameters and buffers alone."""
        plain = {*self.capture.parameters, *self.capture.buffers}
        for node in self.graph.nodes:
            if node.op == "get_attr" or node.op == "call_function" and plain.issuperset(node.all_input_nodes) and not _is_random(node):
                plain.add(node)
        read = {self.of(operand) for node in self.live if not _normalises_by_batch(node) for _, operand in read_operands(node)}
        for node, buffer in self.capture.new_state:
            value = self.of(node)
            beside = value.node in self.operator_of and value.index is not None
            if beside and not read.isdisjoint({Value(buffer), value}):
                raise ProfilerError(f"forward reads the buffer '{self.capture.buffers[buffer]}', which batch norm updates when the "
                                    "schedule runs it: read it between iterations")
            if not beside and node not in plain:
                raise ProfilerError(f"forward updates the buffer '{self.capture.buffers[buffer]}' from activations, which of all operators "
                                    "only batch norm may do (and only if the loss needs its result): update it between iterations")

    def _phase(self, node: fx.Node) -> str:
        if node not in self.forward:
            return "backward"
        return "forward" if mark_of(node).get("module") else "loss"

    def _link_backward(self) -> None:
        """A backward node carries the sequence number of the autograd function that made it, and
        that function's forward node carries the same; sums of gradients carry no mark at all."""
        made: dict[int, list[fx.Node]] = {}
        for node in self.graph.nodes:
            number = node.meta.get("seq_nr")
            if node.op == "call_function" and number is not None and self.position[node] <= self.position[self.loss.node]:
                made.setdefault(number, []).append(node)
        backward = [operator for operator in self.operators if operator.phase == "backward"]
        for operator in backward:
            mark = mark_of(operator.node)
            if mark:
                sequence = mark.get("grad_fn", operator.node.meta.get("seq_nr"))
                maker = self._maker(operator, sequence, made) if isinstance(sequence, int) else None
                operator.differentiates = None if maker is None else maker.id
        if backward and all(operator.differentiates is None for operator in backward):
            raise ProfilerError("this torch build leaves no marks that link backward to forward nodes")

    def _maker(self, operator: Operator, sequence: int, made: dict[int, list[fx.Node]]) -> Operator | None:
        """The first node of that number; it makes no operator if it is a view. In-place activations
        take one number for their autograd function and the next one for their node."""
        if sequence in made:
            return self.operator_of.get(made[sequence][0])
        candidates = (self.operator_of.get(node) for node in made.get(sequence + 1, []))
        kind = schema_name(operator.node)
        return next((c for c in candidates if c and kind.startswith(schema_name(c.node))), None)


def _is_random(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _normalises_by_batch(node: fx.Node) -> bool:
    """A batch norm in training: it reads running statistics for the new ones alone."""
    name, given = schema_name(node), {argument.name: value for argument, value in bound_arguments(node)}
    training = given.get("training", given.get("train", not name.endswith(("no_training", "no_update"))))
    return "batch_norm" in name and bool(training)


def _is_stateful(node: fx.Node) -> bool:
    """Batch norms that write their running statistics without saying so in the schema."""
    if schema_name(node) not in STATEFUL:
        return False
    training = dict(zip((a.name for a in node.target._schema.arguments), node.args)).get("training")
    return bool(training) and node.args[3] is not None
