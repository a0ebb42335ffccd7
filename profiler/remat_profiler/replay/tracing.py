"""An instance of one's own module, from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from ..capture import Example
from ..errors import ProfilerError
from ..job import Job, run, traced_with
from .scheduled import traceable_copy


def trace_module(module: nn.Module, batch: int, shape: tuple[int, ...], output: str | Path, *, device: str = "cpu",
                 name: str = "", example: Example | None = None, **options: Any) -> str:
    """Writes the instance of a module's training iteration, and returns a summary for people.

    `shape` is that of one sample; `device` as that of `remat-profiler trace` (measured on `cpu` or `cuda`, or
    modelled); `options` are further fields of `remat_profiler.job.Job` (`alternatives=True`, say). The module is traced
    as it is, parts in `eval()` (a frozen batch norm) too. `name` is what the instance calls the network; the commands that run it
    (`replay`) build it from there, so give them `python:MODULE:FUNCTION`. The module returns logits, or has `takes_tokens = True` and reads
    integers; the loss is their cross-entropy. With an `example` loss and inputs are the user's, and `batch` and `shape`
    only describe the first of them.
    """
    sizes = (batch, *shape) if isinstance(shape, (tuple, list)) else ()
    if not sizes or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
        raise ProfilerError(f"batch={batch!r}, shape={shape!r}: expected an integer above 0, and a tuple of such (of one sample)")
    wanted = Job(name or f"python:{type(module).__name__}", batch, tuple(shape), device, **options)
    return run(wanted, Path(output), trace=traced_with(wanted, lambda: traceable_copy(module), example))
