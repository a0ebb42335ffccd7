"""Evaluates nodes of a joint graph on real tensors.

Tensors of the instance are looked up by id in what the machine holds; views and tuple access are applied when
an operator reads them, so that nothing but the storage is kept; parameters and buffers are the module's own.
What the trace leaves out is found once, before the first iteration: literals, and constants (masks,
positions), which the instance counts as buffers. Where an operator reads the shape of an operand only and the
operand is not there, a stand-in of one element goes in its place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from ..aliasing import Storages, bound_arguments, read_operands, viewed_operand
from ..drawing import target_of
from ..errors import ProfilerError
from ..trace import TracedIteration

Getter = Callable[[], Any]
# What the machine holds: real tensors, or a tuple of them (an encoding in several parts), by id.
Held = dict[int, Any]


class Missing(Exception):
    """A tensor that is read is not there; its argument is the id."""


class Values:
    """Reads operands of nodes; `held` is the machine's own dictionary."""

    def __init__(self, trace: TracedIteration, placeholders: dict[fx.Node, torch.Tensor], device: torch.device) -> None:
        self.trace, self.device = trace, device
        self.of = Storages(trace.capture.graph_module.graph).of
        self.id_of = {storage.value: storage.id for storage in trace.storages}
        self.placeholders = placeholders
        self.held: Held = {}
        self._kept: dict[fx.Node, torch.Tensor] = {}

    def tensor_id(self, node: fx.Node) -> int | None:
        """The tensor of the instance in whose storage a node lives; None for parameters, constants and the like."""
        return self.id_of.get(self.of(node))

    def getter(self, node: fx.Node) -> Getter:
        """A function that gives the value of a node, raising `Missing` where its tensor is not there."""
        view = self._view(node)
        if view is not None:
            return view
        id = self.tensor_id(node)
        if id is not None:
            return self._held_getter(id)
        constant = self._constant(node)
        return lambda: constant

    def call(self, node: fx.Node, replaced: dict[str, Getter] | None = None) -> Getter:
        """The operator of a node, bound to its operands; `replaced` by argument name where others are to be read."""
        target = target_of(node)
        if target is not node.target:  # nothing of its operand counts but the layout
            replaced = {"self": self._laid_out_as(node.args[0])}
        read = {(name, operand) for name, operand in read_operands(node)}
        names = [argument.name for argument in node.target._schema.arguments]
        positional, keywords = [], {}
        for argument, value in bound_arguments(node):
            if replaced and argument.name in replaced:
                bound = replaced[argument.name]
            else:
                bound = self._argument(argument.name, value, read)
            if names.index(argument.name) < len(node.args) and not argument.kwarg_only:
                positional.append(bound)
            else:
                keywords[argument.name] = bound
        if not keywords:
            return lambda: target(*[bound() for bound in positional])
        return lambda: target(*[b() for b in positional], **{name: b() for name, b in keywords.items()})

    def _held_getter(self, id: int) -> Getter:
        held = self.held

        def get() -> object:
            try:
                return held[id]
            except KeyError:
                raise Missing(id) from None

        return get

    def _view(self, node: fx.Node) -> Getter | None:
        """Views, tuple access to them, and copies that are none; None for what owns its storage."""
        if node.op != "call_function":
            return None
        if node.target is getitem:
            source, index = node.args
            if viewed_operand(source) is None:
                return None
            parts = self.getter(source)
            return lambda: parts()[index]
        viewed = viewed_operand(node)
        if viewed is None:
            return None
        if str(node.target) == "aten.clone.default":
            return self.getter(viewed)
        return self.call(node)

    def _argument(self, name: str, value: object, read: set[tuple[str, fx.Node]]) -> Getter:
        if isinstance(value, fx.Node):
            if (name, value) in read or not isinstance(value.meta.get("val"), torch.Tensor):
                return self.getter(value)
            return self._described(value)
        if isinstance(value, (list, tuple)) and any(isinstance(item, fx.Node) for item in value):
            parts = [self._argument(name, item, read) for item in value]
            return lambda: [part() for part in parts]
        if isinstance(value, torch.device):
            value = self.device
        return lambda: value

    def _described(self, node: fx.Node) -> Getter:
        """An operand of which the shape is read at most: the tensor where it is there, else a stand-in."""
        fake = node.meta["val"]
        shape, dtype, device = tuple(fake.shape), fake.dtype, self.device
        known = self.tensor_id(node) is not None or self.of(node).node in self.placeholders
        getter = self.getter(node) if known else None

        def get() -> object:
            if getter is not None:
                with contextlib.suppress(Missing):
                    return getter()
            return torch.empty(1, dtype=dtype, device=device).expand(shape)

        return get

    def _laid_out_as(self, node: fx.Node) -> Getter:
        """A tensor of no contents that lies as it did in the trace."""
        fake, device = node.meta["val"], self.device
        return lambda: torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=device)

    def fresh(self, node: fx.Node) -> Getter:
        """The value of a node that depends on parameters and buffers only, found anew each time; a copy of what is one of them."""
        copied = self.of(node).node in self.placeholders
        return lambda: self._anew(node, {}).clone() if copied else self._anew(node, {})

    def _anew(self, node: fx.Node, found: dict[fx.Node, Any]) -> Any:
        """Reads neither tensors of the instance nor constants that were kept."""
        def operand(value: object) -> object:
            if isinstance(value, fx.Node):
                return self._anew(value, found)
            return self.device if isinstance(value, torch.device) else value

        if node not in found:
            if node.op == "call_function":
                arguments, keywords = fx.node.map_aggregate((node.args, node.kwargs), operand)
                found[node] = node.target(*arguments, **keywords)
            else:
                found[node] = self._evaluate(node)
        return found[node]

    def _constant(self, node: fx.Node) -> torch.Tensor:
        """A value of no tensor of the instance: found once and kept."""
        if node not in self._kept:
            self._kept[node] = self._evaluate(node)
        return self._kept[node]

    def _evaluate(self, node: fx.Node) -> torch.Tensor:
        if node in self.placeholders:
            return self.placeholders[node]
        if node.op == "get_attr":
            return self._attribute(node)
        if node.op != "call_function":
            raise ProfilerError(f"the graph reads '{node.name}', of which nothing is known")
        if node.target is getitem:
            source, index = node.args
            return self._evaluate(source)[index]
        return self.call(node)()

    def _attribute(self, node: fx.Node) -> torch.Tensor:
        value = getattr(self.trace.capture.graph_module, node.target)
        if isinstance(value, FakeTensor):
            value = value.constant
        if value is None:
            raise ProfilerError(f"the constant '{node.target}' of the graph has a shape and no value: the network makes it "
                                "outside of its buffers; register it as a buffer")
        return value.to(self.device)
