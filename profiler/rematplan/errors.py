"""What can go wrong, for users: each message says what happened and what to do."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from types import FrameType

from remat_profiler.errors import ProfilerError


class PlanError(ProfilerError):
    """There is no plan: the budget cannot be met, or the planner is not there."""


class Refused(PlanError):
    """A module or graph that plans are not made for; the text says why."""


class PlanWarning(UserWarning):
    """A graph runs with PyTorch's own partitioner, or with less of the budget, and why."""


_OURS = str(Path(__file__).parent) + os.sep


def warn(message: str) -> None:
    """A `PlanWarning` at the line of the user that called this package, which may be far below the compiler."""
    import torch

    theirs = str(Path(torch.__file__).parent) + os.sep
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    entered = max((level for level, frame in enumerate(frames) if frame.f_code.co_filename.startswith(_OURS)), default=0)
    users = (level for level, frame in enumerate(frames) if level > entered and not frame.f_code.co_filename.startswith(theirs))
    warnings.warn(message, PlanWarning, stacklevel=2 + next(users, entered))
