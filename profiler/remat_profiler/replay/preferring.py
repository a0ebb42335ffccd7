"""What other implementations cost in reality, in schedules that run everything once.

A family is what must be chosen together: an implementation that saves a tensor and those that read it, or a single
one. `table` runs each family of an instance against the default implementations, default and family in turn, so that
both see the same machine.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import TextIO

from ..documents import Instance
from ..errors import ProfilerError
from . import measure
from .job import Bench, tolerance_of
from .machine import Machine
from .once import store_all
from .plan import Compute, Plan, expectation, plan


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
        compared, _ = bench.judged(outcome, tolerance_of(chosen))
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
