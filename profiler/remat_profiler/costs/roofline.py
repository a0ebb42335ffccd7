"""Modelled costs: a roofline with a launch latency, for a GPU named by a preset of `devices`.

# Time
    launches * latency
      + max(flops / (e * d / (d + h) * peak), bytes / (b * bandwidth))
      + bytes / (t * bandwidth)

flops, bytes, launches and the length d of the inner products are those of `work`; e, h, b and t are
the efficiencies of the operator's class in `devices` (the last term is absent where t is).

# Workspace
One MiB for a convolution in either direction, nothing for everything else. On MONeT's P100 profile
the algorithms that PyTorch chose by default (implicit GEMM with precomputed indices) took 0 to 1.1
MiB for all convolutions of ResNet-50 and VGG-16. Other algorithms take hundreds of MiB: not here.

The calibration errors stand in profiler/README.md and are asserted in tests/test_roofline.py.
"""

from __future__ import annotations

from torch import fx

from . import Call, Cost, Description
from .devices import Efficiency, Gpu
from .work import Work, work_of

CONVOLUTION_WORKSPACE = 2**20


def seconds(work: Work, gpu: Gpu) -> float:
    """Modelled time of an operator."""
    efficiency: Efficiency = gpu.efficiencies[work.kind]
    reached = efficiency.flops
    if efficiency.half_depth:
        reached *= work.depth / (work.depth + efficiency.half_depth)
    compute = work.flops / (reached * gpu.peak_flops)
    stream = work.bytes / (efficiency.bandwidth * gpu.bandwidth)
    extra = work.bytes / (efficiency.traffic * gpu.bandwidth) if efficiency.traffic else 0.0
    return work.launches * gpu.launch_ns * 1e-9 + max(compute, stream) + extra


class Roofline:
    """A cost source that computes."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def describe(self) -> Description:
        """Labels everything `modelled`."""
        gpu = self.gpu
        parameters = {
            "peak_flops": gpu.peak_flops, "bandwidth": gpu.bandwidth, "launch_ns": float(gpu.launch_ns),
        }
        return Description(
            runs_on="cuda",
            device={"name": gpu.name, "memory_bytes": gpu.memory_bytes},
            times={"kind": "modelled", "model": f"roofline:{gpu.key}", "parameters": parameters},
            workspaces={"kind": "modelled", "model": "one MiB per convolution"},
            notes=[f"times: {gpu.calibrated}"],
        )

    def cost(self, node: fx.Node) -> Cost:
        """Modelled time and workspace."""
        work = work_of(node)
        workspace = CONVOLUTION_WORKSPACE if work.kind.startswith(("conv", "depthwise")) else 0
        return Cost(max(1, round(seconds(work, self.gpu) * 1e9)), workspace)

    def cost_of_call(self, call: Call) -> Cost:
        """Modelled time of its work, and the workspace that a fused kernel would need."""
        return Cost(max(1, round(seconds(call.work, self.gpu) * 1e9)), call.workspace_bytes)
