"""Measures algorithms: cuDNN's own through ctypes, and the framework's choice through torch.

A runner yields the algorithms of a convolution in one arithmetic and measures each for itself. What
goes wrong with one algorithm is the status of one row. Only what breaks the device for everything
after it (`DeviceLost`) leaves a runner as an exception.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from ..costs.measure import duration
from ..errors import ProfilerError
from . import cudnn
from .problem import BACKWARD_DATA, FORWARD, Convolution
from .table import OK

WARM_UP = 2
# An algorithm is not run more often than fits in this time, but at least MINIMUM_RUNS times.
SAMPLE_SECONDS = 0.5
MINIMUM_RUNS = 3
# What takes longer than this is timed once, after the warm-up.
SINGLE_SECONDS = 2.0
NOT_SUPPORTED = "not-supported"
NO_MEMORY = "out-of-memory"


class DeviceLost(ProfilerError):
    """The CUDA context is broken: only a new process can go on."""


@dataclass(frozen=True)
class Result:
    """What a row says beyond its key."""

    status: str
    time_ns: int | None = None
    spread_ns: int | None = None
    samples: int | None = None
    workspace_bytes: int | None = None
    math_type: str = ""
    determinism: str = ""


class Runner(Protocol):
    """Measures one family of algorithms."""

    def algorithms(self, convolution: Convolution) -> tuple[str, ...]:
        """Names of the algorithms of a direction."""

    def open(self, convolution: Convolution, math: str) -> Prepared:
        """Allocates operands."""


class Prepared(Protocol):
    """Operands of one convolution."""

    def measure(self, algorithm: str) -> Result:
        """One row."""

    def close(self) -> None:
        """Frees everything."""


class Clock:
    """Times calls on a device, the more often the shorter they are."""

    def __init__(self, device: torch.device, repeats: int) -> None:
        self.device, self.repeats = device, repeats

    def samples(self, call: Callable[[], object]) -> list[float]:
        """Nanoseconds of repeated runs, after a warm-up."""
        for _ in range(WARM_UP - 1):
            call()
        first = duration(call, self.device)
        if first > SINGLE_SECONDS * 1e9:
            return [first]
        runs = max(MINIMUM_RUNS, min(self.repeats, int(SAMPLE_SECONDS * 1e9 / max(first, 1.0))))
        return [duration(call, self.device) for _ in range(min(runs, self.repeats))]


def summary(samples: list[float]) -> tuple[int, int, int]:
    """Median, interquartile range and number of samples."""
    spread = 0.0
    if len(samples) > 1:
        first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
        spread = third - first
    return round(statistics.median(samples)), round(spread), len(samples)


def operands(convolution: Convolution, device: torch.device) -> dict[str, torch.Tensor]:
    """x, w and y in buffers of their own, with numbers in them: zeros may run faster than data."""
    dtype = getattr(torch, convolution.dtype)
    shapes = {"x": convolution.input, "w": convolution.weight, "y": convolution.output}
    return {name: torch.empty(shape, device=device, dtype=dtype).uniform_(-1, 1) for name, shape in shapes.items()}


def status_of(error: BaseException) -> str:
    """The status of a row for an exception; raises `DeviceLost` for those that end everything."""
    words = str(error).lower()
    if isinstance(error, torch.OutOfMemoryError) or "out of memory" in words or "can't allocate memory" in words:
        return NO_MEMORY
    if isinstance(error, cudnn.CudnnError):
        return NOT_SUPPORTED if error.status.startswith("CUDNN_STATUS_NOT_SUPPORTED") else error.status
    text = " ".join(str(error).split())[:100]
    if "CUDA error" in text or type(error).__name__ == "AcceleratorError":
        raise DeviceLost(f"the CUDA context is lost: {text}") from error
    return f"{type(error).__name__}: {text}"


class CudnnRunner:
    """Explicit runs of each cuDNN algorithm: medians and spreads of our own."""

    def __init__(self, clock: Clock, library: cudnn.Library, method: str = "runs") -> None:
        missing = library.missing_symbols()
        if missing:
            raise ProfilerError(f"'{library.path}' (cuDNN {library.version}) lacks {', '.join(missing)}")
        self.clock, self.library, self.method = clock, library, method
        stream = torch.cuda.current_stream().cuda_stream if clock.device.type == "cuda" else 0
        self.session = cudnn.Session(library, stream)

    def algorithms(self, convolution: Convolution) -> tuple[str, ...]:
        """As cuDNN enumerates them."""
        return cudnn.ALGORITHMS[convolution.direction]

    def open(self, convolution: Convolution, math: str) -> _PreparedCudnn:
        """Allocates operands and descriptors."""
        return _PreparedCudnn(self, convolution, math)


class _PreparedCudnn:
    def __init__(self, runner: CudnnRunner, convolution: Convolution, math: str) -> None:
        self.runner, self.convolution = runner, convolution
        self.descriptors = cudnn.Descriptors(runner.library, convolution, math)
        self.tensors = operands(convolution, runner.clock.device)
        self.buffers = {name: tensor.data_ptr() for name, tensor in self.tensors.items()}
        try:
            self.known = runner.session.heuristics(self.descriptors, convolution.direction)
        except cudnn.CudnnError:
            self.known = {}  # only math type and determinism come from there
        self.found = self._find() if runner.method == "find" else None

    def _find(self) -> dict[str, cudnn.Found]:
        session, direction, largest = self.runner.session, self.convolution.direction, 0
        for algorithm in self.runner.algorithms(self.convolution):
            try:
                largest = max(largest, session.workspace_bytes(self.descriptors, direction, algorithm))
            except cudnn.CudnnError:
                continue
        scratch = self._scratch(largest)
        return session.find(self.descriptors, direction, self.buffers, (scratch.data_ptr(), largest))

    def _scratch(self, size: int) -> torch.Tensor:
        return torch.empty(size, device=self.runner.clock.device, dtype=torch.uint8)

    def measure(self, algorithm: str) -> Result:
        """Runs it, or takes what cuDNN measured."""
        try:
            return self._from_runs(algorithm) if self.found is None else self._from_find(self.found, algorithm)
        except Exception as error:  # one row must not end the harvest
            return Result(status_of(error))

    def _from_find(self, found: dict[str, cudnn.Found], algorithm: str) -> Result:
        record = found.get(algorithm)
        if record is None or record.status != OK:
            return Result(NOT_SUPPORTED if record is None else status_of(cudnn.CudnnError("find", record.status)))
        return Result(OK, record.time_ns, None, 1, record.workspace_bytes, record.math_type, record.determinism)

    def _from_runs(self, algorithm: str) -> Result:
        session, convolution = self.runner.session, self.convolution
        size = session.workspace_bytes(self.descriptors, convolution.direction, algorithm)
        said = self.known.get(algorithm)
        words = (said.math_type, said.determinism) if said else ("", "")
        try:
            scratch = self._scratch(size)
        except Exception as error:
            return Result(status_of(error), workspace_bytes=size)
        workspace = (scratch.data_ptr(), size)
        samples = self.runner.clock.samples(
            lambda: session.run(self.descriptors, convolution, algorithm, self.buffers, workspace)
        )
        return Result(OK, *summary(samples), size, *words)

    def close(self) -> None:
        """Frees descriptors and buffers."""
        self.descriptors.close()
        self.tensors.clear()


class FrameworkRunner:
    """The algorithm that torch chooses; on the CPU the only one there is."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.name = "cpu:default" if clock.device.type == "cpu" else "torch:default"

    def algorithms(self, convolution: Convolution) -> tuple[str, ...]:
        """One."""
        return (self.name,)

    def open(self, convolution: Convolution, math: str) -> _PreparedFramework:
        """Allocates operands."""
        return _PreparedFramework(self.clock, convolution, math)


class _PreparedFramework:
    def __init__(self, clock: Clock, convolution: Convolution, math: str) -> None:
        self.clock, self.math = clock, math
        self.tensors = operands(convolution, clock.device)
        self.call: Callable[[], object] = _framework_call(convolution, self.tensors)

    def measure(self, algorithm: str) -> Result:
        """Runs it; the workspace is the allocator's peak above the result, 0 on the CPU (not measurable)."""
        cuda = self.clock.device.type == "cuda"
        try:
            if cuda:  # the process measures nothing but convolutions: the setting need not be put back
                torch.backends.cudnn.allow_tf32 = self.math == "tf32"
            with torch.no_grad():
                samples = self.clock.samples(self.call)
                workspace = self._peak() if cuda else 0
            return Result(OK, *summary(samples), workspace)
        except Exception as error:
            return Result(status_of(error))

    def _peak(self) -> int:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        result = self.call()
        torch.cuda.synchronize()
        used = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
        del result
        return max(0, used)

    def close(self) -> None:
        """Frees the buffers."""
        self.tensors.clear()
        self.call = _closed


def _closed() -> object:
    raise AssertionError("its buffers are freed")


def _framework_call(convolution: Convolution, tensors: dict[str, torch.Tensor]) -> Callable[[], object]:
    x, w, y = tensors["x"], tensors["w"], tensors["y"]
    window = [list(convolution.stride), list(convolution.padding), list(convolution.dilation)]
    rest = (False, [0] * len(convolution.stride), convolution.groups)
    if convolution.direction == FORWARD:
        return lambda: torch.ops.aten.convolution(x, w, None, *window, *rest)
    data = convolution.direction == BACKWARD_DATA
    return lambda: torch.ops.aten.convolution_backward(y, x, w, None, *window, *rest, [data, not data, False])


def runners(device: str, repeats: int, method: str = "runs") -> list[Runner]:
    """The runners of a device; without libcudnn a CUDA device is refused."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ProfilerError("--device cuda: torch finds no CUDA device (use cpu for a rehearsal)")
    clock = Clock(torch.device(device), repeats)
    framework = FrameworkRunner(clock)
    return [framework] if device == "cpu" else [framework, CudnnRunner(clock, cudnn.Library(), method)]


def maths_of(dtype: str, device: str) -> tuple[str, ...]:
    """Arithmetics to measure; a CPU has no TF32."""
    return tuple(math for math in cudnn.MATHS[dtype] if not (device == "cpu" and math == "tf32"))
