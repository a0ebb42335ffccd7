"""What can go wrong, for users: each message says what happened and what to do."""

from __future__ import annotations

from remat_profiler.errors import ProfilerError


class PlanError(ProfilerError):
    """There is no plan: the budget cannot be met, or the planner is not there."""


class Refused(PlanError):
    """A module or graph that plans are not made for; the text says why."""


class PlanWarning(UserWarning):
    """A graph runs with PyTorch's own partitioner, or with less of the budget, and why."""
