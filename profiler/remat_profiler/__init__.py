"""Traces one training iteration of a PyTorch network into an instance file of `bench`.

The pieces, each ignorant of the ones after it: `models` (what can be traced), `capture` (the joint
graph of AOTAutograd), `aliasing` (which value lives in which storage), `drawing` (what was drawn in place), `trace` (operators and
storages with their roles), `costs` (a time and a workspace per operator), `instance` (the file),
`check` (an independent self-check), `cli`, `allocator` (PyTorch's allocator, told addresses), `replay` (schedules run
for real).

`trace_module` and `Scheduled` are what a training script needs (TUTORIAL.md).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .capture import Example
    from .replay.scheduled import Scheduled
    from .replay.tracing import trace_module

__all__ = ["Example", "Scheduled", "trace_module"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loads what needs torch when it is asked for: `--version` does without."""
    if name == "Example":
        from .capture import Example

        return Example
    if name == "Scheduled":
        from .replay.scheduled import Scheduled

        return Scheduled
    if name == "trace_module":
        from .replay.tracing import trace_module

        return trace_module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
