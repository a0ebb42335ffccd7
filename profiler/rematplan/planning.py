"""`plan`: what a budget costs, without training; and `explain`, what was planned for what has run."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from remat_profiler import whole
from remat_profiler.allocator import cuda_level
from remat_profiler.costs.measure import allocations

from .arena import words as arena_words
from .budget import Budget, mb
from .compiling import arenas_of, compiled_by, outside_of, plans_of, refuse, settings
from .errors import PlanError
from .instance import CUT
from .partition import GraphPlan, Partitioner
from .room import Steps

Loss = Callable[[Any], torch.Tensor]
_WARM_UP, _SAMPLES = 2, 7
_NUMBERS = itertools.count(1)
_NO_LOSS = "the loss must be a tensor of one element"


@dataclass(frozen=True)
class Executed:
    """One iteration as it ran: the allocator's peak above what was there before, and the median time of a few."""

    peak_bytes: int
    time_ns: int


@dataclass
class Plan:
    """What the planner found for a module, a loss and inputs. `graph` has the figures; bytes include parameters."""

    graph: GraphPlan
    budget: str
    _replay: Callable[[], tuple[Executed, Executed, float]] = field(repr=False)

    def __str__(self) -> str:
        return words(self.graph, f"budget {self.budget}")

    def save(self, folder: str | Path) -> None:
        """Writes `instance.json` and `schedule.json`, which `bench verify` and every other tool of bench reads."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        whole.write(folder / "instance.json", json.dumps(self.graph.instance))
        whole.write(folder / "schedule.json", json.dumps(self.schedule()))

    def schedule(self) -> dict[str, object]:
        """The schedule with its frees, as FORMAT.md describes it."""
        assert self.graph.instance is not None
        steps: list[dict[str, int]] = []
        for operator, leaving in zip(self.graph.operators, Steps(self.graph.instance, self.graph.operators).leaves_at, strict=True):
            steps += [{"compute": operator}, *({"free": tensor} for tensor in leaving)]
        return {"format": "remat-schedule", "version": 1, "instance": self.graph.instance["name"], "method": "auto",
                "budget_bytes": self.graph.budget_bytes, "steps": steps}

    def draw(self, path: str | Path) -> None:
        """An SVG of the memory over the steps: keeping everything, the plan, and the budget."""
        whole.write(Path(path), _drawing(self.graph, self.budget))

    def replay(self) -> Replay:
        """Runs the module plainly and with the plan, as the plan's backend runs it, and compares gradients."""
        plain, planned, difference = self._replay()
        return Replay(plain, planned, difference)


@dataclass(frozen=True)
class Replay:
    """Both as they ran, and the largest difference of a gradient over the largest magnitude of all gradients."""

    plain: Executed
    planned: Executed
    difference: float


def plan(model: nn.Module, example_inputs: Sequence[Any], *, loss: Loss, budget: str | int | Budget, cost: str = "roofline",
         apply: str = "schedule", seconds: float = 30.0, backend: str = "inductor") -> Plan:
    """Plans one training iteration, forward, loss and backward; nothing is compiled or run. `loss` takes the model's output.

    Raises `PlanError` with the planner's words where there is no plan, and torch's own error where the network cannot be
    captured in one graph.
    """
    refuse(model)
    if isinstance(example_inputs, torch.Tensor):
        raise PlanError("example_inputs is one tensor, and its rows would be the arguments: give a tuple, (x,)")
    # Each of several iterations has its own backward pass, which ends here.
    inputs = tree_map(_without_past, tuple(example_inputs))
    chosen = settings(budget, cost, apply, seconds, backend)

    def iteration(*arguments: Any) -> torch.Tensor:
        value = loss(model(*arguments))
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise PlanError(_NO_LOSS)
        return value

    # The compiler would take sizes that an earlier plan had otherwise for dynamic ones.
    iteration.__code__ = iteration.__code__.replace(co_name=f"iteration_{next(_NUMBERS)}")

    def stop(found: GraphPlan) -> None:
        raise _Found(found)

    found = _captured(iteration, inputs, Partitioner(chosen, stop), backend)
    if found.status == "stock":
        raise PlanError(found.reason)

    def replay() -> tuple[Executed, Executed, float]:
        trained = nn.ModuleList([model, loss] if isinstance(loss, nn.Module) else [model])
        given = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]

        def step(run: Callable[..., torch.Tensor]) -> Callable[[], object]:
            def once() -> object:
                trained.zero_grad(set_to_none=True)
                run(*inputs).backward()
                return None
            return once

        compiled, _ = compiled_by(iteration, Partitioner(chosen), backend, fullgraph=True)
        gradients = []
        for run in (iteration, compiled):
            with _undone(trained, given):
                torch.manual_seed(0)
                step(run)()
                gradients.append({name: p.grad.to_dense(masked_grad=False) if p.grad.is_sparse else p.grad.clone()
                                  for name, p in trained.named_parameters() if p.grad is not None})
        difference = difference_of(*gradients)

        def drop() -> None:
            trained.zero_grad(set_to_none=True)

        with _undone(trained, given):
            return executed(step(iteration), before=drop), executed(step(compiled), before=drop), difference

    return Plan(found, str(chosen.budget), replay)


def difference_of(expected: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]) -> float:
    """The largest difference of a gradient over the largest magnitude of all; no number where anything is none."""
    largest = _greatest(gradient.abs() for gradient in expected.values()) or 1.0
    return _greatest((gradient - found[name]).abs() for name, gradient in expected.items()) / largest


def _greatest(tensors: Iterable[torch.Tensor]) -> float:
    """Of all elements; Python's `max` would pass over a NaN that is not the first."""
    return max((tensor.max().item() for tensor in tensors if tensor.numel()), key=lambda value: (math.isnan(value), value), default=0.0)


def _without_past(value: object) -> object:
    return value.detach().requires_grad_() if isinstance(value, torch.Tensor) and value.grad_fn is not None else value


@contextlib.contextmanager
def _undone(model: nn.Module, inputs: Sequence[torch.Tensor]) -> Iterator[None]:
    """Buffers, inputs, gradients and random numbers are afterwards what they were before; between, inputs have no gradients."""
    before = [(tensor, tensor.detach().clone()) for tensor in (*model.buffers(), *inputs)]
    gradients = [(tensor, tensor.grad) for tensor in (*model.parameters(), *inputs) if tensor.is_leaf]
    for tensor in inputs:
        if tensor.is_leaf:
            tensor.grad = None
    with torch.random.fork_rng():
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in before:
                    # An input that is expanded cannot be written to; sparse ones cannot be compared.
                    if tensor.layout != torch.strided or not torch.equal(tensor, value):
                        tensor.copy_(value)
            for tensor, gradient in gradients:
                tensor.grad = gradient


class _Found(BaseException):
    """Carries a plan out of the compiler; no error, so that nothing on the way takes it for one."""

    def __init__(self, plan: GraphPlan) -> None:
        super().__init__("planned")
        self.plan = plan


def _captured(iteration: Callable[..., torch.Tensor], inputs: tuple[Any, ...], partitioner: Partitioner, backend: str) -> GraphPlan:
    compiled, _ = compiled_by(iteration, partitioner, backend, fullgraph=True)
    try:
        compiled(*inputs)
    except _Found as found:
        return found.plan
    except torch._dynamo.exc.Unsupported as error:  # as which the compiler passes on what it sees raised
        if _NO_LOSS in str(error.__cause__):
            raise PlanError(_NO_LOSS) from None
        raise
    raise PlanError("nothing was compiled for training: does the loss depend on a parameter, and is gradient mode on?")


def executed(iteration: Callable[[], object], samples: int = _SAMPLES, before: Callable[[], object] | None = None) -> Executed:
    """Peak and median time of an iteration, after two for warming up. The peak is that of `allocations`;
    gradients of the iteration before are there unless `before`, which is called first, drops them."""
    for _ in range(_WARM_UP):
        iteration()
    if before is not None:
        before()
    gc.collect()
    cuda = torch.cuda.is_available() and cuda_level()[0] > 0
    peak, _ = allocations(iteration, torch.device("cuda" if cuda else "cpu"))
    taken = sorted(executed_time(iteration) for _ in range(samples))
    return Executed(peak, taken[len(taken) // 2])


def executed_time(iteration: Callable[[], object]) -> int:
    """Nanoseconds of one iteration."""
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.synchronize()
    started = time.perf_counter_ns()
    iteration()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter_ns() - started


def explain(compiled: object | None = None, *, run: Callable[[], object] | None = None) -> str:
    """Prints, and gives back, what was planned for each graph of `compiled` (of all of this process without it): budget,
    planned peak and time, what runs again; what the compiler left outside, and what lies in its arena. `run`, one training iteration,
    is executed for the peak and time that it takes. Its peak is above what was there before, so it should end with
    `zero_grad(set_to_none=True)`."""
    plans = plans_of(compiled)
    text = "\n".join(words(plan, f"graph {number}") for number, plan in enumerate(plans, 1)) or "nothing was compiled for training yet"
    found = None if run is None else executed(run)
    held = 0
    text = "\n".join((text, *outside_of(compiled)))
    for arena in arenas_of(compiled):
        text += "\n" + arena_words(arena)
        held += arena.packing.height if arena.packing is not None else 0
    if found is not None:
        fixed = max((plan.fixed_bytes for plan in plans), default=0)
        beside = f" beside the arena, {mb(found.peak_bytes + held)} with it" if held else ""
        text += (f"\nexecuted: peak {mb(found.peak_bytes)} above what was there before{beside} ({mb(found.peak_bytes + held + fixed)} "
                 f"with parameters), {found.time_ns / 1e6:.1f} ms an iteration")
    print(text)
    return text


def words(plan: GraphPlan, title: str) -> str:
    """A plan in a few lines."""
    if plan.status == "stock":
        return f"{title}: PyTorch's own partitioner, because {plan.reason}"
    lines = [
        f"{title}: {plan.units} units, budget {mb(plan.budget_bytes)}, {mb(plan.fixed_bytes)} of parameters and buffers in it",
        f"  keeping everything: peak {mb(plan.plain_peak_bytes)}, {plan.plain_time_ns / 1e6:.2f} ms (modelled)",
    ]
    if plan.status == "kept":
        return "\n".join([*lines, "  that is within the budget: nothing runs again"])
    lines.append(f"  plan:               peak {mb(plan.peak_bytes)}, {plan.time_ns / 1e6:.2f} ms (+{plan.overhead:.1%}), "
                 f"{mb(plan.saved_bytes)} kept between the passes{', from the cache' if plan.cached else ''}")
    most = sorted(plan.again.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(name + (f" ({times} times)" if times > 1 else "") for name, times in most[:12])
    lines.append(f"  {plan.runs_again} repetitions of {len(plan.again)} units: {shown}{', ...' if len(most) > 12 else ''}")
    return "\n".join(lines)


def _drawing(plan: GraphPlan, budget: str) -> str:
    """Time runs to the right, by the model; the backward pass begins at the dashed line."""
    assert plan.instance is not None
    width, height, left, top = 720, 320, 70, 30
    times = {entry["id"]: entry["implementations"][0]["time"] for entry in plan.instance["operators"]}
    cut = next(entry["id"] for entry in plan.instance["operators"] if entry["name"] == CUT)
    orders = {"#999999": plan.instance["order"], "#0072b2": plan.operators}
    longest = max(sum(times[o] for o in order) for order in orders.values()) or 1
    highest = max(plan.plain_peak_bytes, plan.budget_bytes) * 1.05
    def x(at: float) -> float: return left + at / longest * (width - left - 20)
    def y(size: float) -> float: return top + (1 - size / highest) * (height - top - 40)
    parts = []
    for colour, order in orders.items():
        at, points = 0, []
        for operator, memory in zip(order, Steps(plan.instance, order).memory, strict=True):
            if operator == cut and colour != "#999999":
                parts.append(f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top}" y2="{y(0):.1f}" stroke="{colour}" '
                             'stroke-dasharray="2 3"/>')
            points += [f"{x(at):.1f},{y(memory):.1f}", f"{x(at + times[operator]):.1f},{y(memory):.1f}"]
            at += times[operator]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{" ".join(points)}"/>')
    line = y(plan.budget_bytes)
    parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{line:.1f}" y2="{line:.1f}" stroke="#d55e00" stroke-dasharray="6 4"/>')
    parts.append(f'<text x="{left}" y="{line - 4:.1f}" fill="#d55e00">budget {escape(budget)}: {mb(plan.budget_bytes)}</text>')
    parts.append(f'<text x="{left}" y="18">memory: keeping everything (grey, {mb(plan.plain_peak_bytes)}), '
                 f'the plan (blue, {mb(plan.peak_bytes)})</text>')
    parts.append(f'<text x="{left}" y="{height - 12}">time (modelled), {longest / 1e6:.2f} ms; dashed: the backward pass begins</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
            f'<rect width="{width}" height="{height}" fill="white"/>{"".join(parts)}</svg>\n')
