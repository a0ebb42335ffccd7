"""What runs uncompiled: where the compiler cannot go on after a graph break (in a loop, say), it leaves the whole function to Python;
elsewhere it leaves the call at which the graph breaks.

Nothing of either comes to a partition function. The compiler's own records of compilations and graph breaks say where they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch._dynamo import utils

_SHOWN = 5
_CALLS = ("a call ran outside of the plans, and the budget does not hold there: no compiled graph ran. A function that is compiled as "
          "often as torch._dynamo.config.recompile_limit allows runs uncompiled from then on")


class Frame(NamedTuple):
    """A function, and the line at which the compiler gave it up."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.name}, {self.file}:{self.line}"


@dataclass
class Outside:
    """Frames that fell back, and lines at which a graph broke, each once; and whether a whole call ran without any graph."""

    frames: list[Frame] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    calls: bool = False

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Adds what the compiler leaves meanwhile. A frame that it gave up in evaluation it does not try again in training, so both count.
        It keeps its latest 64 records: of more compilations in one call the first ones are lost."""
        before, broken = utils.get_compilation_metrics(), len(utils.graph_break_reasons)
        yield
        known = set(map(id, before))
        for record in utils.get_compilation_metrics():
            if id(record) not in known and record.fail_type is not None and record.co_name is not None:
                here = record.fail_user_frame_lineno if record.fail_user_frame_filename == record.co_filename else None
                _add(self.frames, Frame(record.co_name, record.co_filename or "?", here or record.co_firstlineno or 0))
        for reason in utils.graph_break_reasons[broken:]:
            if reason.user_stack:
                _add(self.breaks, f"{reason.user_stack[-1].filename}:{reason.user_stack[-1].lineno}")

    def fallen_back(self) -> str:
        """How many frames there are, and where; nothing of none."""
        if not self.frames:
            return ""
        many = f"{len(self.frames)} frames fell back to eager and lie" if len(self.frames) > 1 else "1 frame fell back to eager and lies"
        return f"{many} outside of the plan: {_first(self.frames)}"

    def lines(self) -> list[str]:
        """All of it."""
        calls = f"what is called where a graph breaks lies outside of the plan: {_first(self.breaks)}" if self.breaks else ""
        return [line for line in (self.fallen_back(), calls, _CALLS if self.calls else "") if line]


def _add(known: list[Any], one: object) -> None:
    if one not in known:
        known.append(one)


def _first(things: Sequence[object]) -> str:
    return "; ".join(map(str, things[:_SHOWN])) + ("; ..." if len(things) > _SHOWN else "")
