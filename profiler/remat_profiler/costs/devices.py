"""GPUs as the roofline model knows them: peaks from the data sheets, efficiencies from calibration.

Peaks are those of the vendor's data sheets for FP32 without tensor cores (PyTorch's default for
convolutions may be TF32 on A100 and later; these presets are plain FP32).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ProfilerError


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    name: str
    memory_bytes: int
    peak_flops: float
    bandwidth: float
    launch_ns: int


PRESETS: dict[str, Gpu] = {
    # K40: 4.29 TFLOPS at base clock 745 MHz, 288 GB/s, 12 GB.
    "k40": Gpu("NVIDIA Tesla K40", 12 * 2**30, 4.29e12, 288e9, 8000),
    # P100 PCIe 16 GB: 9.3 TFLOPS, 732 GB/s.
    "p100": Gpu("NVIDIA Tesla P100-PCIE-16GB", 16 * 2**30, 9.3e12, 732e9, 6000),
    # V100 PCIe 16 GB: 14 TFLOPS, 900 GB/s (the card of Rotor's papers).
    "v100": Gpu("NVIDIA Tesla V100-PCIE-16GB", 16 * 2**30, 14.0e12, 900e9, 6000),
    # A100 SXM 80 GB: 19.5 TFLOPS FP32, 2039 GB/s.
    "a100": Gpu("NVIDIA A100-SXM4-80GB", 80 * 2**30, 19.5e12, 2039e9, 5000),
    # H200 SXM: 67 TFLOPS FP32, 4.8 TB/s, 141 GB.
    "h200": Gpu("NVIDIA H200", 141 * 10**9, 67e12, 4800e9, 4000),
}


def preset(name: str) -> Gpu:
    """A GPU by its short name."""
    if name not in PRESETS:
        raise ProfilerError(f"unknown GPU '{name}' in --device model:{name}: expected one of {', '.join(PRESETS)}")
    return PRESETS[name]
