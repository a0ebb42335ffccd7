"""libcudnn through ctypes: descriptors, the legacy algorithm functions, their result records.

cuDNN 9 deprecates these functions but still exports them (seen in 9.26). Every symbol is looked up by
name and its absence is an error that says which. Signatures and numbers are those of `cudnn_cnn.h` and
`cudnn_graph.h` of cuDNN 9; `tests/fake_cudnn.c` is compiled against these headers where they are there.
This file knows nothing of torch: buffers are addresses.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_double, c_float, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ProfilerError
from .problem import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, Convolution

LIBRARY_VARIABLE = "REMAT_PROFILER_CUDNN"
SUCCESS = 0
CROSS_CORRELATION, NCHW = 1, 0
DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
MATH_TYPES = ("DEFAULT_MATH", "TENSOR_OP_MATH", "TENSOR_OP_MATH_ALLOW_CONVERSION", "FMA_MATH")
DETERMINISM = ("non-deterministic", "deterministic")

# On Ampere and later CUDNN_DEFAULT_MATH lets fp32 convolutions use TF32; FMA_MATH forbids it.
MATHS = {
    "float32": {"fp32": "FMA_MATH", "tf32": "DEFAULT_MATH"},
    "float64": {"fp64": "DEFAULT_MATH"},
    "float16": {"fp16": "TENSOR_OP_MATH"},
    "bfloat16": {"bf16": "TENSOR_OP_MATH"},
}

ALGORITHMS = {
    FORWARD: ("IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING", "WINOGRAD",
              "WINOGRAD_NONFUSED"),
    BACKWARD_DATA: ("ALGO_0", "ALGO_1", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"),
    BACKWARD_FILTER: ("ALGO_0", "ALGO_1", "FFT", "ALGO_3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING"),
}
_STEM = {FORWARD: "Forward", BACKWARD_DATA: "BackwardData", BACKWARD_FILTER: "BackwardFilter"}


class AlgorithmPerformance(ctypes.Structure):
    """`cudnnConvolutionFwdAlgoPerf_t` and its two twins: the same fields in the same order."""

    _fields_ = [
        ("algo", c_int), ("status", c_int), ("time", c_float), ("memory", c_size_t),
        ("determinism", c_int), ("mathType", c_int), ("reserved", c_int * 3),
    ]


class CudnnError(ProfilerError):
    """A status other than success, or a symbol that is not there."""

    def __init__(self, function: str, status: str) -> None:
        super().__init__(f"{function}: {status}")
        self.function, self.status = function, status


@dataclass(frozen=True)
class Found:
    """One record of what cuDNN reports about an algorithm."""

    algorithm: str
    status: str
    time_ns: int
    workspace_bytes: int
    determinism: str
    math_type: str


def library_candidates() -> list[str]:
    """Where libcudnn may be: the named one, one that torch loaded already, those in wheels, the system's."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return [named]
    candidates = ["libcudnn.so.9", "libcudnn.so.8"]
    try:
        import torch

        packages = Path(torch.__file__).parents[1]
        candidates += sorted(glob.glob(str(packages / "nvidia" / "*" / "lib" / "libcudnn.so*")))
        candidates += sorted(glob.glob(str(packages / "torch" / "lib" / "libcudnn.so*")))
    except ImportError:
        pass
    return [*candidates, "libcudnn.so"]


class Library:
    """The shared library with its symbols checked one by one as they are used."""

    def __init__(self, candidates: list[str] | None = None) -> None:
        tried = []
        for path in candidates or library_candidates():
            try:
                self._library = ctypes.CDLL(path)
            except OSError as error:
                tried.append(f"{path} ({error})")
                continue
            self.path = path
            break
        else:
            raise ProfilerError(
                f"libcudnn was not found (set {LIBRARY_VARIABLE} to its path); tried: {'; '.join(tried)}"
            )
        self.version = int(self._function("cudnnGetVersion", c_size_t)())

    def _function(self, name: str, result: Any = c_int) -> Any:
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise CudnnError(name, "symbol missing from the library") from error
        function.restype = result
        return function

    def exports(self, name: str) -> bool:
        """Whether a symbol is there."""
        return hasattr(self._library, name)

    def missing_symbols(self) -> list[str]:
        """Symbols that a harvest needs and the library lacks."""
        return [name for name in required_symbols() if not self.exports(name)]

    def status_name(self, status: int) -> str:
        """`CUDNN_STATUS_...` in cuDNN's own words."""
        text = self._function("cudnnGetErrorString", c_char_p)(c_int(status))
        return text.decode() if text else f"CUDNN_STATUS {status}"

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function that returns a status; raises `CudnnError` unless it is success."""
        status = self._function(name)(*arguments)
        if status != SUCCESS:
            raise CudnnError(name, self.status_name(status))


def required_symbols() -> list[str]:
    """Everything that explicit runs of the algorithms call."""
    names = ["cudnnGetVersion", "cudnnGetErrorString", "cudnnCreate", "cudnnDestroy", "cudnnSetStream",
             "cudnnSetTensorNdDescriptor", "cudnnSetFilterNdDescriptor", "cudnnSetConvolutionNdDescriptor",
             "cudnnSetConvolutionGroupCount", "cudnnSetConvolutionMathType", "cudnnGetConvolutionNdForwardOutputDim"]
    for kind in ("Tensor", "Filter", "Convolution"):
        names += [f"cudnnCreate{kind}Descriptor", f"cudnnDestroy{kind}Descriptor"]
    for stem in _STEM.values():
        names += [f"cudnnConvolution{stem}", f"cudnnGetConvolution{stem}WorkspaceSize",
                  f"cudnnGetConvolution{stem}Algorithm_v7", f"cudnnFindConvolution{stem}AlgorithmEx"]
    return names


def _ints(values: Sequence[int]) -> ctypes.Array[c_int]:
    return (c_int * len(values))(*values)


class Descriptors:
    """Descriptors of one convolution; destroys them when closed."""

    def __init__(self, library: Library, convolution: Convolution, math: str) -> None:
        self.library = library
        self._made: list[tuple[str, Any]] = []
        data_type = DATA_TYPES[convolution.dtype]
        compute_type = DATA_TYPES["float64" if convolution.dtype == "float64" else "float32"]
        try:
            self.x = self._tensor(convolution.input, data_type)
            self.y = self._tensor(convolution.output, data_type)
            self.w = self._create("Filter")
            library.call("cudnnSetFilterNdDescriptor", self.w, c_int(data_type), c_int(NCHW),
                         c_int(len(convolution.weight)), _ints(convolution.weight))
            self.convolution = self._create("Convolution")
            library.call("cudnnSetConvolutionNdDescriptor", self.convolution, c_int(len(convolution.stride)),
                         _ints(convolution.padding), _ints(convolution.stride), _ints(convolution.dilation),
                         c_int(CROSS_CORRELATION), c_int(compute_type))
            library.call("cudnnSetConvolutionGroupCount", self.convolution, c_int(convolution.groups))
            math_type = MATH_TYPES.index(MATHS[convolution.dtype][math])
            library.call("cudnnSetConvolutionMathType", self.convolution, c_int(math_type))
            self._check_output(convolution)
        except BaseException:
            self.close()
            raise

    def _create(self, kind: str) -> c_void_p:
        descriptor = c_void_p()
        self.library.call(f"cudnnCreate{kind}Descriptor", byref(descriptor))
        self._made.append((kind, descriptor))
        return descriptor

    def _tensor(self, shape: tuple[int, ...], data_type: int) -> c_void_p:
        strides = [1]
        for size in reversed(shape[1:]):
            strides.insert(0, strides[0] * size)
        descriptor = self._create("Tensor")
        self.library.call("cudnnSetTensorNdDescriptor", descriptor, c_int(data_type), c_int(len(shape)),
                          _ints(shape), _ints(strides))
        return descriptor

    def _check_output(self, convolution: Convolution) -> None:
        """cuDNN must see the output that we see."""
        shape = (c_int * len(convolution.input))()
        self.library.call("cudnnGetConvolutionNdForwardOutputDim", self.convolution, self.x, self.w,
                          c_int(len(convolution.input)), shape)
        if tuple(shape) != convolution.output:
            raise CudnnError("cudnnGetConvolutionNdForwardOutputDim", f"says {tuple(shape)}, not {convolution.output}")

    def close(self) -> None:
        """Destroys the descriptors."""
        while self._made:
            kind, descriptor = self._made.pop()
            self.library.call(f"cudnnDestroy{kind}Descriptor", descriptor)


class Session:
    """A cuDNN handle on a stream, and the operations on one convolution at a time."""

    def __init__(self, library: Library, stream: int) -> None:
        self.library, self.handle = library, c_void_p()
        library.call("cudnnCreate", byref(self.handle))
        library.call("cudnnSetStream", self.handle, c_void_p(stream))

    def close(self) -> None:
        """Destroys the handle."""
        if self.handle:
            self.library.call("cudnnDestroy", self.handle)
            self.handle = c_void_p()

    def workspace_bytes(self, d: Descriptors, direction: str, algorithm: str) -> int:
        """Workspace that an algorithm needs; raises `CudnnError` where it does not apply."""
        size = c_size_t()
        number = c_int(ALGORITHMS[direction].index(algorithm))
        operands = {FORWARD: (d.x, d.w, d.convolution, d.y), BACKWARD_DATA: (d.w, d.y, d.convolution, d.x),
                    BACKWARD_FILTER: (d.x, d.y, d.convolution, d.w)}[direction]
        self.library.call(f"cudnnGetConvolution{_STEM[direction]}WorkspaceSize", self.handle, *operands, number,
                          byref(size))
        return size.value

    def run(self, d: Descriptors, convolution: Convolution, algorithm: str, buffers: dict[str, int],
            workspace: tuple[int, int]) -> None:
        """Runs an algorithm once; `buffers` are the addresses of x, w and y, `workspace` address and size."""
        scalar = c_double if convolution.dtype == "float64" else c_float
        one, zero = scalar(1.0), scalar(0.0)
        direction = convolution.direction
        number = c_int(ALGORITHMS[direction].index(algorithm))
        x, w, y = (c_void_p(buffers[name]) for name in "xwy")
        scratch = (c_void_p(workspace[0]), c_size_t(workspace[1]))
        if direction == FORWARD:
            arguments = (d.x, x, d.w, w, d.convolution, number, *scratch, byref(zero), d.y, y)
        elif direction == BACKWARD_DATA:
            arguments = (d.w, w, d.y, y, d.convolution, number, *scratch, byref(zero), d.x, x)
        else:
            arguments = (d.x, x, d.y, y, d.convolution, number, *scratch, byref(zero), d.w, w)
        self.library.call(f"cudnnConvolution{_STEM[direction]}", self.handle, byref(one), *arguments)

    def heuristics(self, d: Descriptors, direction: str) -> dict[str, Found]:
        """What cuDNN says of each algorithm without running it."""
        operands = {FORWARD: (d.x, d.w, d.convolution, d.y), BACKWARD_DATA: (d.w, d.y, d.convolution, d.x),
                    BACKWARD_FILTER: (d.x, d.y, d.convolution, d.w)}[direction]
        return self._records(f"cudnnGetConvolution{_STEM[direction]}Algorithm_v7", direction, operands, ())

    def find(self, d: Descriptors, direction: str, buffers: dict[str, int],
             workspace: tuple[int, int]) -> dict[str, Found]:
        """cuDNN's own single measurement of each algorithm on real buffers."""
        x, w, y = (c_void_p(buffers[name]) for name in "xwy")
        operands = {
            FORWARD: (d.x, x, d.w, w, d.convolution, d.y, y),
            BACKWARD_DATA: (d.w, w, d.y, y, d.convolution, d.x, x),
            BACKWARD_FILTER: (d.x, x, d.y, y, d.convolution, d.w, w),
        }[direction]
        scratch = (c_void_p(workspace[0]), c_size_t(workspace[1]))
        return self._records(f"cudnnFindConvolution{_STEM[direction]}AlgorithmEx", direction, operands, scratch)

    def _records(self, function: str, direction: str, operands: tuple[object, ...], scratch: tuple[object, ...]) -> dict[str, Found]:
        """Several records may come per algorithm, one for each math type; the first is the fastest."""
        room = 4 * len(ALGORITHMS[direction])
        records, count = (AlgorithmPerformance * room)(), c_int()
        self.library.call(function, self.handle, *operands, c_int(room), byref(count), records, *scratch)
        found: dict[str, Found] = {}
        for record in records[: count.value]:
            if not 0 <= record.algo < len(ALGORITHMS[direction]):
                continue
            name = ALGORITHMS[direction][record.algo]
            status = "ok" if record.status == SUCCESS else self.library.status_name(record.status)
            made = Found(name, status, round(max(record.time, 0.0) * 1e6), record.memory,
                         _named(DETERMINISM, record.determinism), _named(MATH_TYPES, record.mathType))
            if name not in found or (found[name].status != "ok" and status == "ok"):
                found[name] = made
        return found


def _named(names: tuple[str, ...], index: int) -> str:
    return names[index] if 0 <= index < len(names) else str(index)


