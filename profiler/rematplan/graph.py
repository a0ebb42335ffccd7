"""What a planner sees of the graph that a partitioner is given: units, and the tensors that they read and make.

A *unit* is what a schedule runs: one operator, or a chain of pointwise operators that a compiler fuses. Nodes that
are no unit are *free*: views, tuple access, arithmetic of sizes, constants, and pointwise operators that their
readers take in. Free nodes are made anew wherever they are read, so they occupy nothing. A *tensor* is one output of
a unit, or an input of the graph; `leaves` says which ones a node reads through free nodes.

Which pointwise values are tensors (`fuse`): those that leave the graph, those that an operator reads which is neither
pointwise nor a reduction, those that the backward pass reads of an input which the forward pass overwrites, those with
several readers that are computed from several large tensors, those narrower than what they are computed from if the other
pass reads them, and tables of costly functions (the cosines of rotary embeddings) that are read many times over. This file
knows fx graphs and ATen's schemas, and must not know of instances, costs or schedules.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from .errors import Refused

aten = torch.ops.aten
# One output of a node; 0 where it has only one.
Tensor = tuple[fx.Node, int]

_REDUCTIONS = {"sum", "mean", "amax", "amin", "var_mean", "var", "prod", "any", "all", "max", "min", "argmax", "argmin"}
_POINTWISE = {"prims::convert_element_type", "aten::_to_copy", "aten::where", "aten::clone", "aten::copy",
              "prims::inductor_lookup_seed", "prims::inductor_random", "prims::inductor_randint",
              "prims::iota", "aten::full", "aten::full_like", "aten::zeros_like", "aten::ones_like",
              "aten::scalar_tensor", "aten::arange", "aten::zeros", "aten::ones", "aten::tril", "aten::triu"}
# Functions that cost more than a look at their value, and how many looks at each are worth a tensor.
_COSTLY = {"sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "exp", "exp2", "expm1",
           "log", "log2", "log10", "log1p", "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid", "pow"}
_LOOKS = 4
# Whose operators do the same whenever they are run, but for those that say otherwise. Nothing is known of operators of the user's own.
_PURE = {"aten", "prims", "rematplan"}
_COLLECTIVES = ("_c10d_functional", "c10d_functional", "c10d", "fsdp")
BATCH_NORM = "aten::_native_batch_norm_legit_functional"
BATCH_NORM_BACKWARD = "aten::native_batch_norm_backward"


def schema_name(node: fx.Node) -> str:
    """`aten::mm`; the target's own name where it is no ATen operator."""
    target = node.target
    return target._schema.name if isinstance(target, torch._ops.OpOverload) else str(target)


def is_call(node: fx.Node) -> bool:
    """Whether it computes anything."""
    return node.op == "call_function"


def is_symbolic(node: fx.Node) -> bool:
    """Sizes of dynamic shapes, and arithmetic of them."""
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))


def is_view(node: fx.Node) -> bool:
    """Whether all that it gives shares the storage of its operand."""
    if node.target is aten._unsafe_view.default:
        return True
    returns = node.target._schema.returns if isinstance(node.target, torch._ops.OpOverload) else ()
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def is_pure(node: fx.Node) -> bool:
    """Whether a second run is known to come to the same, if it is not random."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in _PURE


def is_random(node: fx.Node) -> bool:
    """Whether it moves a generator: a second run would draw other numbers. Attention does so for its dropout only."""
    drawing = isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
    return drawing and _dropped(node) != 0


def _dropped(node: fx.Node) -> object:
    """The share of weights that attention drops; None of what is no attention."""
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.name == "dropout_p":
            return node.args[index] if index < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
    return None


def keeps_its_place(node: fx.Node) -> bool:
    """Whether it must run in the graph's order among others of which this is said: each would draw the numbers of another."""
    return is_random(node) or not is_pure(node)


def is_mutation(node: fx.Node) -> bool:
    """Whether it writes to an operand."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def reads_of_overwritten(graph: fx.Graph) -> Iterator[fx.Node]:
    """What is computed of an input that is written to, through views of it: it must run before the writes."""
    written = {node.args[0] for node in graph.nodes if is_call(node) and is_mutation(node)}
    for node in graph.nodes:
        if is_call(node) and not is_mutation(node) and not is_symbolic(node) and not written.isdisjoint(node.all_input_nodes):
            if is_view(node) or node.target is operator.getitem:
                written.add(node)
            else:
                yield node


def ancestors(nodes: Collection[fx.Node], roots: Iterable[fx.Node | None]) -> set[fx.Node]:
    """The roots, and all that they are computed from; `nodes` are those of the graph."""
    needed = {node for node in roots if node is not None}
    for node in reversed(list(nodes)):
        if node in needed:
            needed.update(node.all_input_nodes)
    return needed


def descendants(nodes: Iterable[fx.Node], roots: Iterable[fx.Node]) -> set[fx.Node]:
    """All that is computed from the roots, without them."""
    given = set(roots)
    found = set(given)
    for node in nodes:
        if node.op != "output" and any(source in found for source in node.all_input_nodes):
            found.add(node)
    return found - given


def is_tangent(node: fx.Node) -> bool:
    """Whether it is a gradient that the backward pass is given."""
    return node.op == "placeholder" and "tangents" in node.name


def read_early(graph: fx.Graph, forward_outputs: int) -> list[fx.Node]:
    """What the backward pass alone reads of an input that is overwritten: computed there, it would be of the new value."""
    outputs = graph.output_node().args[0]
    assert isinstance(outputs, Sequence)
    first = [node for node in outputs[:forward_outputs] if isinstance(node, fx.Node)]
    needed = ancestors(graph.nodes, [*first, *(node for node in graph.nodes if is_call(node) and is_mutation(node))])
    late = descendants(graph.nodes, filter(is_tangent, graph.nodes))
    behind = ancestors(graph.nodes, graph.output_node().all_input_nodes) - needed - late
    return [node for node in reads_of_overwritten(graph) if node in behind]


def is_pointwise(node: fx.Node) -> bool:
    """Whether a compiler can compute it where it is read."""
    if not is_pure(node) or is_random(node) or is_mutation(node):
        return False
    name = schema_name(node)
    return name in _POINTWISE or torch.Tag.pointwise in node.target.tags


def is_reduction(node: fx.Node) -> bool:
    """Whether a compiler fuses what it reads into it."""
    return schema_name(node).partition("::")[2] in _REDUCTIONS


def hint(size: int | torch.SymInt) -> int:
    """A size as a number: that of the example input where it is symbolic; nothing is learnt about the symbol."""
    if isinstance(size, int):
        return size
    value = size.node.hint
    return int(value) if value is not None else 1


def _count(tensor: torch.Tensor) -> int:
    """Of its elements."""
    return math.prod(map(hint, tensor.shape))


def dense_bytes(tensor: torch.Tensor) -> int:
    """Bytes of its elements, each once."""
    return _count(tensor) * tensor.element_size()


def _elements(node: fx.Node) -> int:
    """Of all that a node makes."""
    return sum(_count(made) for made in tensors_of(node) if made is not None)


def tensors_of(node: fx.Node) -> list[torch.Tensor | None]:
    """What a node makes, by position; None for what is no tensor."""
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return [item if isinstance(item, torch.Tensor) else None for item in values]


def storage_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor's storage."""
    made = tensors_of(tensor[0])[tensor[1]]
    if made is None:
        return 0
    extent = made.element_size() * (1 + sum((hint(size) - 1) * hint(stride) for size, stride in zip(made.shape, made.stride())))
    return max(dense_bytes(made), extent) if dense_bytes(made) else 0


@dataclass
class Unit:
    """One operator of a plan. `inlined` are the free pointwise nodes that it computes on the way."""

    index: int
    node: fx.Node
    forward: bool
    reads: tuple[Tensor, ...]
    makes: tuple[Tensor, ...]
    inlined: tuple[fx.Node, ...]
    repeatable: bool

    @property
    def name(self) -> str:
        """The node's."""
        return self.node.name


class Joint:
    """A joint graph, analysed. `static` are positions of inputs that outlive the iteration (parameters, buffers)."""

    def __init__(self, module: fx.GraphModule, forward_outputs: int, static: Iterable[int], *, fuse: bool = True,
                 repeat_batch_norm: bool = True) -> None:
        self.module, self.graph, self.forward_outputs, self.fuse = module, module.graph, forward_outputs, fuse
        self.repeat_batch_norm = repeat_batch_norm
        self.nodes = list(self.graph.nodes)
        self.position = {node: index for index, node in enumerate(self.nodes)}
        placeholders = [node for node in self.nodes if node.op == "placeholder"]
        self.tangents = [node for node in placeholders if is_tangent(node)]
        self.primals = [node for node in placeholders if not is_tangent(node)]
        wanted = set(static)
        self.static = [node for i, node in enumerate(self.primals) if i in wanted]
        outputs = self.graph.output_node().args[0]
        assert isinstance(outputs, Sequence)
        self.outputs = [node if isinstance(node, fx.Node) else None for node in outputs]
        self.mutations = [node for node in self.nodes if is_call(node) and is_mutation(node)]
        self._refuse()
        self.late = descendants(self.nodes, self.tangents)
        self.read_early = read_early(self.graph, forward_outputs)
        first = [*self.outputs[:forward_outputs], *self.mutations, *self.read_early, *self._drawn_early()]
        self.forward_nodes = ancestors(self.nodes, first)
        if self.late & self.forward_nodes:
            raise Refused("the backward pass writes to an input of the graph, which plans cannot order")
        self.mutated = {node.args[0] for node in self.mutations}
        self.free = {node for node in self.nodes if is_call(node) and self._always_free(node)}
        self._leaves: dict[fx.Node, tuple[Tensor, ...]] = {}
        if fuse:
            self._inline()
        self._leaves.clear()
        self.units = self._make_units()
        self.maker = {tensor: unit for unit in self.units for tensor in unit.makes}

    # What a graph must be.

    def _refuse(self) -> None:
        for node in self.nodes:
            if node.op == "placeholder" and ("fwd_seed" in node.name or "bwd_seed" in node.name):
                raise Refused("the graph's random numbers are functionalised already (graph-safe random states)")
            if str(node.target) == "with_effects":
                raise Refused(f"the graph runs {node.args[1]}, which has an effect besides its result (linalg.cholesky_ex has none, say)")
            if node.op in ("call_module", "call_method"):
                raise Refused(f"the graph calls {node.target}, which is no operator")
            if is_call(node) and isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in _COLLECTIVES:
                raise Refused(f"the graph communicates ({schema_name(node)}): a plan would repeat it on some ranks and not on others. "
                              "Fully sharded training (FSDP) and tensor parallelism are not supported; compile the blocks inside of it")

    def _drawn_early(self) -> Iterator[fx.Node]:
        """What draws in the forward pass, even if the backward pass alone reads it: later it would draw other numbers."""
        live = ancestors(self.nodes, self.outputs) - self.late
        for node in self.nodes:
            early = node in live and node.meta.get("partitioner_tag") != "is_backward"
            if early and is_call(node) and not self._always_free(node) and keeps_its_place(node):
                yield node

    # Which nodes are free.

    def _always_free(self, node: fx.Node) -> bool:
        return node.target is operator.getitem or is_symbolic(node) or is_view(node)

    def _inline(self) -> None:
        """Forward in the graph's order: whether a pointwise value is a tensor depends on what it is computed from."""
        leaving = {source for node in self.outputs if node is not None for source in self.looked_at(node)}
        costly: set[fx.Node] = set()
        for node in self.nodes:
            if not is_call(node) or node in self.free or not is_pointwise(node) or node in leaving:
                continue
            readers = list(self._readers(node))
            if not all(is_pointwise(reader) or is_reduction(reader) for reader in readers) or (
                    self._worth_keeping(node, readers) or self._is_overwritten(node, readers)):
                continue
            if schema_name(node).partition("::")[2] in _COSTLY or any(self._shows(operand, costly) for operand in node.all_input_nodes):
                if self._looks(readers) >= _LOOKS * _elements(node):
                    continue
                costly.add(node)
            self.free.add(node)

    def _is_overwritten(self, node: fx.Node, readers: list[fx.Node]) -> bool:
        """Whether the backward pass, where it computed the value anew, would find what the forward pass has written meanwhile."""
        behind = any(reader not in self.forward_nodes for reader in readers)
        return behind and any(leaf[0] in self.mutated for operand in node.all_input_nodes for leaf in self.leaves(operand))

    def _shows(self, node: fx.Node, inlined: set[fx.Node]) -> bool:
        return not inlined.isdisjoint(self.looked_at(node))

    @staticmethod
    def _looks(readers: list[fx.Node]) -> int:
        """How often elements of a value are computed where its readers compute it; a reduction looks once at each."""
        return sum(_elements(reader) for reader in dict.fromkeys(readers) if is_pointwise(reader))

    def _worth_keeping(self, node: fx.Node, readers: list[fx.Node]) -> bool:
        sizes = {leaf: storage_bytes(leaf) for operand in node.all_input_nodes for leaf in self.leaves(operand)}
        made = sum(dense_bytes(t) for t in tensors_of(node) if t is not None)
        if len(set(readers)) > 1 and sum(2 * size >= made for size in sizes.values()) > 1:
            return True
        crosses = node in self.forward_nodes and any(reader not in self.forward_nodes for reader in readers)
        return crosses and 2 * made <= max(sizes.values(), default=0)

    def looked_at(self, node: fx.Node) -> Iterator[fx.Node]:
        """The node, and what it is a view of."""
        yield node
        while is_call(node) and self._always_free(node) and node.all_input_nodes:
            node = node.all_input_nodes[0]
            yield node

    def _readers(self, node: fx.Node) -> Iterator[fx.Node]:
        """Who reads it, through views and tuple access."""
        for user in node.users:
            if is_call(user) and self._always_free(user):
                yield from self._readers(user)
            elif user.op != "output":
                yield user

    def leaves(self, node: fx.Node) -> tuple[Tensor, ...]:
        """Tensors whose contents a node shows, through free nodes; a unit's own outputs for a unit."""
        if node not in self._leaves:
            self._leaves[node] = self._find_leaves(node)
        return self._leaves[node]

    def _find_leaves(self, node: fx.Node) -> tuple[Tensor, ...]:
        if node.op == "placeholder":
            return () if is_symbolic(node) else ((node, 0),)
        if not is_call(node) or is_symbolic(node):
            return ()
        if node not in self.free:
            return tuple((node, i) for i, tensor in enumerate(tensors_of(node)) if tensor is not None)
        if node.target is operator.getitem:
            source, index = node.args
            assert isinstance(source, fx.Node) and isinstance(index, int)
            if source not in self.free:
                return ((source, index),) if tensors_of(source)[index] is not None else ()
        return tuple(dict.fromkeys(leaf for operand in node.all_input_nodes for leaf in self.leaves(operand)))

    # Units.

    def _make_units(self) -> list[Unit]:
        """In the graph's order, the forward pass first."""
        live = ancestors(self.nodes, [*self.outputs, *self.mutations])
        nodes = [n for n in self.nodes if is_call(n) and n in live and n not in self.free and n not in self.mutated_calls]
        nodes.sort(key=lambda node: (node not in self.forward_nodes, self.position[node]))
        return [self._unit(index, node) for index, node in enumerate(nodes)]

    @property
    def mutated_calls(self) -> set[fx.Node]:
        """Writes to inputs: they happen once, at the end of the forward pass, and are no units."""
        return set(self.mutations)

    def _unit(self, index: int, node: fx.Node) -> Unit:
        inlined: dict[fx.Node, None] = {}
        todo = list(node.all_input_nodes)
        while todo:
            source = todo.pop()
            if source in self.free and source not in inlined:
                inlined[source] = None
                todo += source.all_input_nodes
        reads = dict.fromkeys(leaf for operand in node.all_input_nodes for leaf in self.leaves(operand))
        makes = tuple((node, i) for i, tensor in enumerate(tensors_of(node)) if tensor is not None)
        known = is_pure(node) and (self.repeat_batch_norm or schema_name(node) != BATCH_NORM)
        operands = node.all_input_nodes
        if schema_name(node) == BATCH_NORM:  # which runs again without its running statistics
            operands = [operand for operand in operands if operand not in node.args[3:5]]
        reads_mutated = any(leaf[0] in self.mutated for operand in operands for leaf in self.leaves(operand))
        repeatable = node not in self.late and known and not is_random(node) and not reads_mutated
        return Unit(index, node, node in self.forward_nodes, tuple(reads), makes,
                    tuple(n for n in inlined if not self._always_free(n)), repeatable)

    # What leaves the graph.

    def kept_at_the_cut(self) -> tuple[Tensor, ...]:
        """Tensors that must be there when the forward pass ends: its outputs, what is written to inputs, and what the backward pass reads
        of these inputs."""
        nodes = [*self.outputs[: self.forward_outputs], *(source for node in self.mutations for source in node.all_input_nodes),
                 *(node for node in self.read_early if node not in self.free)]
        return tuple(dict.fromkeys(leaf for node in nodes if node is not None for leaf in self.leaves(node)))

    def gradients(self) -> tuple[Tensor, ...]:
        """Tensors that the backward pass gives back."""
        nodes = self.outputs[self.forward_outputs :]
        return tuple(dict.fromkeys(leaf for node in nodes if node is not None for leaf in self.leaves(node)))


def canonical(joint: Joint) -> str:
    """The graph as text without names: the same for graphs that compute the same in the same order."""
    number = {node: index for index, node in enumerate(joint.nodes)}

    def told(value: object) -> str:
        if isinstance(value, fx.Node):
            return f"%{number[value]}"
        if isinstance(value, (list, tuple)):
            return "[" + ",".join(map(told, value)) + "]"
        return repr(value)

    def shape(tensor: torch.Tensor | None) -> str:
        if tensor is None:
            return "-"
        return f"{tensor.dtype}{[hint(s) for s in tensor.shape]}{[hint(s) for s in tensor.stride()]}{tensor.device.type}"

    static = set(joint.static)
    lines = [f"forward outputs {joint.forward_outputs}, fused {joint.fuse}"]
    for node in joint.nodes:
        kind = "static" if node in static else node.op
        target = "" if node.op == "placeholder" else str(node.target)
        keywords = ",".join(f"{name}={told(value)}" for name, value in sorted(node.kwargs.items()))
        lines.append(f"{kind} {target} {told(node.args)} {keywords} {'|'.join(map(shape, tensors_of(node)))}")
    return "\n".join(lines)
