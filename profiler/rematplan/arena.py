"""Compiled training in one preallocated buffer: every allocation of the compiled graphs at an address planned before.

What the passes of an iteration allocate, in which order and until when, is the same in every iteration. Each call of a
compiled graph is a *window*. An *iteration* begins with the call of a forward graph when nothing waits for its backward pass.
Two iterations in a row that allocate alike are packed by `bench allocate`; from then on allocation k lies at its planned
offset. What outlives its iteration (a loss that is kept, gradients that are accumulated) stays outside: it is seen when the
next iteration begins, and a plan that had it inside is made anew.

A plan is a prediction and nothing is read from it but addresses. The allocator (`allocator.cpp`) gives ordinary memory to what
comes with another size, in another graph, or to a place that is still taken; then a `PlanWarning` says what was different.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from remat_profiler.allocator import ALIGNMENT, ALIVE, ELSEWHERE, Numbers, Session, Used

from . import planner
from .errors import PlanError, warn

Run = Callable[[list[Any]], Any]
# After so many plans an arena gives up; after so many windows an iteration is over, whatever still waits for its backward pass.
_PLANS, _LONGEST = 16, 256


@dataclass(frozen=True)
class Window:
    """One compiled graph: of a forward pass, or of a backward one; the first `outputs` of its results are the caller's."""

    number: int
    backward: bool
    outputs: int

    def __str__(self) -> str:
        return f"compiled pass {self.number} ({'backward' if self.backward else 'forward'})"


@dataclass(frozen=True)
class Observed:
    """An iteration that is over: its windows, each with the number of allocations at its end; sizes; when each was freed."""

    windows: tuple[tuple[int, int], ...]
    sizes: Numbers
    uppers: Numbers

    @property
    def key(self) -> tuple[tuple[tuple[int, int], ...], bytes]:
        """Equal for iterations that allocate alike."""
        return self.windows, self.sizes.tobytes()


@dataclass(frozen=True)
class Packing:
    """Addresses for the allocations of an iteration; `bound` is the least height that there can be."""

    of: Observed
    offsets: Numbers
    height: int
    bound: int

    @property
    def inside(self) -> int:
        """How many allocations lie in the arena."""
        return int((self.offsets != ELSEWHERE).sum())


class Arena:
    """The arena of one compiled target, on a `cpu` or on `cuda`. `seconds` is how long `bench allocate` may search."""

    def __init__(self, seconds: float, kind: str = "cpu") -> None:
        self.seconds, self.kind, self.session = seconds, kind, Session(kind)
        self.packing: Packing | None = None
        self.address = 0
        # Iterations that are over, those that went as planned, and plans that were made.
        self.iterations = self.followed = self.plans = 0
        self.given_up = ""
        self.latest: Used | None = None
        # By what was allocated; with the longest life of each allocation that was seen.
        self._packings: dict[object, Packing] = {}
        self._before: Observed | None = None
        self._windows: list[tuple[int, int]] = []
        self._results: set[int] = set()  # allocations of this iteration that the caller was given
        self._number = self._pending = 0
        self._different = ""
        self._warned = False

    # Windows.

    def within(self, run: Run, *, backward: bool, outputs: int = 0) -> Run:
        """A compiled graph that allocates in the arena."""
        self._number += 1
        window = Window(self._number, backward, outputs)

        def call(arguments: list[Any]) -> Any:
            outer = self.session.begin_window(self._part(window))
            try:
                results = run(arguments)
            finally:
                self._end(window, self.session.end_window(outer))
            for result in results[:outputs]:
                if isinstance(result, torch.Tensor):
                    self._results.add(self.session.find(result))
            return results

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def _part(self, window: Window) -> tuple[int, int] | None:
        """Allocations of the plan that are this window's."""
        if not window.backward and (self._pending <= 0 or len(self._windows) >= _LONGEST or self._dropped()):
            self._next_iteration()
        self._pending += -1 if window.backward else 1
        if self.packing is None or self._different:
            return None
        position, planned = len(self._windows), self.packing.of.windows
        if position < len(planned) and planned[position][0] == window.number:
            return planned[position - 1][1] if position else 0, planned[position][1]
        self._differs(f"{window} came in the place of another")
        return None

    def _dropped(self) -> bool:
        """Whether nobody will ask for a backward pass of this iteration: only results of its passes are left, if anything."""
        _, uppers = self.session.log()
        return set(np.flatnonzero(uppers == ALIVE).tolist()) <= self._results

    def _end(self, window: Window, stopped: int) -> None:
        self._windows.append((window.number, self.session.length()))
        if stopped >= 0 and self.packing is not None and not self._different:
            self._differs(f"allocation {stopped} of {len(self.packing.offsets)}, in {window}, is of another size or is missing")

    def _differs(self, how: str) -> None:
        self._different = how
        if not self._warned:
            warn(f"an iteration goes on beside the arena, because it differs from the one that was planned: {how}. "
                 "Two alike in a row are planned anew")
        self._warned = True

    # Iterations.

    def _next_iteration(self) -> None:
        if self._windows:
            seen = Observed(tuple(self._windows), *self.session.log())
            self.latest = self.session.used()
            self.iterations += 1
            if self.packing is not None and not self._different and not self.latest.occupied:
                self.followed += 1
                self._warned = False
            if not self.given_up:
                self._learn(seen)
        self.session.begin_iteration()
        self._windows.clear()
        self._results.clear()
        self._pending, self._different = 0, ""

    def _learn(self, seen: Observed) -> None:
        again = self._before is not None and self._before.key == seen.key
        packing = self._packings.get(seen.key)
        for known in (packing.of if packing else None, self._before if again else None):
            if known is not None:
                seen = Observed(seen.windows, seen.sizes, np.maximum(seen.uppers, known.uppers))
        self._before = seen
        longer = int((packing.of.uppers < seen.uppers).sum()) if packing else 0
        present = packing is not None and packing is self.packing
        if present and not longer or not present and not again:
            return
        if self.session.used().blocks:  # somebody holds what lies there: two arenas would be there at once
            return
        if present:
            warn(f"{longer} allocations lived longer than planned, some of them beyond their iteration (accumulated "
                 "gradients, results that are kept): the arena is planned anew")
        self._plan(seen, None if longer else packing)

    def _plan(self, seen: Observed, packing: Packing | None) -> None:
        self.packing, self.address = None, 0
        none = np.empty(0, np.int64)
        self.session.plan(none, none, 0)  # the old memory goes first
        try:
            if packing is None and self.plans == _PLANS:
                raise PlanError(f"iterations allocate in ever new ways ({_PLANS} plans were made)")
            if packing is None:
                self.plans += 1
                packing = self._packings[seen.key] = pack(seen, self.seconds, ALIGNMENT[self.kind])
            self.address = self.session.plan(seen.sizes, packing.offsets, packing.height)
            if not self.address:
                raise PlanError(f"there are no {packing.height} bytes in one piece")
            self.packing = packing
        except PlanError as error:
            self.given_up = str(error)
            warn(f"no arena any more: {error}")


def pack(seen: Observed, seconds: float, alignment: int) -> Packing:
    """Offsets for what is freed within the iteration; what outlives it lies elsewhere."""
    inside = np.flatnonzero(seen.uppers != ALIVE)
    sizes = -(-seen.sizes[inside] // alignment) * alignment
    found = planner.pack(list(zip(inside.tolist(), seen.uppers[inside].tolist(), sizes.tolist())), alignment, seconds)
    offsets = np.full(len(seen.sizes), ELSEWHERE, np.int64)
    offsets[inside] = found.offsets
    return Packing(seen, offsets, found.height, found.bound)


def words(arena: Arena) -> str:
    """What lies in an arena, and how the iterations so far went."""
    packing, used = arena.packing, arena.latest
    if packing is None or used is None:
        why = arena.given_up or f"{arena.iterations} iterations are over, and two in a row must allocate alike"
        return f"arena: none, because {why}"
    return "\n".join([
        f"arena: {packing.height / 1e6:.2f} MB (lower bound {packing.bound / 1e6:.2f} MB) for {packing.inside} allocations of "
        f"{len(packing.of.windows)} passes",
        f"  {arena.followed} of {arena.iterations} iterations went as planned; in the latest {used.inside_bytes / 1e6:.2f} MB lay in "
        "the arena at once,",
        f"  {used.outside_bytes} bytes outlive an iteration and lie outside ({len(packing.offsets) - packing.inside} allocations), "
        f"{used.beside_bytes} bytes lay beside because they came otherwise than planned",
    ])
