"""The allocator of `allocator.cpp`, compiled for this machine and loaded: what a session of it can be asked.

Inductor's own cache of C++ keeps the library. A GPU's allocator can only be replaced before the first tensor is there
(`plan_cuda`), and PyTorch's statistics of its memory end with that; `cuda_level` has what they had. This file knows ctypes and must
not know of graphs or plans of addresses.
"""

from __future__ import annotations

import ctypes
import inspect
import weakref
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .errors import ProfilerError

ALIGNMENT = {"cpu": 64, "cuda": 512}
# In a log: not freed yet. In a plan: not in the session's memory.
ALIVE, ELSEWHERE = int(np.iinfo(np.int64).max), -1
Numbers = npt.NDArray[np.int64]
_SIGNATURES = {  # the result, and the arguments
    "session_new": "p", "session_delete": "-p", "session_plan": "ipiaai", "iteration_begin": "-p", "window_begin": "ppii",
    "window_end": "ipp", "log_length": "ip", "log_read": "-paa", "log_find": "ipi", "session_read": "-pa",
}
_TOO_LATE = "an arena on a GPU must be asked for (rematplan.plan_cuda) before the first tensor is there"
_ON_CUDA = {"cuda_use": "-ppp", "cuda_level": "-ia"}


@cache
def library(kind: str = "cpu") -> Any:
    """For tensors on a `cpu` or on `cuda`; compiled at most once for a version of torch. A `ProfilerError` where there is no compiler."""
    from torch._inductor.codecache import CppCodeCache

    kinds = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "-": None,
             "a": np.ctypeslib.ndpointer(np.int64, ndim=1, flags="C_CONTIGUOUS")}
    source = Path(__file__).with_name("allocator.cpp").read_text(encoding="utf-8")
    # Not asked for before torch 2.12, and always looked for.
    options = {"needs_vec_isa": False} if "needs_vec_isa" in inspect.signature(CppCodeCache.load_async).parameters else {}
    try:
        # Its symbols are for everybody: what inductor compiles for a CPU is not linked with it.
        ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"), mode=ctypes.RTLD_GLOBAL)
        loaded: Any = CppCodeCache.load(f"#define ON_{kind.upper()}\n{source}", **options)
    except Exception as error:  # of the compiler, of the linker
        raise ProfilerError(f"an arena needs a C++ compiler for PyTorch's headers: {str(error).strip()[:400]}") from error
    for name, signature in (_SIGNATURES | (_ON_CUDA if kind == "cuda" else {})).items():
        function = getattr(loaded, name)
        function.restype, *function.argtypes = (kinds[letter] for letter in signature)
    return loaded


_planned_cuda = False


def plan_cuda() -> None:
    """Takes the place of PyTorch's allocator on a GPU, for as long as the process lives. Raises `ProfilerError` where that cannot be:
    after the first tensor on the GPU, or without a compiler."""
    global _planned_cuda
    if _planned_cuda:
        return
    loaded = library("cuda")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        runtime = next((line.split()[-1] for line in maps if "/libcudart.so" in line), None)
    if runtime is None:
        raise ProfilerError("an arena on a GPU needs a torch that is built for CUDA")
    cuda = ctypes.CDLL(runtime)
    functions = (cuda.cudaMalloc, cuda.cudaFree, cuda.cudaGetLastError)
    loaded.cuda_use(*(ctypes.cast(function, ctypes.c_void_p) for function in functions))
    try:
        torch.cuda.memory.change_current_allocator(
            torch.cuda.memory.CUDAPluggableAllocator(loaded._name, "cuda_allocate", "cuda_release"))
    except RuntimeError as error:
        raise ProfilerError(f"{_TOO_LATE}: {str(error).splitlines()[0]}") from error
    _planned_cuda = True


def is_planned_cuda() -> bool:
    """Whether the allocator on the GPU is this one."""
    return _planned_cuda


def cuda_level(*, again: bool = False) -> tuple[int, int]:
    """Bytes in use on the GPU, and the most since the last call with `again`, by whichever allocator there is. Arenas count whole."""
    if not _planned_cuda:
        if again:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    found = np.empty(2, np.int64)
    library("cuda").cuda_level(int(again), found)
    return int(found[0]), int(found[1])


@dataclass(frozen=True)
class Used:
    """Of an iteration: blocks that are in the memory now; peaks in bytes of what lay in it, what was planned elsewhere, and what
    lay beside; and how many allocations found their place taken."""

    blocks: int
    inside_bytes: int
    outside_bytes: int
    beside_bytes: int
    occupied: int


class Session:
    """Allocations of the windows of one compiled target. Tensors that are alive keep the memory when it goes."""

    def __init__(self, kind: str = "cpu") -> None:
        if kind == "cuda" and not _planned_cuda:
            raise ProfilerError(_TOO_LATE)
        self._library = library(kind)
        self._handle = self._library.session_new()
        weakref.finalize(self, self._library.session_delete, self._handle)

    def plan(self, sizes: Numbers, offsets: Numbers, height: int) -> int:
        """New memory with a plan, and its address; none of either where the plan is empty. 0 where there is not that much."""
        return int(self._library.session_plan(self._handle, len(sizes), sizes, offsets, height))

    def begin_iteration(self) -> None:
        """The log begins anew."""
        self._library.iteration_begin(self._handle)

    def begin_window(self, part: tuple[int, int] | None) -> int | None:
        """From now on allocations of this thread follow this part of the plan; gives what `end_window` wants back."""
        first, end = part or (-1, -1)
        outer: int | None = self._library.window_begin(self._handle, first, end)
        return outer

    def end_window(self, outer: int | None) -> int:
        """The plan's first allocation that did not come as planned; -1 where all came."""
        return int(self._library.window_end(self._handle, outer))

    def length(self) -> int:
        """Allocations of this iteration."""
        return int(self._library.log_length(self._handle))

    def log(self) -> tuple[Numbers, Numbers]:
        """How large each allocation of this iteration was, and how many there were when it was freed."""
        sizes, uppers = (np.empty(self.length(), np.int64) for _ in range(2))
        self._library.log_read(self._handle, sizes, uppers)
        return sizes, uppers

    def find(self, tensor: torch.Tensor) -> int:
        """Which allocation a tensor lies in; -1 for none of this iteration."""
        return int(self._library.log_find(self._handle, tensor.untyped_storage().data_ptr()))

    def used(self) -> Used:
        """What this iteration took so far."""
        found = np.empty(5, np.int64)
        self._library.session_read(self._handle, found)
        return Used(*map(int, found))
