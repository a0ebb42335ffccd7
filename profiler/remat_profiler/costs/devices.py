"""GPUs as the roofline model knows them: peaks from the data sheets, efficiencies from calibration.

Peaks are those of the vendors' data sheets for FP32 without tensor cores, so no TF32.

An `Efficiency` says how fast one class of operators runs (see `roofline` for the formula):
`flops` is the fraction of peak that long inner products reach, `half_depth` the length of the inner
product at which half of it is reached, `bandwidth` the fraction of peak bandwidth at which streaming
bounds the operator from below, `traffic` (None: not at all) the fraction of peak bandwidth at which
its bytes are added on top, for operators that do not overlap the two.

# Where the efficiencies come from
`_BASE`: fitted to the operator times that the authors of MONeT (Shah et al., ICLR 2021) measured on
a P100 with PyTorch for ResNet-50 at batch 184, and checked on their VGG-16 at batch 176; products
and pooling, rare in ResNet-50, were set from both. Depthwise and attention are guesses.
`_v100`: matrix products from Table 2 of Rotor's ToMS paper (2024), convolutions from two throughputs
on the V100 in the same paper.
K40, A100 and H200 use `_BASE` as it is: extrapolations, checked against nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import ProfilerError


@dataclass(frozen=True)
class Efficiency:
    """How close one class of operators comes to the peaks of a GPU."""

    flops: float = 1.0
    half_depth: float = 0.0
    bandwidth: float = 0.70
    traffic: float | None = None


_BASE: dict[str, Efficiency] = {
    "conv": Efficiency(flops=0.82, half_depth=16),
    "conv_backward": Efficiency(flops=0.83, traffic=0.30),
    "conv_backward_strided": Efficiency(flops=0.45),
    "conv1x1": Efficiency(flops=0.83, half_depth=16),
    "conv1x1_backward": Efficiency(flops=0.85, traffic=0.50),
    "conv1x1_backward_strided": Efficiency(flops=0.59),
    "depthwise": Efficiency(flops=0.10, bandwidth=0.35),
    "depthwise_backward": Efficiency(flops=0.05, bandwidth=0.20),
    "gemm": Efficiency(flops=0.60),
    "attention": Efficiency(flops=0.50),
    "norm": Efficiency(bandwidth=0.55),
    "norm_backward": Efficiency(bandwidth=0.55),
    "pool": Efficiency(bandwidth=0.58),
    "pool_backward": Efficiency(bandwidth=0.09),
    "reduction": Efficiency(bandwidth=0.16),
    "elementwise": Efficiency(bandwidth=0.70),
}

# Convolutions reach this multiple of the P100's fraction of peak (cuDNN 7 has Winograd kernels, which
# need fewer multiplications than are counted), memory-bound operators this multiple of its fraction
# of bandwidth. The first is fitted to two throughputs; the second is set, they do not separate the two.
_V100_SPEEDUP = 1.24
_V100_STREAM = 1.25
# Backward convolutions cost two forward ones, as the linear layers of Table 2 do on that card.
_V100_BACKWARD = {
    "conv_backward": Efficiency(flops=0.83),
    "conv1x1_backward": Efficiency(flops=0.83),
}


def _v100() -> dict[str, Efficiency]:
    scaled = {
        kind: replace(
            efficiency,
            flops=efficiency.flops * (_V100_SPEEDUP if kind.startswith("conv") else 1.0),
            bandwidth=efficiency.bandwidth * _V100_STREAM,
        )
        for kind, efficiency in (_BASE | _V100_BACKWARD).items()
    }
    return scaled | {"gemm": Efficiency(flops=0.463, bandwidth=0.70 * _V100_STREAM)}


@dataclass(frozen=True)
class Gpu:
    """One GPU: data sheet and efficiencies."""

    key: str
    name: str
    memory_bytes: int
    peak_flops: float
    bandwidth: float
    launch_ns: int
    efficiencies: dict[str, Efficiency]
    calibrated: str


_P100_SOURCE = "efficiencies fitted to MONeT's P100 profile of ResNet-50 at batch 184"
_EXTRAPOLATED = "efficiencies of the P100 calibration, not checked on this device"

PRESETS: dict[str, Gpu] = {
    gpu.key: gpu
    for gpu in (
        Gpu("k40", "Tesla K40", 12 * 2**30, 4.29e12, 288e9, 8000, _BASE, _EXTRAPOLATED),
        Gpu("p100", "Tesla P100-PCIE-16GB", 16 * 2**30, 9.3e12, 732e9, 6000, _BASE, _P100_SOURCE),
        Gpu("v100", "Tesla V100-PCIE-16GB", 16 * 2**30, 14.0e12, 900e9, 6000, _v100(),
            _P100_SOURCE + ", scaled to Rotor's ToMS 2024 V100 measurements (Table 2, two throughputs)"),
        Gpu("a100", "A100-SXM4-80GB", 80 * 2**30, 19.5e12, 2039e9, 5000, _BASE, _EXTRAPOLATED),
        Gpu("h200", "H200", 141 * 10**9, 67e12, 4800e9, 4000, _BASE, _EXTRAPOLATED),
    )
}


def preset(name: str) -> Gpu:
    """A GPU by its short name."""
    if name not in PRESETS:
        raise ProfilerError(f"unknown GPU '{name}' in --device model:{name}: expected one of {', '.join(PRESETS)}")
    return PRESETS[name]
