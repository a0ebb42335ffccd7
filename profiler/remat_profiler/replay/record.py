"""RECORD.json: what one replay, or one of the framework's own ways, came to. docs/reference/formats.md has the fields."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import torch

from .. import whole
from ..costs.measure import device_of
from ..documents import Instance, Record, Schedule
from ..errors import ProfilerError
from .machine import Account
from .measure import Cap, Peaks, Times
from .plan import Expectation
from .reference import Comparison

FORMAT, VERSION = "remat-replay", 1
_SHOWN = 10


def header(instance: Instance, method: str, device: str, seed: int) -> Record:
    """Who ran what, on what."""
    return {
        "format": FORMAT, "version": VERSION, "instance": instance["name"], "method": method,
        "model": instance["provenance"]["model"], "batch_size": instance["provenance"].get("batch_size"),
        "device": {"kind": device, **device_of(device)},
        "framework": {"name": "pytorch", "version": torch.__version__},
        "threads": torch.get_num_threads(), "seed": seed,
    }


def of_schedule(schedule: Schedule) -> Record:
    """What ties the record to the schedule file."""
    kept: Record = {key: value for key, value in schedule.items()
                    if key in ("instance_hash", "budget_bytes", "claimed_time", "claimed_peak_bytes")}
    return kept | {"steps": len(schedule["steps"])}


def of_expectation(expected: Expectation) -> Record:
    """What the instance's own numbers say; equal to the simulator's."""
    return {
        "time_ns": expected.time, "peak_bytes": expected.peak_bytes,
        "storage_peak_bytes": expected.peak_storage_bytes,
        "recomputations": sum(runs - 1 for runs in expected.runs.values() if runs > 1),
    }


def of_comparison(found: Comparison | None) -> Record:
    """Equality with the framework's own iteration; unknown where that does not fit the device."""
    if found is None:
        return {"equal": None, "bitwise": 0, "within_tolerance": 0, "words": "plain training does not fit this device"}
    entry: Record = {
        "equal": found.equal, "bitwise": found.bitwise, "within_tolerance": len(found.within),
        "tolerance": found.tolerance,
        "different": [{"name": d.name, "relative": _number(d.relative)} for d in found.beyond[:_SHOWN]],
        "missing": found.missing[:_SHOWN],
    }
    if found.worst is not None:
        entry["worst"] = {"name": found.worst.name, "relative": _number(found.worst.relative)}
    return entry


def _number(value: float) -> float | str:
    return value if value != float("inf") else "not a number"


def of_times(times: Times) -> Record:
    """Median and interquartile range, and the samples themselves."""
    return {"median": times.median, "spread": times.spread, "samples": times.samples}


def of_ratio(times: Times, reference: Times, simulated: float) -> Record:
    """How much longer than the reference, by samples taken in turn and by the instance's times."""
    pairs = [one / other for one, other in zip(times.samples, reference.samples, strict=True)]
    return {"executed": statistics.median(pairs), "simulated": simulated}


def of_peaks(peaks: Peaks, account: Account | None) -> Record:
    """The allocator's peaks; the executor's own count of storages where there is one."""
    entry: Record = {"before_bytes": peaks.before, "allocated_peak_bytes": peaks.allocated}
    if peaks.reserved is not None:
        entry |= {"reserved_peak_bytes": peaks.reserved, "fragmentation_bytes": peaks.fragmentation}
    if account is not None:
        entry["storage_peak_bytes"] = account.peak_bytes
        if account.odd_sizes:
            entry["odd_sizes"] = dict(list(account.odd_sizes.items())[:_SHOWN])
    return entry


def of_cap(cap: Cap) -> Record:
    """Whether it fits, and what it took."""
    entry: Record = {"limit_bytes": cap.limit, "fits": cap.fits}
    if cap.peaks is not None:
        entry |= {"allocated_peak_bytes": cap.peaks.allocated, "reserved_peak_bytes": cap.peaks.reserved,
                  "fragmentation_bytes": cap.peaks.fragmentation}
    return entry | ({"words": cap.words} if cap.words else {})


def check_output(path: Path) -> None:
    """Refuses, before the work starts, a record that could not be written."""
    if path.suffix != ".json":
        raise ProfilerError(f"output '{path}' must end in .json")
    if not path.parent.is_dir():
        raise ProfilerError(f"the folder of output '{path}' does not exist")


def write(record: Record, path: Path) -> None:
    """As JSON."""
    whole.write(path, json.dumps(record, indent=1) + "\n")
