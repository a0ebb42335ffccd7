"""What a plan leaves free: `Steps`, the memory of a schedule step by step, and `Room`, what a compiler may take besides.

A compiler that does the work of several steps at once (one loop, one function, one buffer for several parts) needs all
that they read and all that they make at the same time. Where the budget has room for that it may; elsewhere the plan is
followed step by step. This file knows instances, and neither graphs nor compilers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence

from remat_profiler.documents import Instance, fixed_bytes, lasting

from .errors import PlanError


class Steps:
    """A schedule, where a copy of a tensor goes after its last reader before the next copy. Memory in bytes, with all that is
    always there; time in the instance's unit. `leaves_at` says by step which tensors go after it."""

    def __init__(self, instance: Instance, order: Sequence[int]) -> None:
        operators = {entry["id"]: entry for entry in instance["operators"]}
        self.size = {entry["id"]: entry["bytes"] for entry in instance["tensors"]}
        self.reads = [operators[operator]["inputs"] for operator in order]
        self.makes = [operators[operator]["outputs"] for operator in order]
        self.leaves_at = self._leaving(lasting(instance))
        resident = {entry["id"] for entry in instance["tensors"] if entry["kind"] == "input"}
        self.time, self.memory = 0, list[int]()
        # Of each tensor the steps at which a copy comes, and the last ones at which it is there.
        self._comes: dict[int, list[int]] = {tensor: [-1] for tensor in resident}
        self._goes: dict[int, list[int]] = {tensor: [len(order)] for tensor in resident}
        memory = fixed_bytes(instance) + sum(self.size[tensor] for tensor in resident)
        for step, operator in enumerate(order):
            entry = operators[operator]
            if not resident.issuperset(entry["inputs"]):
                raise PlanError(f"the plan is illegal: step {step} ({entry['name']}) reads what is not there")
            for tensor in set(entry["outputs"]) - resident:
                resident.add(tensor)
                memory += self.size[tensor]
                self._comes.setdefault(tensor, []).append(step)
                self._goes.setdefault(tensor, []).append(len(order))
            done = entry["implementations"][0]
            self.time += done["time"]
            self.memory.append(memory + done["workspace_bytes"])
            for tensor in self.leaves_at[step]:
                if tensor in resident:
                    resident.discard(tensor)
                    memory -= self.size[tensor]
                    self._goes[tensor][-1] = step

    def _leaving(self, kept: set[int]) -> list[list[int]]:
        """By step, what nobody reads after it before it is made again."""
        wanted, leaving = set[int](), [list[int]() for _ in self.reads]
        for step in range(len(self.reads) - 1, -1, -1):
            touched = {*self.reads[step], *self.makes[step]}
            leaving[step] = sorted(touched - wanted - kept)
            wanted |= touched
            wanted -= set(self.makes[step]) - set(self.reads[step])
        return leaving

    def made_at(self, tensor: int) -> list[int]:
        """The steps that make a tensor; -1 for one that is there at the start."""
        return self._comes[tensor]

    def has(self, tensor: int, step: int) -> bool:
        """Whether a tensor is there at a step."""
        which = bisect_right(self._comes[tensor], step) - 1
        return which >= 0 and step <= self._goes[tensor][which]


class Room:
    """Bytes of a budget that a schedule leaves at each step."""

    def __init__(self, steps: Steps, budget: int) -> None:
        self.steps = steps
        self._free = [budget - memory for memory in steps.memory]
        self._known: dict[frozenset[int], dict[int, int]] = {}

    def take(self, first: int, last: int, size: int) -> bool:
        """Takes so many bytes from one step to another, if they are free at all of them."""
        between = range(first, last + 1)
        if any(self._free[step] < size for step in between):
            return False
        for step in between:
            self._free[step] -= size
        return True

    def fits(self, together: frozenset[int], others: Collection[frozenset[int]] = ()) -> bool:
        """Whether these steps may be one, while each of the others is one. They may not where one needs what is made between: a
        compiler that does them early would have to do that early, too, and all that it needs."""
        return not self._needs_between(together) and all(more + sum(self._more(other).get(step, 0) for other in others) <= self._free[step]
                   for step, more in self._more(together).items())

    def _needs_between(self, together: frozenset[int]) -> bool:
        first = min(together)
        return any(first < made <= step and made not in together
                   for step in together for tensor in self.steps.reads[step] for made in self.steps.made_at(tensor))

    def _more(self, together: frozenset[int]) -> dict[int, int]:
        """What is there besides, from the first of these steps to the last, if all is done at once."""
        if together not in self._known:
            steps, more = self.steps, dict[int, int]()
            for step in range(min(together), max(together) + 1):
                early = {tensor for other in together if other > step for tensor in steps.makes[other]}
                late = {tensor for other in together if other < step for tensor in steps.reads[other]}
                more[step] = sum(steps.size[tensor] for tensor in early | late if not steps.has(tensor, step))
            self._known[together] = more
        return self._known[together]
