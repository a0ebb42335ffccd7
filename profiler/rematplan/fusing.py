"""What inductor may do at once in a planned graph: steps of the plan that its budget has room to run together.

Left alone, inductor runs operators in one loop that read the same tensor and not each other; and on a CPU it calls all the
loops between two calls of libraries as one function. Either way everything that these steps read and make is there at once,
and a repetition comes together with what the plan keeps it apart from: 10 % of the peak of an MLP. Forbidden altogether, both
together cost 5 % of an iteration of a Llama. So each is allowed where `Room` says that it fits. A loop of an operator and its reader
is put where the operator stands, with all that the reader needs: where other steps lie between, that has to fit, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from .apply import step_of
from .room import Room


class _Together:
    """What may run at once in the graph that is being compiled."""

    def __init__(self) -> None:
        self._room: Room | None = None
        self._known: dict[str, frozenset[int]] = {}

    def fits(self, scheduler: Any, nodes: list[Any]) -> bool:
        """Whether these may run at once, beside what runs at once already."""
        steps = self._steps(nodes)
        if not steps or self._room is None:
            return False
        first, last = min(steps), max(steps)
        if first == last:
            return True
        fused = (node.get_nodes() for node in set(scheduler.name_to_fused_node.values()))
        others = {self._steps(members) for members in fused if len(members) > 1}
        near = [other for other in others if len(other) > 1 and min(other) <= last and max(other) >= first and not other <= steps]
        return self._room.fits(steps, near)

    def follow_or_fit(self, scheduler: Any, nodes: list[Any]) -> bool:
        """Whether nothing runs between these, or they may run at once."""
        steps = self._steps(nodes)
        return not steps or max(steps) - min(steps) < len(steps) or self.fits(scheduler, nodes)

    def _steps(self, nodes: list[Any]) -> frozenset[int]:
        """Those that nodes of inductor's scheduler compute; none where one of them is no node of a plan."""
        each = [self._steps_of(node) for node in nodes]
        return frozenset().union(*each) if all(each) else frozenset()

    def _steps_of(self, node: Any) -> frozenset[int]:
        name = node.get_name()
        if name not in self._known:
            marked = [mark for origin in getattr(node.node, "origins", ()) if (mark := step_of(origin)) is not None]
            self._known[name] = frozenset(step for _, step in marked)
            if marked:
                self._room = marked[0][0]
        return self._known[name]


@contextmanager
def by_the_plan(key: str) -> Iterator[None]:
    """While it lasts, inductor compiles graphs that run by a plan; `key` stands for all of this where it caches what it made."""
    from torch._inductor.choices import InductorChoices
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.virtualized import V

    together = _Together()

    class Choices(InductorChoices):
        """Fusions of operators that do not read each other, where there is room; of others, too, unless one follows the other."""

        @staticmethod
        def can_fuse_vertical(scheduler: Any, node1: Any, node2: Any, shared_data_score: int) -> bool:
            return (InductorChoices.can_fuse_vertical(scheduler, node1, node2, shared_data_score)
                    and together.follow_or_fit(scheduler, [*node1.get_nodes(), *node2.get_nodes()]))

        @staticmethod
        def can_fuse_horizontal(scheduler: Any, node1: Any, node2: Any, shared_data_score: int) -> bool:
            return (InductorChoices.can_fuse_horizontal(scheduler, node1, node2, shared_data_score)
                    and together.fits(scheduler, [*node1.get_nodes(), *node2.get_nodes()]))

        def uuid(self) -> str:
            return key

    generate = CppScheduling.codegen_node

    def codegen_node(self: Any, node: Any) -> None:
        """Ends the function after a loop that the next one may not join."""
        generate(self, node)
        position = self.scheduler.nodes.index(node) + 1
        following = self.scheduler.nodes[position:position + 1]
        if following and not together.fits(self.scheduler, [*self.kernel_group.scheduled_nodes, *following[0].get_nodes()]):
            self._set_flush_status(True)

    with V.set_choices_handler(Choices()), mock.patch.object(CppScheduling, "codegen_node", codegen_node):
        yield
