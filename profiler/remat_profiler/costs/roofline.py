"""placeholder"""
from __future__ import annotations
from torch import fx
from . import Cost, Description
from .devices import Gpu
from .work import work_of

class Roofline:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
    def describe(self) -> Description:
        gpu = self.gpu
        return Description({"name": gpu.name, "memory_bytes": gpu.memory_bytes},
            {"kind": "modelled", "model": "roofline"}, {"kind": "modelled", "model": "roofline"})
    def cost(self, node: fx.Node) -> Cost:
        w = work_of(node)
        t = w.launches * self.gpu.launch_ns + 1e9 * max(w.flops / (.6*self.gpu.peak_flops), w.bytes / (.7*self.gpu.bandwidth))
        return Cost(round(t))
