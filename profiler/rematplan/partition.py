"""The partition function: analyses the graph that it is given, plans it, applies the plan, and keeps a report.

A graph without a plan goes to PyTorch's own partitioner with a `PlanWarning` that says why.
"""

from __future__ import annotations

import json
import math
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition

from remat_profiler.documents import Instance, fixed_bytes

from . import least, planner, store
from .apply import Graphs, kept_at_the_cut, min_cut, order_of_set, scheduled, tagged
from .arena import Arena
from .budget import Budget, mb
from .costs import MODELS, Costs, Workspaces, costs_for, without_fakes
from .errors import PlanError, warn
from .graph import Joint, canonical, storage_bytes
from .inplace import Merged
from .instance import Ids, document, layout_copies
from .planner import Solution, TooSmall
from .room import Room, Steps
from .skipped import Outside
from .unpadded import Unpadded

APPLY = ("schedule", "sets")
# Sets are looked for at these shares of the budget: a schedule within it may need more when it is cut down to a set.
_SET_TRIES = (1.0, 0.9, 0.8, 0.7)
# What channels-last convolutions save of an iteration on a CPU: 16 % of a U-Net, nothing that shows of a ResNet.
_CHANNELS_LAST_GAIN = 0.05
# The part of a budget that is left to rests of blocks on a GPU.
_RESTS = 0.01
# How long one of the searches for a least budget takes, each time that it asks.
_LEAST_SECONDS = 1.0
_FORMAT = 9
# Where a graph says which plan it is of.
_MARK = "rematplan"


@dataclass(frozen=True)
class Settings:
    """What plans are made for, and how."""

    budget: Budget
    cost: str = "roofline"
    apply: str = "schedule"
    seconds: float = 30.0
    fuse: bool = True
    channels_last: bool = True

    def key(self) -> str:
        """Of everything that decides a plan besides the graph: settings, torch, the planner, this package."""
        from . import __version__

        try:
            bench = planner.version()
        except PlanError:
            bench = "none"
        return f"{_FORMAT} {__version__} {torch.__version__} {bench} {self}"


@dataclass(frozen=True)
class GraphPlan:
    """What was planned for one graph. Times and peaks are those of the planner's model; bytes include parameters.

    `status` is `planned`, `kept` (everything fits, nothing runs again) or `stock` (PyTorch's own partitioner, because
    of `reason`). `channels_last`: bytes include the copies of weights with which inductor turns convolutions channels-last."""

    status: str
    units: int = 0
    budget_bytes: int = 0
    time_ns: int = 0
    peak_bytes: int = 0
    plain_time_ns: int = 0
    plain_peak_bytes: int = 0
    fixed_bytes: int = 0
    saved_bytes: int = 0
    again: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    note: str = ""
    cached: bool = False
    device: str = "cpu"
    channels_last: bool = False
    frame: tuple[int, int] = (0, 0)
    instance: Instance | None = field(default=None, repr=False)
    operators: list[int] = field(default_factory=list, repr=False)
    # Operators of the graph that one of the instance stands for.
    parts: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False)

    @property
    def overhead(self) -> float:
        """Planned time over that of keeping everything, minus 1."""
        return self.time_ns / self.plain_time_ns - 1 if self.plain_time_ns else 0.0

    @property
    def gradient_bytes(self) -> int:
        """Of its parameters, as far as it is known. (Gradients of inputs are the tangents of an earlier graph.)"""
        return min(self.fixed_bytes, self._bytes_of("param_gradient"))

    @property
    def held_bytes(self) -> int:
        """There after its forward pass, whether it is read or not: what is saved, parameters, and inputs, which the caller holds."""
        return self.saved_bytes + self.fixed_bytes + self._bytes_of("input")

    def _bytes_of(self, kind: str) -> int:
        return sum(tensor["bytes"] for tensor in self.instance["tensors"] if tensor["kind"] == kind) if self.instance else 0

    @property
    def runs_again(self) -> int:
        """Repetitions, all units together."""
        return sum(self.again.values())


@dataclass(frozen=True)
class _Considered:
    """A graph that may be planned, and its instances by the bytes of channels-last copies."""

    joint: Joint
    device: torch.device
    instances: Callable[[int], list[Merged]]

    @cached_property
    def peak(self) -> int:
        """Of keeping everything."""
        return planner.plain(self.instances(0)[0].instance).peak_bytes


class Partitioner:
    """The partition function of one `compile`; `plans` has a `GraphPlan` for each graph that came."""

    def __init__(self, settings: Settings, observer: Callable[[GraphPlan], None] | None = None) -> None:
        if settings.apply not in APPLY:
            raise PlanError(f"unknown way to apply a plan {settings.apply!r}: expected one of {', '.join(APPLY)}")
        if settings.cost not in MODELS:
            raise PlanError(f"unknown cost model {settings.cost!r}: expected one of {', '.join(MODELS)}")
        self.settings, self.plans, self._observer = settings, list[GraphPlan](), observer
        self.outside = Outside()
        # What the graphs allocate in, if anything; and how many results of the latest forward pass are the caller's.
        self.arena: Arena | None = None
        self.forward_outputs = 0
        # The compilation that runs, and where the plans begin that are still in use.
        self._compilation: object = None
        self._begin = 0

    def __call__(self, module: fx.GraphModule, joint_inputs: Sequence[object], *, num_fwd_outputs: int,
                 static_lifetime_input_indices: Sequence[int] | None = None, **options: Any) -> Graphs:
        """The forward and the backward graph."""
        self.forward_outputs = num_fwd_outputs

        def stock() -> Graphs:
            return min_cut(module, num_fwd_outputs, lambda whole, outputs: min_cut_rematerialization_partition(
                whole, joint_inputs, num_fwd_outputs=outputs,
                static_lifetime_input_indices=list(static_lifetime_input_indices or ()), **options))

        frame = _frame()
        self._note_compilation(frame)
        try:
            joint, plan = self._planned(module, static_lifetime_input_indices or (), frame)
            graphs = self._applied(joint, plan, stock)
        except PlanError as error:
            plan, graphs = GraphPlan("stock", reason=str(error), frame=frame), None
        except Exception as error:  # whatever the graph holds that was not thought of: training goes on, and says why
            where = traceback.extract_tb(error.__traceback__)[-1]
            words = f"internal error, {type(error).__name__}: {str(error)[:200]} ({where.name}:{where.lineno})"
            plan, graphs = GraphPlan("stock", reason=words, frame=frame), None
        together = [*self._beside(frame), plan]
        self.plans.append(plan)
        if self._observer is not None:
            self._observer(plan)
        number = len(self.plans)
        if graphs is None:
            warn(f"no plan for graph {number}, PyTorch's own partitioner takes it: {plan.reason}")
            graphs = stock()
        self._warn_of_the_sum(together)
        for graph in graphs:
            graph.meta[_MARK] = number
        return graphs

    def plan_of(self, graph: fx.GraphModule) -> GraphPlan | None:
        """The plan of either pass, which may be compiled after other graphs have come; none of a graph that was not partitioned."""
        number = graph.meta.get(_MARK)
        return self.plans[number - 1] if number is not None else None

    def _planned(self, module: fx.GraphModule, static: Sequence[int], frame: tuple[int, int]) -> tuple[Joint, GraphPlan]:
        """The fastest plan, and the graph that it is of."""
        considered = self._considered(module, static)
        first = considered[0]
        budget = _without_rests(self._share(self.settings.budget.resolve(first.peak), frame), first.peak, first.device)
        plans, refused = list[tuple[Joint, GraphPlan]](), list[PlanError]()
        for one in considered:
            try:
                plans.append((one.joint, self._planned_graph(one, budget)))
            except PlanError as error:
                refused.append(error)
        if not plans:
            raise self._with_what_would_do(refused[0], considered)
        joint, plan = min(plans, key=lambda pair: pair[1].time_ns)
        return joint, replace(plan, frame=frame)

    def _considered(self, module: fx.GraphModule, static: Sequence[int]) -> list[_Considered]:
        """The graph; and that without pads of products, where more of its results lie over their operands."""
        plain = self._analysed(module, static, {})
        unpadded = Unpadded.of(module) if self.settings.fuse and self.settings.apply == "schedule" else None
        if unpadded is None:
            return [plain]
        other = self._analysed(unpadded.module, static, unpadded.instead)
        return [plain, other] if other.peak < plain.peak else [plain]

    def _analysed(self, module: fx.GraphModule, static: Sequence[int], instead: Mapping[fx.Node, fx.Node]) -> _Considered:
        joint = Joint(module, self.forward_outputs, static, fuse=self.settings.fuse,
                      # Repeated by PyTorch's partitioner, it reads running statistics that have moved on.
                      repeat_batch_norm=self.settings.apply == "schedule")
        device = _device(joint)
        return _Considered(joint, device, cache(partial(self._instances, joint, device, costs_for(self.settings.cost, device, instead))))

    def _planned_graph(self, one: _Considered, budget: int) -> GraphPlan:
        """With channels-last copies where inductor makes them: on a GPU always, on a CPU if the plan with them is no slower by
        more than what they bring."""
        plans, refused = list[GraphPlan](), PlanError()
        for turned_copies in self._copies(one):
            try:
                plans.append(self._planned_with(turned_copies, one, budget))
            except PlanError as error:
                refused = error
            if plans and plans[0].overhead <= _CHANNELS_LAST_GAIN:
                break
        if not plans:
            raise refused
        return min(plans, key=lambda plan: plan.time_ns / (1 + _CHANNELS_LAST_GAIN * plan.channels_last))

    def _copies(self, one: _Considered) -> tuple[int, ...]:
        """Bytes of channels-last copies, as a plan may have them."""
        copies = layout_copies(one.joint) if self.settings.fuse and self.settings.channels_last else 0
        return (copies, 0) if copies and one.device.type == "cpu" else (copies,)

    def _with_what_would_do(self, refused: PlanError, considered: list[_Considered]) -> PlanError:
        """The same, with the least budgets where it says that the budget is too small. What is known is looked for by a short search, for
        schedules, and where nobody else waits."""
        if not isinstance(refused, TooSmall):
            return refused
        candidates = [merged for one in considered for copies in self._copies(one) for merged in one.instances(copies)]
        merged = min(candidates, key=lambda merged: least.bound(merged.instance))
        device, peak = considered[0].device, considered[0].peak

        def peak_within(budget: int) -> int:
            key = store.digest(f"{budget}\n{json.dumps(merged.instance)}")
            found = planner.solve(merged.instance, budget, min(self.settings.seconds, _LEAST_SECONDS), key)
            if merged.reads_overwritten(found.operators):
                raise PlanError("it reads what was overwritten")
            return found.peak_bytes

        budget = None
        if self.settings.apply == "schedule" and not _has_others():
            needed = least.known(merged.instance, peak_within)
            budget = min(peak, math.ceil(needed / (1 - _RESTS)) if device.type == "cuda" else needed)
        return TooSmall(f"{refused}; {least.words(merged.instance, peak, budget)}")

    def _instances(self, joint: Joint, device: torch.device, costs: Costs, copies: int) -> list[Merged]:
        """With results over operands that end there, and without. PyTorch's partitioner, told a set, does not keep units together."""
        instance = document(joint, costs, "graph", Workspaces(device, channels_last=copies > 0, compiled=self.settings.fuse), copies)
        merged = [Merged.of(joint, instance)] if self.settings.fuse and self.settings.apply == "schedule" else []
        return [*(one for one in merged if one.parts), Merged(instance)]

    def _planned_with(self, copies: int, one: _Considered, budget: int) -> GraphPlan:
        """On one rank where there are several: a plan found elsewhere might be another one."""
        joint = one.joint
        merged, solution = self._first_planned(one.instances(copies), joint, budget, copies)
        instance = merged.instance
        plain, ids = planner.plain(instance), Ids(joint)
        names = {entry["id"]: entry["name"] for entry in instance["operators"]}
        before, after = map(_flat, planner.units_of(ids, solution.operators, merged.parts))
        saved = {t for i in kept_at_the_cut(joint, before, after) for t in joint.units[i].makes}
        return GraphPlan(
            "planned" if solution.again else "kept", len(joint.units), budget, solution.time_ns, solution.peak_bytes,
            plain.time_ns, plain.peak_bytes, fixed_bytes(instance) - copies, copies + sum(map(storage_bytes, saved)),
            {names[o]: n for o, n in solution.again.items()}, note=solution.note, cached=solution.cached, device=one.device.type,
            channels_last=copies > 0, instance=instance, operators=solution.operators, parts=merged.parts)

    def _first_planned(self, instances: list[Merged], joint: Joint, budget: int, copies: int) -> tuple[Merged, Solution]:
        """The first that has a plan which reads nothing that was overwritten; in the last one nothing is."""
        refused: list[PlanError] = []
        for merged in instances:
            key = store.digest(f"{self.settings.key()} {budget} {copies} {merged.parts}\n{canonical(joint)}")
            try:
                solution = _agreed(partial(self._solved, joint, merged.instance, budget, key))
            except PlanError as error:
                refused.append(error)
                continue
            if not merged.reads_overwritten(solution.operators):
                return merged, solution
        raise refused[0]

    def _note_compilation(self, frame: tuple[int, int]) -> None:
        """Code that is compiled as often as before was forgotten by the compiler, with all that came before it."""
        compilation = torch._guards.CompileContext.try_get()
        if compilation is not self._compilation:
            self._compilation = compilation
            if any(plan.frame == frame for plan in self.plans[self._begin:]):
                self._begin = len(self.plans)

    def _beside(self, frame: tuple[int, int]) -> list[GraphPlan]:
        """The graphs of the same iteration that came before (graph breaks, parts of DDP)."""
        latest: dict[tuple[int, int, int], GraphPlan] = {}
        for index, plan in enumerate(self.plans[self._begin:]):
            if plan.frame[0] == frame[0] and plan.frame != frame:
                continue  # the same code compiled for other shapes: not there at the same time
            same = plan.frame == frame
            latest[(plan.frame[0], plan.frame[1] if same else -1, index if same else -1)] = plan
        return list(latest.values())

    def _share(self, budget: int, frame: tuple[int, int]) -> int:
        """Bytes that are left where other graphs of the same iteration came before."""
        before = self._beside(frame)
        if self.settings.budget.bytes is None or not before:
            return budget
        left = budget - sum(plan.held_bytes for plan in before)
        warn(f"the network is compiled in several graphs: {mb(max(left, 0))} of {mb(budget)} are left for this one. "
             "A budget in percent is shared evenly")
        if left <= 0:
            raise PlanError("the graphs before this one take the whole budget")
        return left

    def _warn_of_the_sum(self, plans: list[GraphPlan]) -> None:
        """Of parameters and gradients of later graphs, which are there when the backward pass of an earlier one runs, nothing was known
        when that one was planned."""
        budget = self.settings.budget.bytes
        peaks = [plan.peak_bytes + sum(earlier.held_bytes for earlier in plans[:i])
                 + sum(later.fixed_bytes + later.gradient_bytes for later in plans[i + 1:]) for i, plan in enumerate(plans)]
        if budget is not None and len(plans) > 1 and max(peaks) > budget:
            warn(f"the budget does not hold: the {len(plans)} graphs of the network take {mb(max(peaks))} with what is there of the "
                 f"others, {mb(max(peaks) - budget)} more than the budget")

    def _solved(self, joint: Joint, instance: Instance, budget: int, key: str) -> Solution:
        seconds = self.settings.seconds
        if self.settings.apply == "schedule":
            return planner.solve(instance, budget, seconds, key)
        needs = []
        for share in _SET_TRIES:
            found = planner.solve(instance, int(budget * share), seconds, f"{key}-{share}")
            as_set = self._as_set(joint, instance, found)
            if as_set.peak_bytes <= budget:
                return replace(as_set, budget_bytes=budget)
            needs.append(as_set.peak_bytes)
        raise PlanError(f"no set of saved values was found within {mb(budget)} (the best needs {mb(min(needs))}); "
                        "apply='schedule' can use any schedule")

    def _as_set(self, joint: Joint, instance: Instance, found: Solution) -> Solution:
        ids = Ids(joint)
        keep = kept_at_the_cut(joint, *map(_flat, planner.units_of(ids, found.operators, {})))
        before, after = order_of_set(joint, keep)
        order = [*(ids.of(u) for u in before), ids.cut, *(ids.of(u) for u in after)]
        steps = Steps(instance, order)
        again = {operator: times - 1 for operator, times in sorted(Counter(order).items()) if times > 1}
        return replace(found, operators=order, time_ns=steps.time, peak_bytes=max(steps.memory), again=again)

    def _applied(self, joint: Joint, plan: GraphPlan, stock: Callable[[], Graphs]) -> Graphs:
        before, after = planner.units_of(Ids(joint), plan.operators, plan.parts)
        assert plan.instance is not None
        room = Room(Steps(plan.instance, plan.operators), plan.budget_bytes)
        if self.settings.apply == "schedule":
            return scheduled(joint, before, after, room)
        return tagged(joint, _flat(before), _flat(after), room, stock)


def _flat(steps: Iterable[Iterable[int]]) -> list[int]:
    return [unit for units in steps for unit in units]


def _without_rests(budget: int, peak: int, device: torch.device) -> int:
    """What plans for a GPU may use: its allocator gives a tensor a free block that is up to 1 MiB larger, and which one is not foreseen.
    ResNet-50 took up to 0.7 % more than planned on an H200, GPT-2 0.04 %."""
    return budget - round(budget * _RESTS) if device.type == "cuda" and budget < peak else budget


def _agreed(find: Callable[[], Solution]) -> Solution:
    """What rank 0 finds, on every rank."""
    if not _has_others():
        return find()
    told: list[Any] = [None, False]
    if torch.distributed.get_rank() == 0:
        try:
            told = [asdict(find()), False]
        except Exception as error:  # or the others wait for ever
            told = [str(error) or type(error).__name__, isinstance(error, TooSmall)]
    with without_fakes():
        torch.distributed.broadcast_object_list(told, src=0)
    found, too_small = told
    if not isinstance(found, dict):
        raise (TooSmall if too_small else PlanError)(str(found))
    return Solution(**found)


def _has_others() -> bool:
    """Whether other ranks plan the same graph."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _frame() -> tuple[int, int]:
    """Which code is compiled, and the how-manieth time."""
    identity = torch._guards.CompileContext.current_compile_id()
    return (int(identity.frame_id or 0), int(identity.frame_compile_id or 0)) if identity is not None else (0, 0)


def _device(joint: Joint) -> torch.device:
    for node in joint.primals:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            return value.device
    return torch.device("cpu")
