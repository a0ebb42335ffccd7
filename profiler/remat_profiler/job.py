"""One instance from request to file: capture, trace, cost, check, write."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ProfilerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from .capture import Example
    from .check import Summary
    from .costs import CostSource
    from .documents import Instance
    from .trace import TracedIteration


# A note of instances that are compared with FastSA's tables; `compare` reads it.
GRAPH_SIZE = "joint graph before folding: {nodes} nodes, {values} values (FastSA's count: without detach and tuple access)"


@dataclass(frozen=True)
class Job:
    """What `trace` is asked for."""

    model: str
    batch: int
    shape: tuple[int, ...]
    device: str
    trace_device: str = "auto"
    repeats: int = 10
    convolutions: str | None = None
    alternatives: bool = False
    gist: bool = False
    split_convolution_backward: bool = False
    split_batch_norm: bool = False
    graph_size: bool = False

    @property
    def command(self) -> str:
        """The command line that asks for this, without paths; names are quoted as a shell wants them."""
        shape = "x".join(map(str, self.shape))
        text = f"remat-profiler trace --model {shlex.quote(self.model)} --batch {self.batch} --shape {shape} --device {self.device}"
        if self.trace_device != "auto":
            text += f" --trace-device {self.trace_device}"
        if self.device in ("cpu", "cuda"):
            text += f" --repeats {self.repeats}"
        if self.convolutions is not None:
            text += f" --convolutions {shlex.quote(Path(self.convolutions).name)}"
        for name in ("alternatives", "gist", "split_convolution_backward", "split_batch_norm", "graph_size"):
            if getattr(self, name):
                text += " --" + name.replace("_", "-")
        return text


def run(job: Job, output: Path, costs: CostSource | None = None, trace: TracedIteration | None = None) -> str:
    """Writes the instance and returns a summary for people; `costs` replaces the source of the device,
    `trace` what `traced(job)` would find again."""
    from . import check, instance
    from .costs import cost_source
    from .costs.measure import Measured

    if job.batch < 1 or job.repeats < 1:
        raise ProfilerError("--batch and --repeats must be at least 1")
    instance.check_output(output)
    started = time.monotonic()
    costs = costs or cost_source(job.device, job.repeats)
    header = instance.Header(instance.stem(output), job.model, job.batch, job.shape, job.command)
    trace = trace or traced(job)
    made = instance.document(header, trace, costs)
    if job.alternatives or job.gist:
        from .alternatives.attach import attach

        attach(made, trace, costs, job.alternatives, job.gist)
    if job.convolutions is not None:
        from .convolutions.join import join

        join(made, job.convolutions, job.device)
    found = check.problems(made)
    if found:
        raise ProfilerError(f"the traced instance is not valid ({len(found)} problems): {found[0]}")
    size = instance.write(made, output)
    unsteady = costs.unsteady() if isinstance(costs, Measured) else ""
    return summary(header.name, made, check.store_all(made), size, time.monotonic() - started) + (f"\n  {unsteady}" if unsteady else "")


def traced(job: Job) -> TracedIteration:
    """Traces the iteration that a job asks for."""
    return traced_with(job, None)


def traced_with(job: Job, build: Callable[[], nn.Module] | None, example: Example | None = None) -> TracedIteration:
    """The same of what `build` makes, where it is not None, whatever the job calls the network; with a loss and
    inputs of the user's where there is an example."""
    from .capture import Request, capture_for
    from .costs import trace_devices
    from .models import builder
    from .trace import graph_size, trace

    devices = trace_devices(job.device) if job.trace_device == "auto" else [job.trace_device]
    captured = capture_for(Request(build or builder(job.model), job.batch, job.shape, example), devices)
    if job.split_convolution_backward or job.split_batch_norm:
        from .alternatives import rewrite

        if job.split_convolution_backward:
            rewrite.split_convolution_backward(captured)
        if job.split_batch_norm:
            rewrite.split_batch_norm(captured)
    iteration = trace(captured)
    if job.graph_size:
        nodes, values = graph_size(captured)
        iteration.notes.append(GRAPH_SIZE.format(nodes=nodes, values=values))
    return iteration


def summary(name: str, made: Instance, store_all: Summary, size: int, seconds: float) -> str:
    """What was written, and what store-all needs on it."""
    batch = made["provenance"].get("batch_size", 1)
    times = made["provenance"]["times"]["kind"]
    return (
        f"{name}: {store_all.operators} operators, {store_all.tensors} tensors, {size} bytes written in {seconds:.1f} s\n"
        f"  store-all ({times}): {_duration(made, store_all.time_ns, batch)}, "
        f"peak {in_words(store_all.peak_bytes)} at {store_all.peak_operator} "
        f"(fixed {in_words(store_all.fixed_bytes)})"
    )


def in_words(size: int) -> str:
    """Bytes in the largest unit of which they have at least one."""
    unit, name = next(((unit, name) for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")) if size >= unit), (1, "B"))
    return f"{size} B" if unit == 1 else f"{size / unit:.3f} {name}"


def _duration(made: Instance, time: int, batch: int) -> str:
    """Milliseconds and throughput, or a number of abstract units."""
    if made.get("units", {}).get("time") == "abstract":
        return f"{time} abstract units"
    return f"{time / 1e6:.3f} ms, {batch / (time * 1e-9) if time else float('inf'):.2f} samples/s"
