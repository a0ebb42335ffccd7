"""`harvest all`: one slice of everything, in child processes, and the archive to bring back.

A child that dies is started again while there is time: `convolutions` records the algorithm that
killed it, `networks` the network. Needs torch and this package, nothing else: no compiler, network,
cargo, pip or zstandard.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from ..convolutions import table
from ..errors import ProfilerError
from . import networks
from .convolutions import short_table
from .deadline import Deadline, Report

ARCHIVE = "harvest.tar.gz"
CONVOLUTIONS = "cudnn.csv"
NETWORKS = "networks"
STATE = "state.json"
# Starting a child and importing torch, and packing at the end.
START_SECONDS, PACK_SECONDS = 20.0, 15.0
UNFINISHED, LOST = 75, 76
# Of a slice, while there are networks to do: neither stage starves the other.
CONVOLUTION_SHARE = 0.6


@dataclass(frozen=True)
class Plan:
    """What `harvest all` was asked for."""

    device: str
    output: Path
    convolutions: list[Path]
    networks: Path | None
    slice_seconds: float
    dtypes: list[str]
    repeats: int
    plain: bool = False
    split: bool = True
    reserve: tuple[float, float] = (START_SECONDS, PACK_SECONDS)


def run(plan: Plan, report: Report = print) -> bool:
    """Runs one slice; whether everything is done."""
    started = time.monotonic()
    resume(plan.output)
    deadline = Deadline(plan.slice_seconds)
    state = _state(plan.output)
    for name, command in _stages(plan):
        if state.get(name):
            report(f"{name}: done in an earlier slice")
            continue
        share = Deadline(deadline.left * CONVOLUTION_SHARE) if name == "convolutions" and not state.get("networks") else deadline
        state[name] = _stage(name, command, plan, share, report)
        _write_state(plan.output, state)
    finished = all(state.get(name) for name, _ in _stages(plan))
    archive = pack(plan.output)
    report(overview(plan.output))
    word = "finished" if finished else "unfinished: run the same command again"
    report(f"{word}; this slice took {time.monotonic() - started:.0f} s; {archive.name} has {archive.stat().st_size} bytes")
    return finished


def _stages(plan: Plan) -> list[tuple[str, list[str]]]:
    common = ["--device", plan.device, "--repeats", str(plan.repeats)]
    sources = [str(path) for path in plan.convolutions]
    first = ["convolutions", *common, "--from", *sources, "-o", str(plan.output / CONVOLUTIONS)]
    second = ["networks", *common, "-o", str(plan.output / NETWORKS)]
    if plan.networks is not None:
        second += ["--list", str(plan.networks)]
    second += ["--plain"] * plan.plain + ["--split"] * plan.split
    stages = [("convolutions", first), ("networks", second)]
    if plan.dtypes:
        stages.append(("convolutions in " + ", ".join(plan.dtypes), [*first, "--dtypes", *plan.dtypes]))
    return stages


def _stage(name: str, command: list[str], plan: Plan, deadline: Deadline, report: Report) -> bool:
    """Starts children until one says that all is done, or time is up."""
    start, reserve = plan.reserve
    crashes = 0
    while deadline.left > start + reserve and crashes < 20:
        budget = deadline.left - reserve - start / 2
        report(f"{name}: {budget:.0f} s")
        code = _child([*command, "--budget-seconds", f"{budget:.0f}"], deadline.left - reserve / 2)
        if code == 0:
            return True
        if code == UNFINISHED:
            return False
        if code == 2:
            raise ProfilerError(f"{name} refused its request (see above)")
        crashes += 1
        report(f"{name}: the child ended with {code}; starting another one")
        if code != LOST and name == "networks":
            _blame(plan.output / NETWORKS, code)
    report(f"{name}: no time left in this slice" if crashes < 20 else f"{name}: gave up after {crashes} crashes")
    return False


def _child(arguments: list[str], limit: float) -> int:
    """A child in its own process; killed when it overruns, which its own budget should prevent."""
    command = [sys.executable, "-u", "-m", "remat_profiler", "harvest", *arguments]
    child = subprocess.Popen(command)
    try:
        return child.wait(limit)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return -9
    except BaseException:
        child.kill()
        child.wait()
        raise


def _blame(output: Path, code: int) -> None:
    """A network that killed its process is not tried again."""
    path = output / networks.CURRENT
    if path.exists():
        name = path.read_text(encoding="utf-8").strip()
        failures = networks.read_failures(output)
        failures[name] = f"the process ended with {code}"
        (output / networks.FAILURES).write_text(json.dumps(failures, indent=1) + "\n", encoding="utf-8")
        path.unlink()


def _state(output: Path) -> dict[str, bool]:
    path = output / STATE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _write_state(output: Path, state: dict[str, bool]) -> None:
    (output / STATE).write_text(json.dumps(state) + "\n", encoding="utf-8")


def resume(output: Path) -> None:
    """Unpacks an archive of an earlier slice where its files are not there yet."""
    output.mkdir(parents=True, exist_ok=True)
    archive = output / ARCHIVE
    if archive.exists() and not (output / STATE).exists():
        with tarfile.open(archive) as packed:
            packed.extractall(output, filter="data")


def pack(output: Path) -> Path:
    """Everything in one file: a machine that gives few files back gives this one."""
    archive, partial = output / ARCHIVE, output / (ARCHIVE + ".partial")
    with tarfile.open(partial, "w:gz", compresslevel=6) as packed:
        for path in sorted(output.rglob("*")):
            if path.is_file() and path not in (archive, partial) and not path.name.endswith((".partial", ".log")):
                packed.add(path, path.relative_to(output))
    partial.replace(archive)
    return archive


def overview(output: Path) -> str:
    """The short table."""
    lines = []
    rows = []
    with contextlib.suppress(ProfilerError):
        rows = table.read(output / CONVOLUTIONS)
    if rows:
        lines.append(f"{len(rows)} rows on {rows[0].device} ({rows[0].software})")
        lines.append(short_table(rows))
    made = sorted(path.name.removesuffix(networks.SUFFIX) for path in (output / NETWORKS).glob("*" + networks.SUFFIX))
    lines.append(f"{len(made)} networks measured: {', '.join(made) or 'none'}")
    failures = networks.read_failures(output / NETWORKS)
    lines += [f"  failed: {name}: {reason}" for name, reason in failures.items()]
    return "\n".join(lines)
