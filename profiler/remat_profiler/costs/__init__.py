"""Costs of operators: `roofline` computes them for a named GPU, `abstract` counts, `measure` runs them.

All answer the same two questions about a node of the graph, its time and its workspace, and say
how they know. They must not know of instances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from torch import fx

from ..documents import Device, Origin, Unit
from ..errors import ProfilerError
from .work import Work


@dataclass(frozen=True)
class Cost:
    """Time and scratch memory of one run; `spread_ns` is the interquartile range of repeated runs."""

    time_ns: int
    workspace_bytes: int = 0
    spread_ns: int | None = None


@dataclass(frozen=True)
class Description:
    """What the provenance of an instance says about a source of costs; `runs_on` is cpu or cuda.

    `device` is None for costs of no device, whose `time_unit` is `abstract`.
    """

    runs_on: str
    device: Device | None
    times: Origin
    workspaces: Origin
    notes: list[str] = field(default_factory=list)
    time_unit: Unit = "ns"


@dataclass(frozen=True)
class Call:
    """A function that is no operator of the graph: what it is called with, and what it does.

    Tensors among the arguments are fake or meta ones; `bounds` limits the integers in some of them.
    `prepare` turns the real ones into what the function gets, outside of the measurement.
    """

    name: str
    function: Callable[..., object]
    arguments: tuple[object, ...]
    work: Work
    workspace_bytes: int = 0
    bounds: dict[int, int] = field(default_factory=dict)
    prepare: Callable[..., tuple[object, ...]] | None = None


class CostSource(Protocol):
    """A way to know what operators cost."""

    def describe(self) -> Description:
        """Device and origin of the numbers."""

    def cost(self, node: fx.Node) -> Cost:
        """Cost of one run of an operator."""

    def cost_of_call(self, call: Call) -> Cost:
        """Cost of one call of a function."""


def cost_source(device: str, repeats: int) -> CostSource:
    """The source for `model:<gpu>`, `flops`, `unit`, `cpu` or `cuda`; raises `ProfilerError` for anything else."""
    from . import abstract, devices, measure, roofline

    kind, separator, preset = device.partition(":")
    if kind == "model" and separator:
        return roofline.Roofline(devices.preset(preset))
    if device in abstract.MODELS:
        return abstract.Abstract(device)
    if device in ("cpu", "cuda"):
        return measure.Measured(device, repeats)
    raise ProfilerError(
        f"unknown device '{device}': expected cpu, cuda, flops, unit or model:<gpu> with <gpu> one of "
        + ", ".join(devices.PRESETS)
    )


def trace_devices(device: str) -> list[str]:
    """Devices on which the graph is the one that `device` would run, best first."""
    return ["cpu"] if device == "cpu" else ["cuda"] if device == "cuda" else ["cuda", "cpu"]
