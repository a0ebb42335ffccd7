"""`harvest networks`: whole networks with measured operators, the largest last.

Every operator that was measured is appended to `operators.csv` at once, so that a network that ran out
of time costs its trace only. Graphs are those of the committed instances (traced on fake CPU tensors)
unless an operator of such a graph does not run on the device: then the network is traced again on the
device's own fake tensors.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from pathlib import Path

from ..costs import Cost
from ..costs.measure import Measured
from ..errors import ProfilerError
from ..job import Job, run
from .deadline import Deadline, Report

OPERATORS = "operators.csv"
FAILURES = "failures.json"
# Names the network at work, for whoever finds its process dead.
CURRENT = "current"
COLUMNS = ("key", "operator", "time_ns", "spread_ns", "workspace_bytes")
RESERVE_SECONDS = 6.0
# fastsa needs timm and transformers, which the machine with the GPU need not have; rotor is large.
HARVESTED = ("resnet", "monet", "kusumoto", "checkmate")
# json.gz, not json.zst: the machine with the GPU need not have zstandard.
SUFFIX = ".json.gz"


class OutOfTime(Exception):
    """The slice ends; what was measured is kept."""


class OperatorCache(MutableMapping[str, Cost]):
    """Costs by the signature of the operator, in a file that grows with each new one."""

    def __init__(self, path: Path, deadline: Deadline) -> None:
        self.deadline, self._costs = deadline, {}
        data = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = data[: data.rfind("\n") + 1]
        if whole != data:
            path.write_text(whole, encoding="utf-8")
        for row in csv.DictReader(whole.splitlines()):
            self._costs[row["key"]] = Cost(int(row["time_ns"]), int(row["workspace_bytes"]), int(row["spread_ns"]))
        self._file = path.open("a", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._file, COLUMNS, lineterminator="\n")
        if not whole:
            self._writer.writeheader()

    @staticmethod
    def digest(signature: str) -> str:
        """Signatures are long; 80 bits of a hash tell them apart."""
        return hashlib.sha256(signature.encode()).hexdigest()[:20]

    def __contains__(self, signature: object) -> bool:
        """A miss means a measurement comes next: the place to stop."""
        found = self.digest(str(signature)) in self._costs
        if not found and self.deadline.passed(RESERVE_SECONDS):
            raise OutOfTime
        return found

    def __getitem__(self, signature: str) -> Cost:
        return self._costs[self.digest(signature)]

    def __setitem__(self, signature: str, cost: Cost) -> None:
        key = self.digest(signature)
        self._costs[key] = cost
        operator = signature.split("'")[1] if "'" in signature else signature[:40]
        self._writer.writerow({
            "key": key, "operator": operator, "time_ns": cost.time_ns, "spread_ns": cost.spread_ns or 0,
            "workspace_bytes": cost.workspace_bytes,
        })
        self._file.flush()

    def __delitem__(self, signature: str) -> None:
        del self._costs[self.digest(signature)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._costs)

    def __len__(self) -> int:
        return len(self._costs)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_jobs(path: Path, device: str, repeats: int) -> dict[str, Job]:
    """`NAME MODEL BATCH SHAPE [cpu|cuda]` a line; `#` begins a comment."""
    from ..cli import parse_shape

    jobs: dict[str, Job] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ProfilerError(f"cannot read '{path}': {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) not in (4, 5) or not words[2].isdigit() or words[4:] not in ([], ["cpu"], ["cuda"]):
            raise ProfilerError(f"'{path}', line {number}: expected NAME MODEL BATCH SHAPE [cpu|cuda], found '{line}'")
        traced_on = words[4] if len(words) == 5 else "cpu"
        jobs[words[0]] = Job(words[1], int(words[2]), parse_shape(words[3]), device, traced_on, repeats)
    return jobs


def default_jobs(device: str, repeats: int) -> dict[str, Job]:
    """The networks of some suites, the largest inputs last; those with counted costs have nothing to measure."""
    from ..suites import suite

    jobs = {name: job for chosen in HARVESTED for name, job in suite(chosen).items() if job.device.startswith("model:")}
    ordered = sorted(jobs, key=lambda name: (_size(jobs[name]), name))
    return {
        name: Job(jobs[name].model, jobs[name].batch, jobs[name].shape, device, "cpu", repeats) for name in ordered
    }


def variants(jobs: dict[str, Job], alternatives: bool, split: bool) -> dict[str, Job]:
    """Each network with all alternatives, and then each once more as NAME-split with split operators."""
    made = {name: replace(job, alternatives=alternatives, gist=alternatives) for name, job in jobs.items()}
    if split:
        made |= {f"{name}-split": replace(job, split_convolution_backward=True, split_batch_norm=True)
                 for name, job in made.items()}
    return made


def _size(job: Job) -> float:
    """A guess at how long measuring takes, for the order only."""
    pixels = 1
    for side in job.shape[1:]:
        pixels *= side
    digits = "".join(c for c in job.model.partition(":")[2].partition("-")[0] if c.isdigit())
    return job.batch * pixels * (int(digits) if digits else 50)


def harvest(jobs: dict[str, Job], output: Path, device: str, budget: float, report: Report = print) -> bool:
    """Writes the instances that are missing; whether all are there (or known to fail)."""
    output.mkdir(parents=True, exist_ok=True)
    deadline = Deadline(budget)
    cache = OperatorCache(output / OPERATORS, deadline)
    failures = read_failures(output)
    try:
        for name, job in jobs.items():
            path = output / f"{name}{SUFFIX}"
            if path.exists() or name in failures:
                continue
            if deadline.passed(RESERVE_SECONDS):
                report(f"  time is up before {name}")
                return False
            (output / CURRENT).write_text(name + "\n", encoding="utf-8")
            try:
                report("  " + _one(job, path, cache, report))
            except OutOfTime:
                (output / CURRENT).unlink()
                report(f"  time is up within {name}; {len(cache)} operators are measured so far")
                return False
            except ProfilerError as error:
                failures[name] = str(error)
                (output / FAILURES).write_text(json.dumps(failures, indent=1) + "\n", encoding="utf-8")
                report(f"  {name} failed: {error}")
            (output / CURRENT).unlink()
        return True
    finally:
        cache.close()


def read_failures(output: Path) -> dict[str, str]:
    path = output / FAILURES
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _one(job: Job, path: Path, cache: OperatorCache, report: Report) -> str:
    """Traces and measures; what fails is tried without alternatives, then traced on the device itself."""
    tried = [job, replace(job, alternatives=False, gist=False)]
    if job.device == "cuda" and job.trace_device != "cuda":
        tried += [replace(attempt, trace_device="cuda") for attempt in tried]
    reasons = []
    for attempt in dict.fromkeys(tried):
        try:
            return run(attempt, path, Measured(attempt.device, attempt.repeats, cache))
        except (OutOfTime, KeyboardInterrupt):
            raise
        except Exception as error:  # operators raise anything; one network must not end the harvest
            if "CUDA error" in str(error) and "out of memory" not in str(error):
                raise
            words = " ".join(str(error).split())[:160]
            extra = " with alternatives" if attempt.alternatives else ""
            reasons.append(f"traced on {attempt.trace_device}{extra}: {type(error).__name__}: {words}")
            report(f"  {path.name}: {reasons[-1]}")
    raise ProfilerError("; ".join(reasons))
