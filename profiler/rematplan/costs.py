"""What a unit costs, in nanoseconds: `roofline`, `flops` or `measured`.

Matrix products, convolutions and attention are counted by `torch.utils.flop_counter`; every unit moves the bytes that
it reads and makes, once, whatever is fused into it. `roofline` takes the larger of both times, at the speeds that this
device reaches on one matrix product, one convolution and one copy (measured once and kept on disk). `flops` counts operations and a
thousandth of an operation for every byte, and asks no clock: the same on every machine. `measured` runs operators of
more than bytes alone on this device, and takes the roofline for the rest. `Workspaces` knows what they take besides.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, Protocol

import torch
from torch import fx
from torch.utils.flop_counter import flop_registry

from remat_profiler.allocator import ALIGNMENT
from remat_profiler.costs.measure import call_of, numbers_of_its_own, workspace_of

from . import store
from .graph import Unit, hint, is_pure, storage_bytes, tensors_of

MODELS = ("roofline", "flops", "measured")
# Of PyTorch's allocator on a GPU: what segments of one block are multiples of, from which size on, and what is not split off.
_SEGMENT, _OWN_SEGMENT, _LEAST_REST = 2 << 20, 10 << 20, 1 << 20
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
# What inductor lowers at some sizes, and leaves to a library at others.
_AT_TIMES = {"sort", "topk", "kthvalue", "median", "mode"}
LAUNCH_NS = {"cpu": 1000, "cuda": 4000}
_SAMPLES = 7


@dataclass(frozen=True)
class _Trial:
    """How large the operations are whose speed is taken: side of a matrix, a batch of images, bytes that are copied."""

    side: int
    images: int
    copied_bytes: int


_TRIALS = {"cpu": _Trial(768, 0, 64 << 20), "cuda": _Trial(6144, 64, 1 << 30)}


class Costs(Protocol):
    """A time for each unit."""

    name: str

    def time(self, unit: Unit) -> int:
        """Nanoseconds of one run, at least 1."""
        ...


@dataclass(frozen=True)
class Speed:
    """What a device reaches: operations and bytes per nanosecond. A GPU's convolutions may use other arithmetic than its matrix
    products (TF32, unless told otherwise); on a CPU they are taken to be as fast."""

    flops: float
    convolved: float
    bytes: float

    def of(self, node: fx.Node) -> float:
        """Operations per nanosecond of a node."""
        return self.convolved if _is_convolution(node) else self.flops


class Roofline:
    """The larger of arithmetic and traffic, after a launch. A product that stands for a padded one takes longer by what this device
    says of both."""

    name = "roofline"

    def __init__(self, device: torch.device, instead: Mapping[fx.Node, fx.Node] | None = None) -> None:
        self.launch = LAUNCH_NS.get(device.type, 0)
        self.speed = speed_of(device)
        self.slower = {node: _alone(node, device, _SAMPLES) / _alone(padded, device, _SAMPLES) for node, padded in (instead or {}).items()}

    def time(self, unit: Unit) -> int:
        """Of one run."""
        known = self.launch + max(flops(unit.node) / self.speed.of(unit.node), moved(unit) / self.speed.bytes)
        return max(1, round(known * max(1.0, self.slower.get(unit.node, 1.0))))


class Flops:
    """Operations, and a thousandth of one for every byte."""

    name = "flops"

    def time(self, unit: Unit) -> int:
        """Of one run; a picosecond an operation would be as good."""
        return max(1, round((flops(unit.node) + moved(unit) / 1000) / 1000))


class Measured:
    """Operators that the counter knows run alone on real tensors; everything else as `Roofline`."""

    name = "measured"

    def __init__(self, device: torch.device) -> None:
        self.device, self.roofline = device, Roofline(device)
        self.known: dict[str, int] = {}

    def time(self, unit: Unit) -> int:
        """Median of a few runs."""
        if not flops(unit.node):
            return self.roofline.time(unit)
        key = _call_key(unit.node)
        if key not in self.known:
            self.known[key] = _alone(unit.node, self.device, 3)
        return self.known[key]


class Workspaces:
    """Scratch memory that libraries take beyond inputs and outputs: each distinct call runs on this device, once, and what was
    found is kept on disk. Where the graph is `compiled`, convolutions, attention and what inductor does not lower itself are such
    calls: matrix products take none that counts, and generated code takes none. Elsewhere every operator is one. Images that are
    channels-last are turned by the compiler and not by a convolution, which then takes less."""

    def __init__(self, device: torch.device, *, channels_last: bool = False, compiled: bool = True) -> None:
        self.device, self.channels_last, self.compiled = device, channels_last, compiled
        layout = " channels-last" if channels_last else ""
        self._file = store.folder("workspaces") / f"{store.digest(f'{torch.__version__} {_identity(device)}{layout}')}.json"
        found = store.read(self._file)
        known = found.items() if isinstance(found, dict) else ()
        self._known: dict[str, int] = {key: size for key, size in known if type(size) is int and size >= 0}

    def bytes(self, unit: Unit) -> int:
        """Of one run. None is known of a user's own operator, which is never run but where the graph has it."""
        if not is_pure(unit.node) or self.compiled and not _is_of_a_library(unit.node):
            return 0
        key = store.digest(_call_key(unit.node))
        if key not in self._known:
            self._known[key] = self._measure(unit.node)
            store.write(self._file, self._known)
        return self._known[key]

    def _measure(self, node: fx.Node) -> int:
        try:
            with without_fakes(), torch.no_grad(), numbers_of_its_own(self.device):
                call = _real_call(node, self.device, channels_last=self.channels_last and _is_convolution(node))
                call()
                return workspace_of(call, self.device)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # operands that are made up may make no sense together (lengths and offsets)
            if flops(node):
                raise
            return 0


def _is_of_a_library(node: fx.Node) -> bool:
    """Whether inductor calls it as it is, for all that is known, and it is no product."""
    from torch._inductor.lowering import fallbacks, lowerings

    name = str(getattr(node.target, "overloadpacket", "")).rpartition(".")[2]
    left = node.target in fallbacks or node.target not in lowerings or name in _AT_TIMES
    return name not in PRODUCTS and (left or bool(flops(node)))


def handed_out(size: int, kind_of_device: str) -> int:
    """Bytes that PyTorch's allocator hands out for so many. On a GPU it rounds, and a large block is not split for the last MiB of a
    segment: the rules of `allocation/src/caching.rs` for new segments. Which block of those that were freed comes is not foreseen."""
    if kind_of_device != "cuda":
        return size
    segment = -(-size // _SEGMENT) * _SEGMENT
    return segment if size >= _OWN_SEGMENT and segment - size <= _LEAST_REST else -(-size // ALIGNMENT["cuda"]) * ALIGNMENT["cuda"]


def _call_key(node: fx.Node) -> str:
    named = {name: _described(value) for name, value in node.kwargs.items()}
    return f"{node.target} {[_described(value) for value in node.args]} {named}"


def _real_call(node: fx.Node, device: torch.device, *, channels_last: bool = False) -> Callable[[], object]:
    """The operator on real tensors, each in a storage of its own."""
    alone = fx.Graph()

    @cache
    def sized(source: fx.Node) -> Any:  # in numbers: nothing is learnt about symbols
        fake = source.meta["val"]
        if not isinstance(fake, torch.Tensor):
            return hint(fake)
        tensor = torch.empty_strided([hint(s) for s in fake.shape], [hint(s) for s in fake.stride()], dtype=fake.dtype, device="meta")
        placeholder = alone.placeholder(source.name)
        # Inductor turns convolutions of two dimensions, no others.
        turned = channels_last and tensor.dim() == 4
        placeholder.meta["val"] = tensor.contiguous(memory_format=torch.channels_last) if turned else tensor
        return placeholder

    return call_of(alone.create_node("call_function", node.target, *fx.map_arg((node.args, node.kwargs), sized)), device)


def costs_for(model: str, device: torch.device, instead: Mapping[fx.Node, fx.Node] | None = None) -> Costs:
    """The model of that name, one of `MODELS`. `instead`: products, each with the padded one that it stands for."""
    if model == "flops":
        return Flops()
    return Measured(device) if model == "measured" else Roofline(device, instead)


def _is_convolution(node: fx.Node) -> bool:
    return "convolution" in str(node.target)


def flops(node: fx.Node) -> int:
    """Operations of a product, a convolution or attention; 0 of everything else."""
    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return 0
    arguments = [_shape(value) for value in node.args]
    made: object = [_shape_of(tensor) for tensor in tensors_of(node)]
    made = made[0] if isinstance(made, list) and len(made) == 1 else made
    return int(formula(*arguments, out_val=made, **{k: _shape(v) for k, v in node.kwargs.items()}))


def moved(unit: Unit) -> int:
    """Bytes read and made."""
    return sum(map(storage_bytes, unit.reads)) + sum(map(storage_bytes, unit.makes))


def _shape_of(tensor: torch.Tensor | None) -> tuple[int, ...]:
    return () if tensor is None else tuple(hint(size) for size in tensor.shape)


def _shape(value: object) -> object:
    if isinstance(value, fx.Node):
        fake = value.meta["val"]
        return _shape_of(fake) if isinstance(fake, torch.Tensor) else hint(fake)
    return [_shape(item) for item in value] if isinstance(value, (list, tuple)) else value


def _described(value: object) -> object:
    if isinstance(value, fx.Node):
        fake = value.meta["val"]
        return (str(fake.dtype), _shape_of(fake), [hint(s) for s in fake.stride()]) if isinstance(fake, torch.Tensor) else fake
    return [_described(item) for item in value] if isinstance(value, (list, tuple)) else value


def without_fakes() -> AbstractContextManager[Any]:
    """Real tensors inside of a compiler's tracing."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    entered: AbstractContextManager[Any] = unset_fake_temporarily()
    return entered


def _name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu with {torch.get_num_threads()} threads"


def _identity(device: torch.device) -> str:
    """The device, and the switches that decide which of its libraries' algorithms run. (The newer switches of TF32 can always be read.)"""
    if device.type != "cuda":
        return f"{_name_of(device)}, mkldnn {torch.backends.mkldnn.enabled}"
    cudnn = torch.backends.cudnn
    switches = [cudnn.enabled, cudnn.benchmark, cudnn.deterministic, torch.are_deterministic_algorithms_enabled(),
                *(part.fp32_precision for part in (torch.backends, cudnn, cudnn.conv, torch.backends.cuda.matmul))]
    return f"{_name_of(device)}, {switches}"


def speed_of(device: torch.device) -> Speed:
    """From the disk, or measured in less than a second and kept there."""
    name = _identity(device)
    file = store.folder("speeds") / f"{store.digest(name)}.json"
    known = _speed_in(store.read(file))
    if known is not None:
        return known
    trial = _TRIALS.get(device.type, _TRIALS["cpu"])
    with without_fakes(), torch.no_grad():
        matrix = torch.randn(trial.side, trial.side, dtype=torch.float32, device=device)
        product = 2 * trial.side**3 / _median(lambda: torch.mm(matrix, matrix), device, _SAMPLES)
        convolved = _convolved(trial.images, device) if trial.images else product
        source = torch.ones(trial.copied_bytes // 4, dtype=torch.float32, device=device)
        target = torch.empty_like(source)
        copied = 2 * trial.copied_bytes / _median(lambda: target.copy_(source), device, _SAMPLES)
    found = Speed(product, convolved, copied)
    store.write(file, {"device": name, "speed": asdict(found)})
    return found


def _speed_in(document: object) -> Speed | None:
    """That of a file, if it is one: what is damaged is measured anew."""
    found = document.get("speed") if isinstance(document, dict) else None
    names = {field.name for field in fields(Speed)}
    if not isinstance(found, dict) or found.keys() != names:
        return None
    right = all(type(speed) in (int, float) and 0 < speed < math.inf for speed in found.values())
    return Speed(**found) if right else None


def _alone(node: fx.Node, device: torch.device, samples: int) -> int:
    """Nanoseconds of an operator on real tensors."""
    with without_fakes(), torch.no_grad():
        return _median(_real_call(node, device), device, samples)


def _convolved(images: int, device: torch.device, channels: int = 256, side: int = 28) -> float:
    """Operations per nanosecond of a convolution as deep networks have them: 3 x 3, channels last."""
    x = torch.randn(images, channels, side, side, dtype=torch.float32, device=device).to(memory_format=torch.channels_last)
    weight = torch.randn(channels, channels, 3, 3, dtype=torch.float32, device=device).to(memory_format=torch.channels_last)
    took = _median(lambda: torch.nn.functional.conv2d(x, weight, padding=1), device, _SAMPLES)
    return 2 * 9 * channels**2 * side**2 * images / took


def _median(call: Callable[[], object], device: torch.device, samples: int) -> int:
    call()
    taken = []
    for _ in range(samples):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        started = time.perf_counter_ns()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter_ns() - started)
    return max(1, round(statistics.median(taken)))
