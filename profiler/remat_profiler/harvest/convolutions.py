"""`harvest convolutions`: every algorithm of every convolution, one row at a time.

Rows that are in the table already are skipped. Before an algorithm runs, its key is written to a file
beside the table (`.inflight`) and removed afterwards: should the process die, the next one records
the status `crashed` for it and goes on with the rest.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..convolutions import Convolution, table
from ..convolutions.runners import DeviceLost, Prepared, Result, Runner, maths_of, runners
from ..convolutions.table import Row
from ..costs.measure import device_label
from .deadline import Deadline, Report

CRASHED = "crashed"
# A row is not begun with less time than this left: the largest take seconds to allocate and run.
RESERVE_SECONDS = 4.0


@dataclass(frozen=True)
class Outcome:
    """What a slice did."""

    finished: bool
    added: int
    skipped: int
    lost: str = ""


def with_dtypes(convolutions: list[Convolution], dtypes: list[str]) -> list[Convolution]:
    """The same convolutions again in other element types, after the original ones."""
    extra = [replace(c, dtype=dtype) for dtype in dtypes for c in convolutions if c.dtype == "float32"]
    return list(dict.fromkeys([*convolutions, *extra]))


def software(device: str) -> str:
    """Versions that the numbers depend on."""
    words = [f"torch {torch.__version__}"]
    if device == "cuda":
        words += [f"cuda {torch.version.cuda}", f"cudnn {torch.backends.cudnn.version()}"]
    return ", ".join(words)


class Harvest:
    """One table being filled."""

    def __init__(self, output: Path, device: str, used: list[Runner] | None = None, repeats: int = 10,
                 method: str = "runs") -> None:
        self.device, self.used = device, used or runners(device, repeats, method)
        self.label, self.software = device_label(device), software(device)
        self.rows = table.Appender(output)
        self.inflight = output.with_name(output.name + ".inflight")
        self.added = self.skipped = 0
        self._settle()

    def _settle(self) -> None:
        """A key that is still in flight belongs to a process that died."""
        if self.inflight.exists():
            try:
                noted = json.loads(self.inflight.read_text(encoding="utf-8"))
                key = Convolution.of_cells(noted["convolution"]), noted["math"], noted["algorithm"]
            except Exception:  # cut short while being written: nothing ran yet
                key = None
            if key is not None and key not in self.rows.known:
                self._add(*key, Result(CRASHED))
            self.inflight.unlink()

    def run(self, convolutions: list[Convolution], deadline: Deadline, report: Report = print) -> Outcome:
        """Fills the table until it is complete or time is up: fp32 of everything before any TF32."""
        units = [(c, maths) for c in convolutions for maths in enumerate(maths_of(c.dtype, self.device))]
        units.sort(key=lambda unit: unit[1][0])
        for index, (convolution, (_, math)) in enumerate(units):
            try:
                if not self._all_of(convolution, math, deadline):
                    report(f"  time is up at {index + 1} of {len(units)} ({math})")
                    return Outcome(False, self.added, self.skipped)
            except DeviceLost as lost:
                report(f"  {lost}")
                return Outcome(False, self.added, self.skipped, str(lost))
            if (index + 1) % 50 == 0 or index + 1 == len(units):
                report(f"  {index + 1} of {len(units)} convolutions ({math}), {self.added} rows added, "
                       f"{self.skipped} were there, {deadline.left:.0f} s left")
        return Outcome(True, self.added, self.skipped)

    def _all_of(self, convolution: Convolution, math: str, deadline: Deadline) -> bool:
        for runner in self.used:
            names = runner.algorithms(convolution)
            todo = [name for name in names if (convolution, math, name) not in self.rows.known]
            self.skipped += len(names) - len(todo)
            if todo and not self._these(runner, convolution, math, todo, deadline):
                return False
        return True

    def _these(self, runner: Runner, convolution: Convolution, math: str, todo: list[str], deadline: Deadline) -> bool:
        if deadline.passed(RESERVE_SECONDS):
            return False
        self._note(convolution, math, todo[0])
        try:
            prepared = runner.open(convolution, math)
        except Exception as error:
            self._give_up(convolution, math, todo, error)
            return True
        try:
            for algorithm in todo:
                if deadline.passed(RESERVE_SECONDS):
                    return False
                self._note(convolution, math, algorithm)
                self._add(convolution, math, algorithm, self._measured(prepared, algorithm))
        finally:
            self.inflight.unlink(missing_ok=True)
            self._clean_up(prepared)
        return True

    def _clean_up(self, prepared: Prepared) -> None:
        """Must not hide why a convolution ended: after a lost context freeing fails too."""
        with contextlib.suppress(Exception):
            prepared.close()
        if self.device == "cuda":
            with contextlib.suppress(Exception):
                torch.cuda.empty_cache()

    def _measured(self, prepared: Prepared, algorithm: str) -> Result | DeviceLost:
        try:
            return prepared.measure(algorithm)
        except DeviceLost as lost:
            return lost

    def _give_up(self, convolution: Convolution, math: str, todo: list[str], error: Exception) -> None:
        from ..convolutions.runners import status_of

        self.inflight.unlink(missing_ok=True)
        try:
            status = status_of(error)
        except DeviceLost:
            self._add(convolution, math, todo[0], Result("cuda-error"))
            raise
        for algorithm in todo:
            self._add(convolution, math, algorithm, Result(status))

    def _note(self, convolution: Convolution, math: str, algorithm: str) -> None:
        text = json.dumps({"convolution": convolution.cells(), "math": math, "algorithm": algorithm})
        self.inflight.write_text(text, encoding="utf-8")

    def _add(self, convolution: Convolution, math: str, algorithm: str, result: Result | DeviceLost) -> None:
        lost = result if isinstance(result, DeviceLost) else None
        told = Result("cuda-error") if isinstance(result, DeviceLost) else result
        self.rows.add(Row(
            self.label, self.software, convolution, math, algorithm, told.status, told.time_ns, told.spread_ns,
            told.samples, told.workspace_bytes, told.math_type, told.determinism, "measured",
        ))
        self.added += 1
        if lost:
            raise lost

    def close(self) -> None:
        """Closes the table."""
        self.rows.close()


def short_table(rows: list[Row]) -> str:
    """Per direction, arithmetic and algorithm: how many ran, how often each was fastest, workspace."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    best: dict[tuple[Convolution, str], Row] = {}
    for row in rows:
        groups.setdefault((row.convolution.direction, row.math, row.algorithm), []).append(row)
        case = (row.convolution, row.math)
        if row.status == table.OK and (case not in best or row.ran.time_ns < best[case].ran.time_ns):
            best[case] = row
    fastest = Counter((r.convolution.direction, r.math, r.algorithm) for r in best.values())
    text = [f"  {'direction':<16}{'math':<6}{'algorithm':<24}{'ok':>6}{'of':>6}{'fastest':>9}{'largest workspace':>19}"]
    for key in sorted(groups):
        fine = [row for row in groups[key] if row.status == table.OK]
        largest = max((row.ran.workspace_bytes for row in fine), default=0)
        text.append(f"  {key[0]:<16}{key[1]:<6}{key[2]:<24}{len(fine):>6}{len(groups[key]):>6}"
                    f"{fastest[key]:>9}{largest / 2**20:>15.1f} MiB")
    return "\n".join(text)
