"""Measures training within budgets against what users have, and writes the page: `python -m rematplan.page OUT`.

Every row (`compared.Row`) is measured in a process of its own, which a limit ends, and is added to OUT/compiled.csv when it
is there. Rows that are there are kept, so that a measurement that was killed goes on where it stopped; but a row of ours is
measured again when all are there and its rival is no longer the fastest. With `--jobs` several compile at once and are timed in
turn. The page is OUT/README.md, made from the rows alone and written whenever there are new ones.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from itertools import islice
from pathlib import Path

import torch

from remat_profiler import turns, whole
from remat_profiler.allocator import plan_cuda
from remat_profiler.errors import ProfilerError

from .compared import Bench, Conditions, Row, methods, rival_of
from .costs import speed_of
from .errors import PlanError
from .networks import NETWORKS, SIZES

UNFINISHED = 75
_LIMIT_SECONDS = 900.0
# The signal that told this process to end: the row's process ends first.
_TOLD: list[int] = []


def read(path: Path) -> list[Row]:
    """The rows that are there."""
    if not path.is_file():
        return []
    convert: dict[str, Callable[[str], object]] = {"int": int, "float": float, "str": str}
    kinds = {field.name: convert[str(field.type)] for field in fields(Row)}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [Row(**{name: kinds[name](value) for name, value in row.items()}) for row in csv.DictReader(file)]  # type: ignore[arg-type]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ProfilerError(f"'{path}' is no table of measured rows: {error}") from error


def write(path: Path, rows: Sequence[Row]) -> None:
    """All of them, whole or not at all."""
    whole.write_table(path, [field.name for field in fields(Row)], (asdict(row) for row in rows))


# The page.

def page(rows: Sequence[Row], size: str) -> str:
    """The page, from the rows alone."""
    names = [name for name in NETWORKS if any(row.network == name for row in rows)]
    # Rows that are kept say "1 threads".
    devices = "; ".join(dict.fromkeys(re.sub(r"\b1 threads\b", "1 thread", row.device) for row in rows if row.device))
    lines = [
        "# Training within a budget", "",
        f"Measured on {devices or 'no device yet'}. A row is one training iteration: forward, loss and backward, "
        "without the optimizer.", "",
        "* **peak**: the largest number of bytes that the allocator had handed out at once, with parameters and inputs, in MB. An arena "
        "counts whole.",
        "* **time**: over that of `torch.compile`, the median of pairs of iterations taken in turn, ± their interquartile range.",
        "* **rival**: the fastest other method that needs no more memory, and the row's time over its, taken in turn as well.",
        "* **budget**: of rematplan's rows, a share of the eager peak.", "",
        f"{'`just gpu`' if size == 'cuda' else '`just compiled`'} makes this page; [compiled.csv](compiled.csv) has every figure.", "",
        "## Summary", "",
        "*Time at equal peak* is rematplan's time over the rival's: the median, the best and the worst row. Of two equal methods "
        "about half of the rows are above 1.", "",
        "| network | eager peak | within the budget | lowest peak of the others | of rematplan | time at equal peak |",
        "|---|---|---|---|---|---|"]
    lines += [_summary(name, [row for row in rows if row.network == name]) for name in names]
    for name in names:
        mine = [row for row in rows if row.network == name]
        lines += ["", f"## {name}", "", f"{NETWORKS[name][SIZES.index(size)].words}.", "",
                  "| method | setting | budget | planned peak | peak | time | gradients off by | rival |",
                  "|---|---|---|---|---|---|---|---|",
                  *map(_line, mine)]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    start = f"| {row.method} | {row.setting} | {_mb(row.budget_bytes)} | {_mb(row.planned_peak_bytes)} |"
    if row.error:
        return f"{start} | {_escaped(row.error)} | | |"
    rival = ", ".join(filter(None, (f"{row.against:.2f} ± {row.against_noise:.2f}" if row.against else "", row.rival)))
    return (f"{start} {_mb(row.peak_bytes)}{' (over)' if row.over else ''} | {row.slower:.2f} ± {row.noise:.2f} "
            f"| {row.difference:.0e} | {rival} |")


def _summary(name: str, rows: list[Row]) -> str:
    ours = [row for row in rows if row.ours]
    done = [row for row in ours if not row.error]
    theirs = [row for row in rows if not row.ours and not row.error]
    eager = next((row.peak_bytes for row in theirs if row.method == "eager"), 0)
    planless = sum(row.error.startswith(f"{PlanError.__name__}:") for row in ours)
    lacking = ((planless, "without a plan"), (len(ours) - len(done) - planless, "failed"))
    kept = f"{sum(not row.over for row in done)} of {len(done)}"
    if done != ours:
        kept += f" ({', '.join(f'{count} {words}' for count, words in lacking if count)})"
    ratios = [row.against for row in done if row.against]
    compared = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}; {_counted(len(ratios), 'row')})" if ratios else ""
    lowest = (_mb(min((row.peak_bytes for row in side), default=0)) for side in (theirs, done))
    return f"| {name} | {_mb(eager)} | {kept} | {' | '.join(lowest)} | {compared} |"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f}" if size else ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


# The measurement.

def wanted(names: Sequence[str], only: Sequence[str] | None) -> Iterator[tuple[str, str, str]]:
    """Keys of rows in the order in which they are measured; `only` has METHOD or METHOD:SETTING, and `eager` is always there."""
    for pairs in methods():
        for name in names:
            yield from ((name, *pair) for pair in pairs if only is None or {pair[0], ":".join(pair)} & {"eager", *only})


def measured(key: tuple[str, str, str], others: Sequence[Row], conditions: Conditions, limit: float) -> Row:
    """A row, measured in a process of its own; one that ends without a row, or not in time, is a row that says so."""
    started, error = time.monotonic(), ""
    with tempfile.TemporaryDirectory(prefix="rematplan-row-") as scratch:
        answer = Path(scratch) / "row.json"
        request = {"key": key, "others": [asdict(row) for row in others], "conditions": asdict(conditions), "answer": str(answer)}
        child = subprocess.Popen([sys.executable, "-m", "rematplan.page", "--row", json.dumps(request)],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            while not error:
                try:
                    _, said = child.communicate(timeout=1.0)
                    error = _death(child.returncode, said)
                except subprocess.TimeoutExpired:
                    if _TOLD:
                        raise SystemExit(128 + _TOLD[0]) from None
                    if time.monotonic() - started > limit:
                        error = f"not done after {limit:.0f} s"
        finally:  # with what it started: the compiler's workers, the planner
            _end(child)
        row = Row(**json.loads(answer.read_text(encoding="utf-8"))) if answer.is_file() else Row(*key, error=error)
    return replace(row, seconds=round(time.monotonic() - started, 1))


def _end(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _death(code: int, said: str) -> str:
    if code < 0:
        return f"the process ended by {signal.Signals(-code).name}"
    lines = [line for line in said.splitlines() if line.strip()]
    message = next((line for line in reversed(lines) if re.match(r"[\w.]+: ", line)), lines[-1] if lines else "no message")
    return f"the process ended with code {code}: {message[:200]}"


def _row(request: str) -> int:
    """The child: measures one row into the file that the request names."""
    asked = json.loads(request)
    name, method, setting = asked["key"]
    others = [Row(**row) for row in asked["others"]]
    if method == "rematplan-arena" and asked["conditions"]["device"] == "cuda":
        plan_cuda()
    row = Bench(name, Conditions(**asked["conditions"])).row(method, setting, others)
    answer = Path(asked["answer"])
    partial = answer.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(row)), encoding="utf-8")
    partial.replace(answer)
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="rematplan.page", description="Measures training within budgets and writes the page. "
                                   "Exit code 0: all rows are there; 75: the time is over, run the same again.")
    made.add_argument("out", type=Path, help="folder of compiled.csv and README.md")
    made.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    made.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS), metavar="NAME")
    made.add_argument("--only", nargs="+", metavar="METHOD[:SETTING]", help="only these (always with eager)")
    made.add_argument("--size", choices=SIZES, help="trial, cpu or cuda (that of the device)")
    made.add_argument("--samples", type=int, default=9, help="timed iterations (9)")
    made.add_argument("--seconds", type=float, default=30.0, help="time of the planner for a graph (30)")
    made.add_argument("--limit", type=float, default=_LIMIT_SECONDS, help=f"seconds after which a row is given up ({_LIMIT_SECONDS:.0f})")
    made.add_argument("--jobs", type=int, default=1, help="rows that are prepared at once; they are timed one after the other (1)")
    made.add_argument("--slice-seconds", type=float, help="begin no row after this time, and exit with 75")
    made.add_argument("--retry", action="store_true", help="measure rows again that have an error")
    made.add_argument("--page-only", action="store_true", help="only write the page, from the rows that are there")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Measures what is not there yet; 2 with one line on stderr where OUT cannot be read or written."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--row"]:
        return _row(given[1])
    options = parser().parse_args(given)
    if options.jobs < 1:
        parser().error(f"--jobs {options.jobs}: at least one row at once")
    try:
        return _run(options)
    except ProfilerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    _make_folder(options.out)
    conditions = Conditions(options.size or options.device, options.device, options.samples, options.seconds)
    rows = [row for row in read(options.out / "compiled.csv") if not (options.retry and row.error)]
    keys = [] if options.page_only else list(wanted(options.networks, options.only))
    if keys:  # while nothing runs beside
        turns.measure()
        speed_of(torch.device(options.device))
        turns.done()
    before = signal.signal(signal.SIGTERM, lambda number, _: _TOLD.append(number))
    try:
        started = time.monotonic()
        done = _measured([key for key in keys if key not in {row.key for row in rows}], rows, options, conditions, started) \
            and _measured([row.key for row in rows if row.key in keys and _outrun(row, rows)], rows, options, conditions, started)
    finally:
        signal.signal(signal.SIGTERM, before)
    if done:
        _write_page(options.out, rows, conditions.size)
    return 0 if done else UNFINISHED


def _make_folder(out: Path) -> None:
    """The folder alone: what it would be in, if it is not there, is more likely a slip."""
    if not out.absolute().parent.is_dir():
        raise ProfilerError(f"the folder '{out.parent}', in which '{out.name}' would be, does not exist")
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise ProfilerError(f"cannot write '{out}': {error.strerror}") from error


def _outrun(row: Row, rows: list[Row]) -> bool:
    """Whether another than the row's rival is the fastest by now."""
    rival = rival_of(row, rows) if row.ours and not row.error else None
    return rival is not None and rival.words != row.rival


def _measured(todo: list[tuple[str, str, str]], rows: list[Row], options: argparse.Namespace, conditions: Conditions,
              started: float) -> bool:
    """Adds rows, each in the place of one that is there, until all are there, or the time is over."""
    file, left = options.out / "compiled.csv", iter(todo)
    number = 0
    while keys := list(islice(left, options.jobs)):
        if options.slice_seconds is not None and time.monotonic() - started > options.slice_seconds:
            left_over = len(todo) - number
            print(f"time is up: {_counted(left_over, 'row')} {'is' if left_over == 1 else 'are'} left", flush=True)
            return False
        for row in _at_once(keys, rows, options, conditions):
            number += 1
            rows[:] = [*(other for other in rows if other.key != row.key), row]
            words = row.error or f"{row.peak_bytes / 1e6:.1f} MB{' (over)' if row.over else ''}, {row.slower:.2f} +- {row.noise:.2f}" + (
                f", {row.against:.2f} +- {row.against_noise:.2f} of {row.rival}" if row.against else "")
            print(f"[{number}/{len(todo)}] {' '.join(filter(None, row.key))}: {words} ({row.seconds:.0f} s)", flush=True)
        write(file, rows)
        _write_page(options.out, rows, conditions.size)
    return True


def _at_once(keys: list[tuple[str, str, str]], rows: list[Row], options: argparse.Namespace, conditions: Conditions) -> list[Row]:
    """Rows that know the others of before, not each other."""
    def one(key: tuple[str, str, str]) -> Row:
        return measured(key, [other for other in rows if other.network == key[0] and not other.ours], conditions, options.limit)

    if len(keys) == 1:
        return [one(keys[0])]
    with turns.taken(), ThreadPoolExecutor(len(keys)) as pool:
        return list(pool.map(one, keys))


def _write_page(out: Path, rows: Sequence[Row], size: str) -> None:
    order = {key: index for index, key in enumerate((method, setting) for pairs in methods() for method, setting in pairs)}
    told = sorted(rows, key=lambda row: (order.get((row.method, row.setting), len(order))))
    whole.write(out / "README.md", page(told, size))


if __name__ == "__main__":
    sys.exit(main())
