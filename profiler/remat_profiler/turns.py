"""Processes that share a GPU take turns, so that one's work does not show in another's times.

All that name the same file in REMAT_DEVICE_LOCK do. Work that is not measured (`prepare`) may go on in several of them at once,
and none of it while one measures (`measure`), which then has the device until it ends. What only the CPU does, tracing for one,
needs neither. Without the variable nobody waits.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TextIO

VARIABLE = "REMAT_DEVICE_LOCK"


def prepare() -> None:
    """Waits until nobody measures."""
    _take(fcntl.LOCK_SH)


def measure() -> None:
    """Waits until nobody measures or prepares; from then on, to its end or until it is `done`, this process has the device."""
    _take(fcntl.LOCK_EX)


def done() -> None:
    """This process leaves the device to others."""
    global _measuring
    _measuring = False
    _take(fcntl.LOCK_UN)


@contextmanager
def taken() -> Iterator[None]:
    """Processes started meanwhile take turns: by the file that the variable names, or by one of their own."""
    if VARIABLE in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="remat-turns-") as folder:
        os.environ[VARIABLE] = os.path.join(folder, "lock")
        try:
            yield
        finally:
            del os.environ[VARIABLE]


_measuring = False


def _take(kind: int) -> None:
    global _measuring
    if os.environ.get(VARIABLE) and not _measuring:
        fcntl.flock(_file(), kind)
        _measuring = kind == fcntl.LOCK_EX


@cache
def _file() -> TextIO:
    return open(os.environ[VARIABLE], "w", encoding="utf-8")  # noqa: SIM115 (open as long as the process)
