"""What each cuDNN algorithm needs and takes, without a GPU: a model, labelled `modelled` everywhere.

# Workspace
N, C, K: batch, input and output channels; k, H, W, P, Q: kernel, input and output sizes; fp32.
* IMPLICIT_GEMM, backward-data ALGO_0, backward-filter ALGO_0: none.
* IMPLICIT_PRECOMP_GEMM: 6 P Q bytes of indices (backward-data ALGO_1: 6 H W; backward-filter ALGO_1
  and ALGO_3: 8 C k^2).
* GEMM: the im2col buffer, 4 N C k^2 P Q.
* FFT: images padded to a square power of two S >= 16, F = 8 S (S/2 + 1) bytes of frequencies each;
  two buffers that hold in turn the transformed operands and the transformed result:
  2 F max(N C + C K, N K), for backward-data with C and K exchanged, for backward-filter
  F (1.39 N C + 2.33 N K + 1.01 C K), which is only fitted.
* FFT_TILING: tiles of 32x32, 4352 bytes of frequencies each: 4352 (t N (C + K) + C K), t = 1 where the
  padded image is one tile, else 2 (double-buffered). With k = 1 a rough fit: 4.88 N H W (C + K) + 600 C K.
* WINOGRAD: transformed filters, 100 C K.
* WINOGRAD_NONFUSED: F(4x4, 3x3), 36 numbers for each tile of 4x4 outputs: 144 (N T (C + K) + C K),
  T tiles an image; the batch rounded up to 16 except for backward-filter.
These forms were found by comparing with the P100 profile of MONeT's authors.

# Where an algorithm applies
DIRECT and backward-filter WINOGRAD, FFT_TILING never (they failed for every convolution of that
profile). Both Winograds: 3x3, stride 1. FFT: stride 1, padded image at most 256. FFT_TILING: not 1x1 with
a stride, kernel at most 32. All of the transforms: two dimensions, no dilation, no groups. And nothing
whose workspace exceeds the memory of the GPU.

# Time
On the P100: a sum of computing, moving operands and result, and moving the workspace, with coefficients
fitted for each algorithm to ResNet-50 (batch 184) and U-Net (batch 11, 416x608) and checked on VGG-16
(batch 176); errors in README.md. On another GPU this time is multiplied by what the roofline says of
the same convolution there over what it says on the P100: relative speeds are those of a P100 and of
cuDNN 7, whatever the GPU. Winograd kernels of today's cuDNN and tensor cores are not in it.
"""

from __future__ import annotations

from math import ceil, prod

from ..costs import devices, roofline
from ..costs.work import Work
from ..errors import ProfilerError
from . import cudnn
from .problem import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, Convolution
from .table import OK, Row

NAME = "cudnn-algorithms"
TILE_BYTES = 32 * 17 * 8
_TRANSFORMS = ("FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED")
_EXPLICIT = ("GEMM", "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "ALGO_0", "ALGO_1", "ALGO_3")
_NON_DETERMINISTIC = {(BACKWARD_DATA, "ALGO_0"), (BACKWARD_FILTER, "ALGO_0"), (BACKWARD_FILTER, "ALGO_3")}

# Coefficients of the terms of `_terms`, on the P100.
COEFFICIENTS: dict[tuple[str, str], tuple[float, ...]] = {
    (FORWARD, "IMPLICIT_GEMM"): (1.488, 2.025, 0.000, 2.380, 0.000),
    (FORWARD, "IMPLICIT_PRECOMP_GEMM"): (1.134, 1.250, 0.000, 0.353, 0.000),
    (FORWARD, "GEMM"): (1.098, 1.041, 3.234, 4.287, 0.000),
    (FORWARD, "FFT"): (0.548, 7.783, 3.453),
    (FORWARD, "FFT_TILING"): (5.340, 4.460, 2.240),
    (FORWARD, "WINOGRAD"): (1.393, 4.863, 0.000),
    (FORWARD, "WINOGRAD_NONFUSED"): (1.292, 0.000, 3.287),
    (BACKWARD_DATA, "ALGO_0"): (1.515, 0.000, 0.000, 9.478, 0.247),
    (BACKWARD_DATA, "ALGO_1"): (1.273, 0.000, 0.000, 3.018, 0.818),
    (BACKWARD_DATA, "FFT"): (0.528, 7.459, 3.318),
    (BACKWARD_DATA, "FFT_TILING"): (0.000, 7.040, 2.160),
    (BACKWARD_DATA, "WINOGRAD"): (1.569, 1.980, 0.000),
    (BACKWARD_DATA, "WINOGRAD_NONFUSED"): (1.416, 0.000, 2.616),
    (BACKWARD_FILTER, "ALGO_0"): (1.523, 1.908, 0.000, 3.911, 0.100),
    (BACKWARD_FILTER, "ALGO_1"): (1.254, 1.914, 0.000, 9.377, 0.000),
    (BACKWARD_FILTER, "FFT"): (0.288, 0.000, 5.957),
    (BACKWARD_FILTER, "ALGO_3"): (1.281, 1.735, 0.000, 4.085, 0.000),
    (BACKWARD_FILTER, "WINOGRAD_NONFUSED"): (0.429, 0.000, 7.565),
}


class _Shape:
    """The letters of the module's documentation."""

    def __init__(self, c: Convolution) -> None:
        self.N, self.C, self.K = c.input[0], c.input[1], c.weight[0]
        self.H, self.W = c.input[-2], c.input[-1]
        self.P, self.Q = c.output[-2], c.output[-1]
        self.window = prod(c.weight[2:])
        self.kernel = max(c.weight[2:])
        self.padded = max(size + 2 * padding for size, padding in zip(c.input[2:], c.padding))
        self.stride = max(c.stride)

    @property
    def frequencies(self) -> int:
        """Complex numbers of one transformed image."""
        side = 16
        while side < self.padded:
            side *= 2
        return side * (side // 2 + 1)

    @property
    def winograd_tiles(self) -> int:
        return ceil(self.P / 4) * ceil(self.Q / 4)

    @property
    def fft_tiles(self) -> int:
        step = 33 - self.kernel
        return 1 if self.padded <= 32 else ceil(self.H / step) * ceil(self.W / step)


def applies(c: Convolution, algorithm: str) -> bool:
    """Whether cuDNN runs an algorithm on a convolution, memory aside."""
    s = _Shape(c)
    if algorithm == "DIRECT" or (c.direction == BACKWARD_FILTER and algorithm in ("WINOGRAD", "FFT_TILING")):
        return False
    if algorithm not in _TRANSFORMS:
        return True
    if len(c.input) != 4 or max(c.dilation) > 1 or c.groups > 1:
        return False
    if algorithm == "FFT":
        return s.stride == 1 and s.padded <= 256
    if algorithm == "FFT_TILING":
        return s.kernel <= 32 and not (s.kernel == 1 and s.stride > 1)
    return c.weight[2:] == (3, 3) and c.stride == (1, 1)


def workspace_bytes(c: Convolution, algorithm: str) -> int:
    """Workspace of an algorithm that applies."""
    s = _Shape(c)
    if algorithm == "GEMM":
        return 4 * s.N * prod(c.weight[1:]) * c.groups * prod(c.output[2:])
    if algorithm == "IMPLICIT_PRECOMP_GEMM":
        return 6 * prod(c.output[2:])
    if c.direction == BACKWARD_DATA and algorithm == "ALGO_1":
        return 6 * prod(c.input[2:])
    if c.direction == BACKWARD_FILTER and algorithm in ("ALGO_1", "ALGO_3"):
        return 8 * s.C * s.window
    if algorithm == "FFT":
        return _fft_bytes(c, s)
    if algorithm == "FFT_TILING":
        if s.kernel == 1:
            return round(4.88 * s.N * s.H * s.W * (s.C + s.K)) + 600 * s.C * s.K
        return TILE_BYTES * ((1 if s.padded <= 32 else 2) * s.N * (s.C + s.K) + s.C * s.K)
    if algorithm == "WINOGRAD":
        return 100 * s.C * s.K
    if algorithm == "WINOGRAD_NONFUSED":
        batch = s.N if c.direction == BACKWARD_FILTER else ceil(s.N / 16) * 16
        return 144 * (batch * s.winograd_tiles * (s.C + s.K) + s.C * s.K)
    return 0


def _fft_bytes(c: Convolution, s: _Shape) -> int:
    each = 8 * s.frequencies
    if c.direction == BACKWARD_FILTER:
        return round(each * (1.39 * s.N * s.C + 2.33 * s.N * s.K + 1.01 * s.C * s.K))
    source, result = (s.C, s.K) if c.direction == FORWARD else (s.K, s.C)
    return 2 * each * max(s.N * source + s.C * s.K, s.N * result)


def _terms(c: Convolution, algorithm: str, gpu: devices.Gpu) -> list[float]:
    """Seconds of: computing at peak, operands and result at full bandwidth, the workspace likewise;
    for products also what short or narrow ones waste, and computing with a stride. For FFT_TILING:
    operands and result, the transformed tiles, and the transformed filters read for each tile."""
    s = _Shape(c)
    peak, bandwidth = gpu.peak_flops, gpu.bandwidth
    moved = c.tensor_bytes / bandwidth
    channels = s.N * s.C * s.K
    if algorithm == "FFT_TILING":
        tile = s.fft_tiles * TILE_BYTES / bandwidth
        return [moved, tile * s.N * (s.C + s.K), tile * s.C * s.K]
    compute = {
        "WINOGRAD_NONFUSED": 2.0 * 36 * s.winograd_tiles * channels,
        "WINOGRAD": 2.0 * 16 * s.N * ceil(s.P / 2) * ceil(s.Q / 2) * max(s.C, 8) * s.K,
        "FFT": 8.0 * s.frequencies * channels,
    }.get(algorithm, c.flops) / peak
    terms = [compute, moved, workspace_bytes(c, algorithm) / bandwidth]
    if algorithm in _EXPLICIT:
        inner = {FORWARD: s.C, BACKWARD_DATA: s.K, BACKWARD_FILTER: 0}[c.direction] * s.window
        area = s.C * s.window
        wasted = 2.0 * s.N * s.P * s.Q * (max(s.K, 64) * max(area, 64) - s.K * area) / peak
        terms += [compute * 16 / inner if inner else wasted, compute if s.stride > 1 else 0.0]
    return terms


def p100_seconds(c: Convolution, algorithm: str) -> float:
    """Modelled time on the P100."""
    terms = _terms(c, algorithm, devices.preset("p100"))
    return sum(a * b for a, b in zip(COEFFICIENTS[c.direction, algorithm], terms))


def roofline_seconds(c: Convolution, gpu: devices.Gpu) -> float:
    """What the roofline says of the framework's default for one direction."""
    kind = "depthwise" if c.groups > 1 and c.groups == c.input[1] else "conv1x1" if prod(c.weight[2:]) == 1 else "conv"
    if c.direction != FORWARD:
        kind += "_backward" + ("_strided" if max(c.stride) > 1 and kind != "depthwise" else "")
    return roofline.seconds(Work(kind, c.flops, float(c.tensor_bytes), 1, prod(c.weight[1:])), gpu)


def rows(convolutions: list[Convolution], device: str) -> list[Row]:
    """The table of algorithms of a GPU, all of it modelled; fp32 without TF32 only."""
    kind, separator, key = device.partition(":")
    if kind != "model" or not separator:
        raise ProfilerError(f"modelled algorithms need a modelled device, not '{device}': expected model:<gpu>")
    gpu = devices.preset(key)
    return [
        _row(c, algorithm, gpu) for c in convolutions if c.dtype == "float32"
        for algorithm in cudnn.ALGORITHMS[c.direction]
    ]


def _row(c: Convolution, algorithm: str, gpu: devices.Gpu) -> Row:
    start = (gpu.name, NAME, c, "fp32", algorithm)
    determinism = "non-deterministic" if (c.direction, algorithm) in _NON_DETERMINISTIC else "deterministic"
    if not applies(c, algorithm) or (c.groups > 1 and c.groups == c.input[1]):
        return Row(*start, "not-supported", origin="modelled")
    workspace = workspace_bytes(c, algorithm)
    if workspace + c.tensor_bytes > gpu.memory_bytes:
        return Row(*start, "out-of-memory", workspace_bytes=workspace, origin="modelled")
    scale = roofline_seconds(c, gpu) / roofline_seconds(c, devices.preset("p100"))
    time = max(1, round(p100_seconds(c, algorithm) * scale * 1e9)) + gpu.launch_ns
    return Row(*start, OK, time, None, None, workspace, "FMA_MATH", determinism, "modelled")
