"""Many replays from a list, in slices: each goes to a file of its own, and what is there is not run again.

A line of the list is INSTANCE, SCHEDULE and RECORD, paths separated by tabs and relative to the list's folder;
in place of a schedule may stand `baseline:NAME`. A fourth path is a plan of addresses: the schedule runs in its arena.
Lines of the same instance stand together: it is traced once.
A replay that fails leaves a record with the field `error` and nothing measured. Needs torch and this package, nothing else.
"""

from __future__ import annotations

import gc
import json
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from .. import instance as files
from ..allocator import plan_cuda
from ..documents import Record
from ..errors import ProfilerError
from ..harvest.deadline import Deadline
from . import record
from .arena import read_places
from .arena_replay import replay_in_arena
from .baselines import measured
from .job import Bench, Settings, bench, replay
from .plan import read_document

BASELINE = "baseline:"
ARCHIVE = "records.tar.gz"
UNFINISHED = 75
# Tracing a large network, and packing at the end.
RESERVE_SECONDS = 45.0


@dataclass(frozen=True)
class Line:
    """One replay to do."""

    instance: Path
    schedule: str
    record: Path
    plan: Path | None = None


def read_list(path: Path) -> list[Line]:
    """The lines of a list; refuses one that is none."""
    try:
        rows = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ProfilerError(f"cannot read '{path}': {error.strerror}") from error
    found = []
    for number, row in enumerate(rows, 1):
        parts = row.split("\t")
        if len(parts) not in (3, 4) or not all(parts):
            raise ProfilerError(f"'{path}', line {number}: expected INSTANCE, SCHEDULE and RECORD, and perhaps PLAN, separated by tabs")
        found.append(Line(path.parent / parts[0], parts[1], *(path.parent / part for part in parts[2:])))
    return found


def run(path: Path, settings: Settings, seconds: float | None, report: Callable[[str], None]) -> bool:
    """Goes through a list until it or the time is at its end; whether all records are there."""
    lines = read_list(path)
    unpack(path.parent)
    if settings.device == "cuda" and any(line.plan for line in lines):
        plan_cuda()
    deadline = None if seconds is None else Deadline(seconds)
    made: tuple[Path, Bench | ProfilerError] | None = None
    started, done = time.monotonic(), 0
    there = [line.record for line in lines if line.record.exists()]
    otherwise = sum(_samples(path) not in (None, settings.repeats) for path in there)
    if otherwise:
        report(f"{otherwise} of {len(there)} records that are there have another number of timed iterations than {settings.repeats}: "
               "remove those to measure them again")
    for number, line in enumerate(lines, 1):
        if line.record.exists():
            continue
        if deadline is not None and deadline.passed(RESERVE_SECONDS):
            report(f"time is up: {sum(line.record.exists() for line in lines)} of {len(lines)} records are there")
            return False
        if made is None or made[0] != line.instance:
            made = None
            _clear(settings.device)
            made = line.instance, _bench(line.instance, settings)
        result = _one(line, made[1], path.parent, settings)
        line.record.parent.mkdir(parents=True, exist_ok=True)
        record.write(result, line.record)
        done += 1
        report(f"[{number}/{len(lines)}] {line.record.parent.name}/{line.record.name}: {_words(result)}")
    report(f"all {len(lines)} records are there; {done} made in {time.monotonic() - started:.0f} s")
    return True


def _samples(path: Path) -> int | None:
    """How many timed iterations a record has; none where nothing was measured."""
    try:
        return len(json.loads(path.read_text(encoding="utf-8"))["time_ns"]["samples"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _clear(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def _bench(path: Path, settings: Settings) -> Bench | ProfilerError:
    """The network, or why there is none: every line of it then says so."""
    try:
        return bench(read_document(path, "instance"), settings)
    except ProfilerError as error:
        return error
    except torch.OutOfMemoryError as error:
        return ProfilerError(f"the network and its inputs do not fit: {str(error).splitlines()[0]}")


def _one(line: Line, made: Bench | ProfilerError, root: Path, settings: Settings) -> Record:
    try:
        if isinstance(made, ProfilerError):
            raise made
        if line.schedule.startswith(BASELINE):
            return measured(made, line.schedule.removeprefix(BASELINE))
        schedule = read_document(root / line.schedule, "schedule")
        return replay(made, schedule) if line.plan is None else replay_in_arena(made, schedule, read_places(line.plan))
    except (ProfilerError, torch.OutOfMemoryError) as error:
        failed: Record = {"format": record.FORMAT, "version": record.VERSION, "instance": files.stem(line.instance)}
        return failed | {"device": {"kind": settings.device}, "error": " ".join(str(error).split())[:300]}


def _words(made: Record) -> str:
    if "error" in made:
        return f"error: {made['error']}"
    same = {True: "equal", False: "DIFFERENT", None: "not compared"}[made["equality"]["equal"]]
    if not made.get("arena", {}).get("equal_to_plain", True):
        same = "DIFFERENT from the plain replay"
    return f"{same}, {made['time_ns']['median'] / 1e6:.2f} ms, peak {made['memory']['allocated_peak_bytes']}"


def pack(root: Path) -> Path:
    """All records in one file, for a machine that gives few files back."""
    archive, partial = root / ARCHIVE, root / (ARCHIVE + ".partial")
    with tarfile.open(partial, "w:gz") as packed:
        for path in sorted((root / "records").rglob("*.json")):
            packed.add(path, path.relative_to(root))
    partial.replace(archive)
    return archive


def unpack(root: Path) -> None:
    """Records of an earlier slice, where the files themselves did not stay."""
    archive = root / ARCHIVE
    if archive.exists() and not (root / "records").exists():
        with tarfile.open(archive) as packed:
            packed.extractall(root, filter="data")
