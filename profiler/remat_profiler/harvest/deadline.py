"""When to stop."""

from __future__ import annotations

import time
from collections.abc import Callable

# Takes a line for people.
Report = Callable[[str], object]


class Deadline:
    """A budget of seconds from now on."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, not below 0."""
        return max(0.0, self._end - time.monotonic())

    def passed(self, reserve: float = 0.0) -> bool:
        """Whether fewer than `reserve` seconds are left."""
        return self.left <= reserve
