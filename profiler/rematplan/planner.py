"""Asks `bench` for a schedule of an instance, or for addresses of buffers, and says what is in it.

`bench` comes with the package (`pip install .` builds it) or is named by REMAT_BENCH. The method is `auto`: several
methods work together for the seconds given, less where they prove their schedule optimal.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from remat_profiler import check
from remat_profiler.documents import Instance

from . import store
from .budget import mb
from .errors import PlanError
from .instance import Ids
from .room import Steps

_GRACE_SECONDS = 30


def binary() -> Path:
    """Where `bench` is."""
    named = os.environ.get("REMAT_BENCH")
    if named:
        if not (Path(named).is_file() and os.access(named, os.X_OK)):
            raise PlanError(f"REMAT_BENCH names no program: {named}")
        return Path(named)
    beside = Path(__file__).parent / "bin" / "bench"
    found = str(beside) if beside.is_file() else shutil.which("bench")
    if found is None:
        raise PlanError("the planner `bench` is not installed: `pip install ./profiler` brings it, or name it in REMAT_BENCH")
    return Path(found)


def version() -> str:
    """Of the planner, and which build of it: a plan of another one is another plan."""
    path = binary()
    try:
        built = path.stat()
        said = subprocess.run([str(path), "--version"], capture_output=True, text=True, errors="replace", check=True,
                              timeout=_GRACE_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise PlanError(f"the planner {path} does not run: {error}") from error
    if not said.startswith("bench "):
        raise PlanError(f"{path} is not the planner: asked for its version, `bench` says its name (does REMAT_BENCH name another program?)")
    return f"{said.strip()}, {built.st_size} bytes of {built.st_mtime_ns}"


@dataclass(frozen=True)
class Solution:
    """A schedule by ids of operators, and what the simulator says of it. Bytes include parameters and inputs."""

    operators: list[int]
    time_ns: int
    peak_bytes: int
    plain_time_ns: int
    plain_peak_bytes: int
    budget_bytes: int
    note: str
    cached: bool = False
    again: dict[int, int] = field(default_factory=dict)


def plain(instance: Instance) -> Solution:
    """Every operator once, in order, everything kept until its last use."""
    summary = check.store_all(instance)
    return Solution(instance["order"], summary.time_ns, summary.peak_bytes, summary.time_ns, summary.peak_bytes,
                    summary.peak_bytes, "nothing runs again")


def solve(instance: Instance, budget_bytes: int, seconds: float, key: str) -> Solution:
    """A schedule within the budget: from the disk where the same was asked before, else by `bench`."""
    kept = plain(instance)
    if kept.peak_bytes <= budget_bytes:
        return Solution(**(asdict(kept) | {"budget_bytes": budget_bytes}))
    file = store.folder("plans") / f"{key}.json"
    known = _known(file, instance, kept, budget_bytes)
    if known is not None:
        return known
    with _scratch() as scratch:
        solution = _ask(instance, kept, budget_bytes, seconds, scratch)
    store.write(file, asdict(solution))
    return solution


def _known(file: Path, instance: Instance, kept: Solution, budget_bytes: int) -> Solution | None:
    """A plan from the disk, if it is one of this instance: what is damaged is made anew."""
    found = store.read(file)
    if not isinstance(found, dict):
        return None
    try:
        order: list[int] = found["operators"]
        if any(type(operator) is not int for operator in order):
            return None
        steps, runs = Steps(instance, order), Counter(order)
        solution = _solution(order, steps.time, found["peak_bytes"], kept, budget_bytes, str(found["note"]))
        again = {tensor for entry in instance["operators"] if runs[entry["id"]] > 1 for tensor in entry["outputs"]}
        # Outputs that are made again the planner frees between, and `Steps` does not.
        freed = sum(entry["bytes"] for entry in instance["tensors"] if entry["kind"] == "output" and entry["id"] in again)
        right = found["time_ns"] == steps.time and max(steps.memory) - freed <= solution.peak_bytes <= max(steps.memory)
    except (TypeError, LookupError, ValueError, AttributeError, PlanError):
        return None
    legal = all(runs[entry["id"]] == 1 or entry["recomputable"] and runs[entry["id"]] for entry in instance["operators"])
    return replace(solution, cached=True) if right and legal and solution.peak_bytes <= budget_bytes else None


def _solution(order: list[int], time: int, peak: int, kept: Solution, budget_bytes: int, note: str) -> Solution:
    again = {operator: times - 1 for operator, times in sorted(Counter(order).items()) if times > 1}
    return Solution(order, time, peak, kept.time_ns, kept.peak_bytes, budget_bytes, note, again=again)


def _ask(instance: Instance, kept: Solution, budget_bytes: int, seconds: float, scratch: Path) -> Solution:
    made, answer = scratch / "instance.json", scratch / "schedule.json"
    made.write_text(json.dumps(instance), encoding="utf-8")
    command = [str(binary()), "solve", str(made), "--budget", f"{budget_bytes}B", "--time-limit", f"{seconds:g}",
               "--format", "json", "--output", str(answer)]
    try:
        record = json.loads(_said(command, seconds))
    except _Unsolved as error:
        if not str(error).startswith("no schedule of "):
            raise
        said = str(error).partition(": ")[2]
        raise TooSmall(f"no plan within {mb(budget_bytes)} (keeping everything needs {mb(kept.peak_bytes)}): {said}") from error
    steps = [step["compute"] for step in json.loads(answer.read_text(encoding="utf-8"))["steps"] if "compute" in step]
    return _solution(steps, record["simulated_time"], record["simulated_peak"], kept, budget_bytes, record["note"])


class TooSmall(PlanError):
    """No plan was found within the budget."""


class _Unsolved(PlanError):
    """The planner's own words."""


@dataclass(frozen=True)
class Packed:
    """Offsets of buffers in one arena, its height, and the least height that there can be."""

    offsets: list[int]
    height: int
    bound: int


def pack(buffers: Sequence[tuple[int, int, int]], alignment: int, seconds: float) -> Packed:
    """Addresses for buffers (alive from a moment until before another, and as large), by `bench allocate`."""
    if not buffers:
        return Packed([], 0, 0)
    with _scratch() as scratch:
        asked, answer = scratch / "buffers.csv", scratch / "packed.csv"
        rows = (f"{number},{lower},{upper},{size}\n" for number, (lower, upper, size) in enumerate(buffers))
        asked.write_text("id,lower,upper,size\n" + "".join(rows), encoding="utf-8")
        record = json.loads(_said([str(binary()), "allocate", str(asked), "--alignment", str(alignment), "--threads", "1",
                                   "--time-limit", f"{seconds:g}", "--format", "json", "--output", str(answer)], seconds))
        with answer.open(encoding="utf-8", newline="") as file:
            offsets = {int(row["id"]): int(row["offset"]) for row in csv.DictReader(file)}
    return Packed([offsets[number] for number in range(len(buffers))], record["memory"], record["bound"])


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for what is asked and answered."""
    try:
        with tempfile.TemporaryDirectory(prefix="rematplan-") as folder:
            yield Path(folder)
    except OSError as error:
        raise PlanError(f"the planner cannot be asked: {error}") from error


def _said(command: list[str], seconds: float) -> str:
    version()  # or the words of another program would be taken for the planner's
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=2 * seconds + _GRACE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise PlanError(f"the planner did not end within {error.timeout:g} seconds") from error
    if done.returncode:
        # What each of its methods said follows the outcome.
        words = (done.stderr.strip() or "no message").splitlines()[-1].removeprefix("error: ").partition(": store-all:")[0]
        raise _Unsolved(words[:400])
    return done.stdout


def units_of(ids: Ids, operators: Sequence[int], parts: Mapping[int, Sequence[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Units before and after the cut, in the order of the schedule, those of one step together; `parts` has the operators that an
    operator stands for."""
    if operators.count(ids.cut) != 1:
        raise PlanError("the schedule ends the forward pass more than once, or never")
    at = operators.index(ids.cut)

    def units(operator: int) -> list[int]:
        return [unit for part in parts.get(operator, (operator,)) if (unit := ids.unit(part)) is not None]

    return [units(o) for o in operators[:at]], [units(o) for o in operators[at + 1 :]]
