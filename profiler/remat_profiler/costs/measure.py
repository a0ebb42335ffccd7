"""Measured costs: every ATen operator runs, one at a time, on real tensors of its shapes.

Only one operator's tensors exist at a time, so a network that does not fit can be measured. The
same operator on the same shapes is measured once. Times are medians after a warm-up; on CUDA they
are taken with events, and the workspace is the peak of the caching allocator above the operator's
inputs and outputs. On the CPU the profiler lists every allocation of PyTorch's allocator; what a library
below it takes for itself is not in the list.
"""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial

# The profiler's own log is of no use to anybody here.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import torch  # noqa: E402
from torch import fx  # noqa: E402
from torch._C._profiler import _EventType  # noqa: E402
from torch.autograd.profiler import profile  # noqa: E402
from torch.profiler._utils import traverse_dfs  # noqa: E402

from .. import turns
from ..aliasing import bound_arguments, schema_name
from ..allocator import cuda_level
from ..documents import Device, Origin  # noqa: E402
from ..errors import ProfilerError
from . import Call, Cost, Description

WARM_UP = 2
# Times are steady whose interquartile ranges are at most this part of them (2 to 5 % on an idle CPU, up to 10 where operators take
# microseconds, less on a GPU), with at most so many interruptions by other processes for each run (none on an idle CPU).
_STEADY, _UNDISTURBED = 0.2, 0.25
# Random operators whose operands are probabilities, rates or deviations.
_POSITIVE = {"aten::bernoulli", "aten::binomial", "aten::multinomial", "aten::normal", "aten::poisson", "aten::_sample_dirichlet",
             "aten::_standard_gamma"}


class Measured:
    """A cost source that runs operators on `device`; `known` holds what was measured before."""

    def __init__(self, device: str, repeats: int, known: MutableMapping[str, Cost] | None = None) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise ProfilerError("--device cuda: torch finds no CUDA device (use model:<gpu> or cpu)")
        self.device = torch.device(device)
        self.repeats = repeats
        self._known: MutableMapping[str, Cost] = {} if known is None else known
        # What was measured here, and how often another process took the place of one of our threads meanwhile.
        self._measured: list[Cost] = []
        self._interruptions = 0

    def describe(self) -> Description:
        """Labels the times `measured`."""
        measured: Origin = {"kind": "measured", "samples": self.repeats, "statistic": "median"}
        if self.device.type == "cuda":
            return Description("cuda", _cuda_device(), measured, measured, [
                "operators measured one at a time; spread is the interquartile range",
                "workspaces: peak of the caching allocator above inputs and outputs",
                "TF32 is off for convolutions and matrix products",
            ])
        return Description(
            "cpu", {"name": _cpu_name()}, measured, measured,
            ["operators measured one at a time; spread is the interquartile range",
             f"CPU times with {torch.get_num_threads()} threads",
             "workspaces: peak of PyTorch's allocator above inputs and outputs, without what libraries take below it"],
        )

    def cost(self, node: fx.Node) -> Cost:
        """Measures an operator, or remembers what the same one took."""
        key = _key(node)
        if key not in self._known:
            self._known[key] = self._measure(node)
        return self._known[key]

    def cost_of_call(self, call: Call) -> Cost:
        """Measures a function, or remembers what the same call took."""
        described = [_Spec.of(a) if isinstance(a, torch.Tensor) else a for a in call.arguments]
        key = repr((call.name, described, sorted(call.bounds.items())))
        if key not in self._known:
            self._known[key] = self._measure_call(lambda: _bind(call, self.device))
        return self._known[key]

    def _measure(self, node: fx.Node) -> Cost:
        return self._measure_call(lambda: call_of(node, self.device))

    def _measure_call(self, bind: Callable[[], Callable[[], object]]) -> Cost:
        turns.measure()
        with torch.no_grad(), numbers_of_its_own(self.device), self._precision():
            call = bind()
            for _ in range(WARM_UP):
                call()
            before = _interruptions()
            samples = sorted(duration(call, self.device) for _ in range(self.repeats))
            self._interruptions += _interruptions() - before
            workspace = workspace_of(call, self.device)
        cost = Cost(round(statistics.median(samples)), workspace, round(interquartile_range(samples)))
        self._measured.append(cost)
        return cost

    def unsteady(self) -> str:
        """A line for people where the times are those of a loaded machine. On a CPU threads that wait for each other then take whole
        slices of the scheduler, the same for every sample, which shows in interruptions alone."""
        spread, time = sum(cost.spread_ns or 0 for cost in self._measured), sum(cost.time_ns for cost in self._measured)
        runs, interruptions = len(self._measured) * self.repeats, self._interruptions if self.device.type == "cpu" else 0
        said = [f"their interquartile range is {spread / max(time, 1):.0%} of them"] if spread > _STEADY * time else []
        if interruptions > _UNDISTURBED * runs:
            said.append(f"other processes interrupted {runs} runs {interruptions} times")
        remedy = "trace again while nothing else runs" + (", or with fewer threads (OMP_NUM_THREADS)" if self.device.type == "cpu" else "")
        return f"unsteady times: {' and '.join(said)}; {remedy}" if said else ""

    def _precision(self) -> contextlib.AbstractContextManager[None]:
        return _without_tf32() if self.device.type == "cuda" else contextlib.nullcontext()


@contextlib.contextmanager
def numbers_of_its_own(device: torch.device) -> Iterator[None]:
    """The same random numbers for every measurement; the caller's generators go on as if there were none."""
    with torch.random.fork_rng([torch.cuda.current_device()] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(0)
        if device.type == "cuda":
            torch.cuda.manual_seed(0)
        yield


@contextlib.contextmanager
def _without_tf32() -> Iterator[None]:
    """fp32 means fp32: torch lets convolutions use TF32 unless told otherwise. Afterwards it is as the caller has it, by the older
    switches and by the newer ones. The older ones cannot be read where a caller has set the newer ones otherwise."""
    newer = [torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn]
    before, older = [part.fp32_precision for part in newer], list[Callable[[], None]]()
    with contextlib.suppress(RuntimeError):
        older.append(partial(setattr, torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32))
    with contextlib.suppress(RuntimeError):
        older.append(partial(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision()))
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        for restore in older:
            restore()
        for part, precision in zip(newer, before):
            part.fp32_precision = precision


def workspace_of(call: Callable[[], object], device: torch.device) -> int:
    """Bytes that a call takes on its way, beyond its result."""
    peak, kept = allocations(call, device)
    return max(0, peak - kept)


def allocations(call: Callable[[], object], device: torch.device) -> tuple[int, int]:
    """Bytes of the device's allocator: the peak during a call, and what its result keeps. On CUDA both are above those before; for a CPU
    see `cpu_allocations`."""
    if device.type != "cuda":
        return cpu_allocations(call)
    torch.cuda.synchronize(device)
    before, _ = cuda_level(again=True)
    result = call()
    torch.cuda.synchronize(device)
    after, peak = cuda_level()
    del result
    return peak - before, after - before


def cpu_allocations(call: Callable[[], object]) -> tuple[int, int]:
    """Bytes that a call takes from PyTorch's CPU allocator: their peak, and those of its result. What was there before does not
    count when the call frees it: the profiler says no size of it, or that of what an earlier profile saw at its address."""
    with profile(use_kineto=True, profile_memory=True, record_shapes=False) as recorded:
        result = call()
    tree = recorded.kineto_results.experimental_event_tree()
    events = [event for event in traverse_dfs(tree) if event.tag == _EventType.Allocation]
    live: dict[int, int] = {}
    now = highest = 0
    for block in (event.extra_fields for event in sorted(events, key=lambda event: event.start_time_ns)):
        if block.alloc_size > 0:
            live[block.ptr] = block.alloc_size
            now += block.alloc_size
            highest = max(highest, now)
        else:  # freed
            now -= live.pop(block.ptr, 0)
    del result
    return highest, now


def _interruptions() -> int:
    """How often a thread of this process had to make room for another process, where the system counts that."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def duration(call: Callable[[], object], device: torch.device) -> int:
    """Nanoseconds of one call: by events on CUDA, by the wall clock elsewhere."""
    if device.type != "cuda":
        started = time.perf_counter_ns()
        call()
        return time.perf_counter_ns() - started
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return round(start.elapsed_time(end) * 1e6)


def interquartile_range(samples: Sequence[float]) -> float:
    """Of sorted samples; 0 of one."""
    if len(samples) < 2:
        return 0.0
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return third - first


@dataclass(frozen=True)
class _Spec:
    """What a real tensor must look like to stand for a fake one."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    elements: int
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Spec:
        elements = tensor.untyped_storage().nbytes() // tensor.element_size()
        return cls(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()), elements, tensor.dtype)

    def make(self, device: torch.device, upper: int | None = None) -> torch.Tensor:
        """A tensor in a storage of its own: normal numbers, or integers below `upper` (else 0)."""
        if self.dtype.is_floating_point:
            storage = torch.randn(self.elements, device=device).to(self.dtype)
        elif upper is not None and self.dtype != torch.bool:
            storage = torch.randint(0, upper, (self.elements,), device=device, dtype=self.dtype)
        else:
            storage = torch.zeros(self.elements, device=device, dtype=self.dtype)
        return storage.as_strided(self.shape, self.stride, self.offset)


def call_of(node: fx.Node, device: torch.device) -> Callable[[], object]:
    """The operator bound to real operands."""
    upper = _index_bound(node)
    made: dict[fx.Node, torch.Tensor] = {}

    def real(value: object) -> object:
        if isinstance(value, fx.Node):
            fake = value.meta["val"]
            if not isinstance(fake, torch.Tensor):
                return fake
            if value not in made:
                made[value] = _Spec.of(fake).make(device, upper)
            return made[value]
        if isinstance(value, torch.device):
            return device
        if isinstance(value, (list, tuple)):
            return type(value)(real(item) for item in value)
        return value

    arguments = [real(argument) for argument in node.args]
    keywords = {name: real(value) for name, value in node.kwargs.items()}
    _make_consistent(node, arguments)
    made.clear()  # `real` refers to itself, so that all that it holds would stay until garbage is collected
    return lambda: node.target(*arguments, **keywords)


def _bind(call: Call, device: torch.device) -> Callable[[], object]:
    """The function bound to real tensors."""
    arguments: Sequence[object] = [
        _Spec.of(argument).make(device, call.bounds.get(position)) if isinstance(argument, torch.Tensor) else argument
        for position, argument in enumerate(call.arguments)
    ]
    if call.prepare is not None:
        arguments = call.prepare(*arguments)
    return lambda: call.function(*arguments)


def _index_bound(node: fx.Node) -> int | None:
    """Integers in the operands are indices: what they must stay below."""
    arguments = {argument.name: value for argument, value in bound_arguments(node)}
    name = schema_name(node)
    if name == "aten::embedding":
        return arguments["weight"].meta["val"].shape[0]
    if name in ("aten::nll_loss_forward", "aten::nll_loss_backward"):
        return arguments["self"].meta["val"].shape[1]
    if name == "aten::embedding_dense_backward":
        return arguments["num_weights"]
    return None


def _make_consistent(node: fx.Node, arguments: list[object]) -> None:
    """Operands that only make sense together, the indices of a max-pool from its forward; and probabilities, between 0 and 1."""
    if schema_name(node) == "aten::max_pool2d_with_indices_backward":
        window = arguments[2:7]
        _, arguments[7] = torch.ops.aten.max_pool2d_with_indices.default(arguments[1], *window)
    if schema_name(node) in _POSITIVE:
        arguments[:] = [value.sigmoid() if isinstance(value, torch.Tensor) else value for value in arguments]


def _key(node: fx.Node) -> str:
    """Equal for calls that do the same work."""

    def describe(value: object) -> object:
        if isinstance(value, fx.Node):
            fake = value.meta["val"]
            return _Spec.of(fake) if isinstance(fake, torch.Tensor) else fake
        if isinstance(value, (list, tuple)):
            return [describe(item) for item in value]
        return value

    aliases = [[node.args.index(value), i] for i, value in enumerate(node.args)
               if isinstance(value, fx.Node) and node.args.index(value) != i]
    return repr((str(node.target), describe(list(node.args)), sorted((k, describe(v)) for k, v in node.kwargs.items()), aliases))


def device_of(device: str) -> Device:
    """What the provenance of an instance, or the record of a replay, says about the machine."""
    return _cuda_device() if device == "cuda" else {"name": _cpu_name()}


def _cuda_device() -> Device:
    properties = torch.cuda.get_device_properties(0)
    device: Device = {"name": properties.name, "memory_bytes": properties.total_memory}
    if torch.version.cuda:
        device["cuda"] = torch.version.cuda
    if torch.backends.cudnn.is_available():
        device["cudnn"] = str(torch.backends.cudnn.version())
    driver = _driver()
    if driver is not None:
        device["driver"] = driver
    return device


def _driver() -> str | None:
    """The driver's version, where the kernel module says it."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            words = file.readline().split()
    except OSError:
        return None
    return next((word for word in words if word[:1].isdigit() and "." in word), None)


def device_label(device: str) -> str:
    """The name that an instance measured on `cpu` or `cuda` gives its device."""
    return torch.cuda.get_device_properties(0).name if device == "cuda" else _cpu_name()


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
