"""Costs of operators where they run: inside whole iterations, with every step stamped.

An operator that runs alone finds warm caches and mapped memory, so that simulated iterations are too short. Here the machine
runs whole schedules, several of them in turn: everything once, the schedules that are given, whose repetitions are measured where
they stand, and everything once with each family of other implementations, for the costs of those that the others do not run. A
step lasts until the next one begins, so that the steps of an iteration sum to it. Dropping a tensor counts for the run that made
it. What is taken is the mean over the middle half of the iterations by their whole time: unlike medians of steps, such means sum
to the iteration.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..costs.measure import interquartile_range
from ..documents import Instance, Schedule
from . import measure, preferring
from .job import Bench
from .machine import Machine, Stamps
from .once import store_all
from .plan import Move, Plan, expectation, makes, plan

STATISTIC = "mean of the middle half of the iterations"
# An operator and the implementation that ran.
Run = tuple[int, str]


@dataclass
class Runs:
    """What one schedule says of its runs, in nanoseconds: first runs, repetitions, and how far iterations were apart."""

    first: dict[Run, list[float]] = field(default_factory=dict)
    again: dict[Run, list[float]] = field(default_factory=dict)
    spread: dict[Run, float] = field(default_factory=dict)

    def all(self, run: Run) -> list[float]:
        """Of every time that the implementation ran."""
        return [*self.first.get(run, ()), *self.again.get(run, ())]


@dataclass(frozen=True)
class Measured:
    """An instance with costs measured within iterations, and what changed. Times of whole iterations that run everything once, in
    nanoseconds: by the instance as it was, by the new one, and by the clock, without stamps and in turn with the others. `again`
    is the median over operators of the time of a repetition over that of the first run, of `repeated` operators."""

    instance: Instance
    alone: int
    within: int
    executed: int
    again: float | None
    repeated: int


def measured(bench: Bench, schedules: Sequence[Schedule] = ()) -> Measured:
    """The instance of `bench` with the times of what its schedules run, measured in whole iterations."""
    instance = bench.instance
    asked = [store_all(instance), *schedules]
    asked += [store_all(instance, family) for family in preferring.families(instance)]
    machines = [Machine(plan(instance, schedule), bench.trace, bench.module, bench.device) for schedule in asked]
    taken: list[list[list[int]]] = [[] for _ in machines]

    def stamped(machine: Machine, samples: list[list[int]]) -> None:
        stamps = Stamps(bench.device)
        machine.run(bench.inputs, stamps=stamps)
        samples.append(stamps.durations())

    repeats = bench.settings.repeats
    runs: list[measure.Iteration] = [partial(machines[0].run, bench.inputs), *(partial(stamped, *pair) for pair in zip(machines, taken))]
    executed = measure.in_turn(runs, bench.device, repeats)[0].median
    bench.fresh()
    found = [_runs(machine.plan, samples[measure.WARM_UP :]) for machine, samples in zip(machines, taken)]
    usual = 1 + len(schedules)
    made = _document(instance, found[:usual], found[usual:], repeats)
    ratios = [statistics.fmean(again) / statistics.fmean(of_one.first[run])
              for of_one in found for run, again in of_one.again.items() if run in of_one.first and min(of_one.first[run]) > 0]
    alone, within = (expectation(plan(entry, asked[0])).time for entry in (instance, made))
    return Measured(made, alone, within, executed,
                    statistics.median(ratios) if ratios else None, len(ratios))


def _runs(chosen: Plan, samples: list[list[int]]) -> Runs:
    runs, costs = list(_costs(chosen, samples[0])), [[cost for _, _, cost in _costs(chosen, sample)] for sample in samples]
    middle = _middle(costs)
    found = Runs()
    for at, (run, again, _) in enumerate(runs):
        side = found.again if again else found.first
        side.setdefault(run, []).append(statistics.fmean(cost[at] for cost in middle))
        found.spread.setdefault(run, interquartile_range(sorted(float(cost[at]) for cost in costs)))
    return found


def _middle(iterations: list[list[int]]) -> list[list[int]]:
    """Those whose whole times are neither among the lowest nor among the highest quarter."""
    ordered = sorted(iterations, key=sum)
    cut = len(ordered) // 4
    return ordered[cut : len(ordered) - cut]


def _costs(chosen: Plan, durations: list[int]) -> Iterator[tuple[Run, bool, int]]:
    """What each compute step cost, in order, with the dropping of what it made; whether its operator had run before."""
    operators, maker = chosen.operators, dict[int, int]()
    runs: list[tuple[Run, bool]] = []
    costs: list[int] = []
    seen: set[int] = set()
    for step, lasted in zip(chosen.steps, durations, strict=True):
        if isinstance(step, Move):
            at = maker.get(step.tensor) if step.verb == "free" else None
            if at is not None:
                costs[at] += lasted
            continue
        runs.append(((step.operator, step.implementation["name"]), step.operator in seen))
        costs.append(lasted)
        seen.add(step.operator)
        maker |= dict.fromkeys(makes(operators[step.operator], step.implementation), len(costs) - 1)
    yield from ((run, again, cost) for (run, again), cost in zip(runs, costs))


def _document(instance: Instance, usual: list[Runs], families: list[Runs], repeats: int) -> Instance:
    made = copy.deepcopy(instance)
    before = made["provenance"]["times"]
    alone = 0
    for operator in made["operators"]:
        default = operator["implementations"][0]["name"]
        for entry in operator["implementations"]:
            run = operator["id"], entry["name"]
            found = [runs for runs in usual if runs.all(run)] or [runs for runs in families if runs.all(run)]
            if found:
                entry["time"] = max(1, round(statistics.fmean(statistics.fmean(runs.all(run)) for runs in found)))
                entry["spread"] = round(statistics.median(runs.spread[run] for runs in found))
                entry.pop("origin", None)  # of the time that it had
            elif entry.get("recompute"):  # no schedule repeats it: as the tracer has it, the cost of the first run
                entry["time"] = next(i["time"] for i in operator["implementations"] if i["name"] == default)
            else:
                entry["origin"] = before
                alone += 1
    made["provenance"]["times"] = {"kind": "measured", "samples": repeats, "statistic": STATISTIC}
    made["provenance"]["notes"] = [
        *made["provenance"].get("notes", []),
        f"times measured within whole iterations of {len(usual) + len(families)} schedules in turn, "
        f"{len(usual) - 1} of them given",
        *([f"{alone} implementations were run by none of them, and keep the time that they had"] if alone else [])]
    return made
