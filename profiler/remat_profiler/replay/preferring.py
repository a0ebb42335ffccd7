"""Schedules that run everything once with chosen implementations, and what those cost in reality.

A family is what must be chosen together: an implementation that saves a tensor and those that read it, or a single
one. `table` runs each family of an instance against the default implementations, default and family in turn, so that
both see the same machine.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Collection, Iterator
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import TextIO

from ..documents import SCHEDULE_FORMAT, VERSION, Implementation, Instance, Operator, Schedule, Step
from ..errors import ProfilerError
from . import measure
from .job import Bench, tolerance_of
from .machine import Machine
from .plan import Compute, Plan, expectation, makes, plan


def families(instance: Instance) -> list[tuple[str, ...]]:
    """Names of implementations other than the first of their operator, those that need each other together.

    Algorithms of cuDNN are left out: PyTorch lets nobody choose one."""
    saving: dict[int, list[str]] = {}
    single: dict[str, None] = {}
    pairs: dict[tuple[str, ...], None] = {}
    for operator in instance["operators"]:
        for entry in operator["implementations"][1:]:
            if entry.get("recompute") or entry["name"].startswith("cudnn:"):
                continue
            for tensor in entry.get("saves", []):
                saving.setdefault(tensor, []).append(entry["name"])
            if not entry.get("saves"):
                single[entry["name"]] = None
    for operator in instance["operators"]:
        for entry in operator["implementations"][1:]:
            makers = {maker: None for tensor in entry.get("inputs", []) for maker in saving.get(tensor, [])}
            if makers:
                single.pop(entry["name"], None)
                pairs |= {tuple(dict.fromkeys((maker, entry["name"]))): None for maker in makers}
    return [*pairs, *((name,) for name in single)]


def store_all(instance: Instance, preferred: Collection[str] = ()) -> Schedule:
    """The schedule that runs everything once, in order, with the preferred implementations where they fit together,
    and frees each tensor after its last reader."""
    chosen = {op["id"]: next((i for i in op["implementations"] if i["name"] in preferred), op["implementations"][0])
              for op in instance["operators"]}
    while (bad := _misfit(instance, chosen)) is not None:
        chosen[bad["id"]] = bad["implementations"][0]
    operators = {op["id"]: op for op in instance["operators"]}
    kept = {t["id"] for t in instance["tensors"] if t["kind"] in ("input", "output", "param_gradient")}
    last: dict[int, int] = {}
    gone: set[int] = set()
    for id in instance["order"]:
        for tensor in [*_reads(operators[id], chosen[id]), *makes(operators[id], chosen[id])]:
            last[tensor] = id
        gone |= {chosen[id]["in_place"]["input"]} if "in_place" in chosen[id] else set()
    steps: list[Step] = []
    for id in instance["order"]:
        steps.append({"compute": id, "implementation": chosen[id]["name"]})
        steps += [{"free": t} for t, reader in last.items() if reader == id and t not in kept | gone]
    return {"format": SCHEDULE_FORMAT, "version": VERSION, "instance": instance["name"], "method": "store-all", "steps": steps}


def _reads(operator: Operator, implementation: Implementation) -> list[int]:
    return implementation.get("inputs", operator["inputs"])


def _misfit(instance: Instance, chosen: dict[int, Implementation]) -> Operator | None:
    """The first operator that reads what nobody made, or overwrites what somebody reads later."""
    operators = {op["id"]: op for op in instance["operators"]}
    there = {t["id"] for t in instance["tensors"] if t["kind"] == "input"}
    last = {tensor: at for at, id in enumerate(instance["order"]) for tensor in _reads(operators[id], chosen[id])}
    for at, id in enumerate(instance["order"]):
        operator = operators[id]
        if not set(_reads(operator, chosen[id])) <= there:
            if chosen[id] is operator["implementations"][0]:  # its producer does not save what the default reads
                if "differentiates" not in operator:
                    raise ProfilerError(f"operator {id} ({operator['name']}) reads what nobody makes before it")
                return operators[operator["differentiates"]]
            return operator
        if "in_place" in chosen[id]:
            taken = chosen[id]["in_place"]["input"]
            if last[taken] > at:
                return operator
            there.discard(taken)
        there |= set(makes(operator, chosen[id]))
    return None


@dataclass(frozen=True)
class Cost:
    """What a family changes against the defaults: simulated from the instance's numbers, and executed.

    Times in nanoseconds per iteration, peaks in bytes; `executed_spread_ns` is the interquartile range of the
    differences, `simulated_default_ns` what the whole iteration takes with the defaults."""

    instance: str
    family: str
    operators: int
    equal: bool
    simulated_time_ns: int
    executed_time_ns: int
    executed_spread_ns: int
    simulated_default_ns: int
    executed_default_ns: int
    simulated_peak_bytes: int
    executed_peak_bytes: int


def costs(bench: Bench, wanted: list[tuple[str, ...]]) -> Iterator[Cost]:
    """The cost of each family, in their order; those that fit no operator are left out."""
    default = plan(bench.instance, store_all(bench.instance))
    base = _Ready(bench, default)
    for family in wanted:
        chosen = plan(bench.instance, store_all(bench.instance, family))
        uses = sum(isinstance(step, Compute) and step.implementation["name"] in family for step in chosen.steps)
        if uses:
            yield _cost(bench, family, uses, base, _Ready(bench, chosen))


class _Ready:
    """A schedule of single runs that may be run and measured."""

    def __init__(self, bench: Bench, chosen: Plan) -> None:
        self.machine = Machine(chosen, bench.trace, bench.module, bench.device)
        self.expected, self.bench = expectation(chosen), bench
        outcome = bench.outcome(lambda: self.machine.run(bench.inputs))
        compared = bench.compared(outcome, tolerance_of(chosen))
        self.equal = compared is not None and compared.equal
        bench.fresh()
        self.peak = measure.peaks(self.run, bench.device, bench.resident_bytes).allocated

    def run(self) -> None:
        """One iteration."""
        self.machine.run(self.bench.inputs)


def _cost(bench: Bench, family: tuple[str, ...], uses: int, base: _Ready, other: _Ready) -> Cost:
    taken = measure.in_turn([base.run, other.run], bench.device, bench.settings.repeats)
    apart = [b - a for a, b in zip(*(times.samples for times in taken))]
    return Cost(
        bench.instance["name"], "+".join(family), uses, other.equal,
        other.expected.time - base.expected.time, round(statistics.median(apart)), measure.Times(apart).spread,
        base.expected.time, taken[0].median,
        other.expected.peak_bytes - base.expected.peak_bytes, other.peak - base.peak,
    )


def table(bench: Bench, path: Path) -> Iterator[Cost]:
    """Appends a row per family to a CSV, each at once; families that are there are not run again."""
    name = bench.instance["name"]
    done = {row["family"] for row in _rows(path) if row["instance"] == name}
    with _opened(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        if not file.tell():
            writer.writerow([field.name for field in fields(Cost)])
        for cost in costs(bench, [family for family in families(bench.instance) if "+".join(family) not in done]):
            writer.writerow(astuple(cost))
            file.flush()
            yield cost


def _opened(path: Path) -> TextIO:
    try:
        return path.open("a", newline="", encoding="utf-8")
    except OSError as error:
        raise ProfilerError(f"cannot write '{path}': {error.strerror}") from error


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def words(cost: Cost) -> str:
    """A row, for people."""
    entry = asdict(cost)
    shown = {key: f"{entry[key] / 1e6:+.3f}" for key in ("simulated_time_ns", "executed_time_ns")}
    return (f"{cost.family} ({cost.operators} operators{'' if cost.equal else ', DIFFERENT'}): time {shown['executed_time_ns']} ms, "
            f"simulated {shown['simulated_time_ns']}; peak {cost.executed_peak_bytes:+d} bytes, "
            f"simulated {cost.simulated_peak_bytes:+d}")
