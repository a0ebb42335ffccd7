"""Frames that run uncompiled: where the compiler cannot go on after a graph break (in a loop, say), it leaves the whole function to Python.

Nothing of such a frame comes to a partition function. The compiler's own records of compilations say which frames these are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch._dynamo import utils

_SHOWN = 5


class Frame(NamedTuple):
    """A function, and the line at which the compiler gave it up."""

    name: str
    file: str
    line: int


@contextlib.contextmanager
def noted(frames: list[Frame]) -> Iterator[None]:
    """Adds the frames that the compiler gives up meanwhile, each once; those of evaluation do not count. The compiler keeps its latest 64
    records, so that of more than these compilations in one call the first ones are lost."""
    before = utils.get_compilation_metrics()
    yield
    known = set(map(id, before))
    for record in utils.get_compilation_metrics() if torch.is_grad_enabled() else ():
        if id(record) not in known and record.fail_type is not None and record.co_name is not None:
            here = record.fail_user_frame_lineno if record.fail_user_frame_filename == record.co_filename else None
            frame = Frame(record.co_name, record.co_filename or "?", here or record.co_firstlineno or 0)
            if frame not in frames:
                frames.append(frame)


def words(frames: Sequence[Frame]) -> str:
    """How many there are, and where."""
    many = f"{len(frames)} frames fell back to eager and lie" if len(frames) != 1 else "1 frame fell back to eager and lies"
    shown = "; ".join(f"{frame.name}, {frame.file}:{frame.line}" for frame in frames[:_SHOWN])
    return f"{many} outside of the plan: {shown}{'; ...' if len(frames) > _SHOWN else ''}"
