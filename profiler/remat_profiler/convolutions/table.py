"""The table of algorithms: one row for each convolution, arithmetic, and algorithm.

Measured and modelled rows have the same columns; `origin` tells them apart. A row is appended and
flushed as soon as it is known, so that a harvest may stop anywhere; a line that was cut short is
dropped when the file is read again.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .. import whole
from ..errors import ProfilerError
from . import problem
from .problem import Convolution

OK = "ok"
MEASURED, MODELLED, PUBLISHED = ORIGINS = ("measured", "modelled", "published")
COLUMNS = (
    "device", "software", *problem.FIELDS, "math", "algorithm", "status", "time_ns", "spread_ns", "samples",
    "workspace_bytes", "math_type", "determinism", "origin",
)


@dataclass(frozen=True)
class Ran:
    """What a row says that is `ok`; `samples` is 0 where nobody says of how many."""

    time_ns: int
    workspace_bytes: int
    samples: int


@dataclass(frozen=True)
class Row:
    """One algorithm of one convolution.

    `math` is what was asked for (`fp32`, `tf32`, `fp16`, `bf16`, `fp64`), `math_type` what cuDNN says
    it used. `status` is `ok`, or why there is no time. `time_ns` is the median of `samples` runs,
    `spread_ns` their interquartile range; both are None where nothing ran. `origin` is `measured`, `modelled`, or
    `published`: then `software` names the publication and, after a comma, the place.
    """

    device: str
    software: str
    convolution: Convolution
    math: str
    algorithm: str
    status: str
    time_ns: int | None = None
    spread_ns: int | None = None
    samples: int | None = None
    workspace_bytes: int | None = None
    math_type: str = ""
    determinism: str = ""
    origin: str = MEASURED

    @property
    def key(self) -> tuple[Convolution, str, str]:
        """What a resumed harvest skips."""
        return self.convolution, self.math, self.algorithm

    @property
    def ran(self) -> Ran:
        """Of a row that is `ok`; raises `ProfilerError` for another."""
        if self.status != OK or self.time_ns is None or self.workspace_bytes is None:
            raise ProfilerError(f"a row without time or workspace: {self.cells()}")
        return Ran(self.time_ns, self.workspace_bytes, self.samples or 0)

    def cells(self) -> dict[str, str]:
        """As columns."""
        own = {name: getattr(self, name) for name in COLUMNS if name not in problem.FIELDS}
        text = {name: "" if value is None else str(value) for name, value in own.items()}
        return text | self.convolution.cells()

    @classmethod
    def of_cells(cls, cells: dict[str, str]) -> Row:
        """From columns; raises `ProfilerError`."""
        try:
            time_ns, spread_ns, samples, workspace_bytes = (
                int(cells[name]) if cells[name] else None for name in ("time_ns", "spread_ns", "samples", "workspace_bytes"))
            made = cls(
                cells["device"], cells["software"], Convolution.of_cells(cells), cells["math"], cells["algorithm"], cells["status"],
                time_ns, spread_ns, samples, workspace_bytes, cells["math_type"], cells["determinism"], cells["origin"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProfilerError(f"not a row of a table of algorithms: {cells}") from error
        if made.origin not in ORIGINS:
            raise ProfilerError(f"origin '{made.origin}' is not one of {', '.join(ORIGINS)}: {cells}")
        if made.status == OK and (time_ns is None or workspace_bytes is None):
            raise ProfilerError(f"a row says ok without time or workspace: {cells}")
        if made.status == OK and made.origin == MEASURED and not samples:
            raise ProfilerError(f"a measured row says ok without samples: {cells}")
        return made


def read(path: Path) -> list[Row]:
    """All complete rows of a table."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProfilerError(f"cannot read '{path}': {error.strerror}") from error
    rows = list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])))
    if rows and set(rows[0]) != set(COLUMNS):
        raise ProfilerError(f"'{path}' is no table of algorithms: its columns are {', '.join(map(str, rows[0]))}")
    return [Row.of_cells(row) for row in rows]


def write(rows: Iterable[Row], path: Path) -> None:
    """A whole table at once."""
    whole.write_table(path, COLUMNS, (row.cells() for row in rows))


class Appender:
    """Adds rows to a table, each flushed at once; mends a last line that was cut short."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            data = path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            if whole != data:
                path.write_bytes(whole)
        self._fresh = not path.exists() or not path.stat().st_size
        self.known = {} if self._fresh else {row.key: row for row in read(path)}
        self._file = path.open("a", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._file, COLUMNS, lineterminator="\n")
        if self._fresh:
            self._writer.writeheader()

    def add(self, row: Row) -> None:
        """Appends and flushes to the disk."""
        self._writer.writerow(row.cells())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.known[row.key] = row

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
