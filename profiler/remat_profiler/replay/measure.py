"""Time and peak memory of one iteration, whoever runs it.

CUDA: events around whole iterations after a warm-up; peaks of the caching allocator, allocated and reserved;
a hard cap by `set_per_process_memory_fraction`. CPU: a clock, and the peak of PyTorch's allocator, found from
the profiler's list of every allocation, on top of what was there before (CPU tensors are not rounded).
"""

from __future__ import annotations

import ctypes
import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..allocator import is_planned_cuda
from ..costs.measure import allocations, duration, interquartile_range
from ..errors import ProfilerError

WARM_UP = 2
Iteration = Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Samples in nanoseconds, in the order in which they were taken."""

    samples: list[int]

    @property
    def median(self) -> int:
        """Median."""
        return round(statistics.median(self.samples))

    @property
    def spread(self) -> int:
        """Interquartile range."""
        return round(interquartile_range(sorted(map(float, self.samples))))


@dataclass(frozen=True)
class Peaks:
    """`before` is what was allocated before the iteration; the others include it. None: not known on this device."""

    before: int
    allocated: int
    reserved: int | None = None

    @property
    def fragmentation(self) -> int | None:
        """Reserved minus allocated at their peaks."""
        return None if self.reserved is None else self.reserved - self.allocated


@dataclass(frozen=True)
class Cap:
    """Whether an iteration fits into `limit` bytes of the allocator; its peaks where it does, the words where not."""

    limit: int
    fits: bool
    peaks: Peaks | None
    words: str = ""


def prepare(device: str) -> torch.device:
    """The device, made ready: fp32 means fp32, and a CPU's freed memory stays mapped."""
    if device == "cpu":
        _keep_freed_memory()
    if device == "cuda":
        if not torch.cuda.is_available():
            raise ProfilerError("--device cuda: torch finds no CUDA device (use cpu)")
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
    return torch.device(device)


def _keep_freed_memory() -> None:
    """As with a GPU's allocator. Otherwise what a process freed before decides how much is mapped anew in every iteration: one of
    ResNet-18 (4 images) took 443 ms in a process of its own, and 417 after other schedules. No C library but glibc can be told."""
    libc, no_trimming, no_mappings = ctypes.CDLL(None), (-1, -1), (-4, 0)  # M_TRIM_THRESHOLD, M_MMAP_MAX
    if hasattr(libc, "mallopt"):
        for parameter, value in (no_trimming, no_mappings):
            libc.mallopt(parameter, value)


def times(iteration: Iteration, device: torch.device, repeats: int) -> Times:
    """Runs it `WARM_UP` times, then `repeats` times with a clock."""
    return in_turn([iteration], device, repeats)[0]


def in_turn(iterations: list[Iteration], device: torch.device, repeats: int) -> list[Times]:
    """As `times`, several of them in turn, so that what the machine does besides is the same for all."""
    for iteration in iterations:
        for _ in range(WARM_UP):
            iteration()
    samples = [[duration(iteration, device) for iteration in iterations] for _ in range(repeats)]
    return [Times(list(of_one)) for of_one in zip(*samples)]


def peaks(iteration: Iteration, device: torch.device, resident: int, in_arena: bool = False) -> Peaks:
    """Peak memory of one iteration; `resident` is what it needs before it, which a CPU allocator does not say, and of which a GPU's
    has more (scratch memory that cuBLAS keeps, results to compare with): that is taken off. In an arena there may be nothing besides."""
    gc.collect()
    if device.type != "cuda" or is_planned_cuda():
        return _peaks_above(iteration, device, resident, in_arena)
    found = _peaks_cuda(iteration)
    beside = found.before - resident
    return Peaks(resident, found.allocated - beside, None if found.reserved is None else found.reserved - beside)


def _peaks_cuda(iteration: Iteration) -> Peaks:
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    iteration()
    torch.cuda.synchronize()
    return Peaks(before, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())


def _peaks_above(iteration: Iteration, device: torch.device, resident: int, in_arena: bool) -> Peaks:
    highest, _ = allocations(iteration, device)
    if not highest and not in_arena:
        raise ProfilerError("this torch build records no allocations on the CPU: the peak cannot be measured")
    return Peaks(resident, resident + highest)


def capped(iteration: Iteration, device: torch.device, limit: int) -> Cap:
    """Runs one iteration with no more than `limit` bytes for the allocator, everything included."""
    if device.type != "cuda":
        raise ProfilerError("--cap needs --device cuda: a CPU's allocator has no limit")
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), device)
    try:
        return Cap(limit, True, _peaks_cuda(iteration))
    except torch.OutOfMemoryError as error:
        return Cap(limit, False, None, str(error).splitlines()[0])
    finally:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0, device)
