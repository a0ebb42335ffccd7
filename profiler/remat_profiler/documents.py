"""What our JSON files hold, as types: instances and schedules, one `TypedDict` for each object of their schemas.

`instances/instance.schema.json` and `schedule.schema.json` define the formats; a test holds every class here against them
(names of the fields, which are required, what they contain). The schemas allow `null` for what is absent. Here absent is absent:
`without_nulls`, through which everything goes that is read, drops such fields.

Fields that every object has stand in a class of their own, since Python 3.10 has no word for one of a class.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, TypedDict, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

INSTANCE_FORMAT, SCHEDULE_FORMAT, VERSION = "remat-instance", "remat-schedule", 1

Phase = Literal["forward", "loss", "backward"]
TensorKind = Literal["input", "activation", "saved", "gradient", "param_gradient", "output"]
Unit = Literal["ns", "bytes", "abstract"]


class _Measured(TypedDict):
    kind: Literal["measured"]
    samples: int
    statistic: str


class _ModelledAlways(TypedDict):
    kind: Literal["modelled"]
    model: str


class _Modelled(_ModelledAlways, total=False):
    parameters: dict[str, float]


class _Published(TypedDict):
    kind: Literal["published"]
    paper: str
    where: str


class _GeneratedAlways(TypedDict):
    kind: Literal["generated"]
    generator: str


class _Generated(_GeneratedAlways, total=False):
    parameters: dict[str, float]
    seed: int


class _Exact(TypedDict):
    kind: Literal["exact"]


# How a number was obtained.
Origin = _Measured | _Modelled | _Published | _Generated | _Exact
ORIGINS = (_Measured, _Modelled, _Published, _Generated, _Exact)


class _DeviceAlways(TypedDict):
    name: str


class Device(_DeviceAlways, total=False):
    """A device and its software."""

    memory_bytes: int
    driver: str
    cuda: str
    cudnn: str


class Software(TypedDict):
    """A framework."""

    name: str
    version: str


class _ProvenanceAlways(TypedDict):
    model: str
    sizes: Origin
    times: Origin
    workspaces: Origin


class Provenance(_ProvenanceAlways, total=False):
    """Where an instance comes from."""

    batch_size: int
    input_shapes: list[list[int]]
    dtype: str
    framework: Software
    device: Device
    command: str
    notes: list[str]


class FixedBytes(TypedDict, total=False):
    """Bytes occupied during the whole iteration."""

    parameters: int
    buffers: int
    optimizer_state: int
    workspace: int


class Units(TypedDict, total=False):
    """What times and sizes count."""

    time: Unit
    memory: Unit


class _TensorAlways(TypedDict):
    id: int
    name: str
    bytes: int
    kind: TensorKind


class Tensor(_TensorAlways, total=False):
    """A storage."""

    shape: list[int]
    dtype: str


class View(TypedDict):
    """Another name of a storage."""

    id: int
    name: str
    of: int


class InPlace(TypedDict):
    """An output that takes over the buffer of an input."""

    output: int
    input: int


class _ImplementationAlways(TypedDict):
    name: str
    time: int


class Implementation(_ImplementationAlways, total=False):
    """One way to run an operator."""

    workspace_bytes: int
    inputs: list[int]
    saves: list[int]
    in_place: InPlace
    recompute: bool
    spread: int
    origin: Origin


class _OperatorAlways(TypedDict):
    id: int
    name: str
    op_type: str
    phase: Phase
    inputs: list[int]
    outputs: list[int]
    implementations: list[Implementation]


class Operator(_OperatorAlways, total=False):
    """One operator."""

    differentiates: int
    recomputable: bool
    random: bool
    updates_state: bool
    attributes: dict[str, object]


class _InstanceAlways(TypedDict):
    format: str
    version: int
    name: str
    provenance: Provenance
    tensors: list[Tensor]
    operators: list[Operator]
    order: list[int]


class Instance(_InstanceAlways, total=False):
    """An instance file."""

    units: Units
    fixed_bytes: FixedBytes
    views: list[View]


class Step(TypedDict, total=False):
    """One of `compute`, `free`, `offload` and `fetch`."""

    compute: int
    implementation: str
    free: int
    offload: int
    fetch: int


class TransferRates(TypedDict):
    """Bytes per thousand units of time."""

    offload: int
    fetch: int


class _ScheduleAlways(TypedDict):
    format: str
    version: int
    instance: str
    steps: list[Step]


class Schedule(_ScheduleAlways, total=False):
    """A schedule file."""

    instance_hash: str
    method: str
    budget_bytes: int
    claimed_time: int
    claimed_peak_bytes: int
    transfer_rates: TransferRates


# RECORD.json of a replay: docs/reference/formats.md has its fields, and nothing here reads them again but to print.
Record = dict[str, Any]
Document = TypeVar("Document", Instance, Schedule)


def without_nulls(document: Document) -> Document:
    """A copy in which a field that is `null` is absent, which means the same."""
    return cast(Document, _without_nulls(document))


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


# What JSON calls the simple types; true and false are no numbers.
_SIMPLE: dict[object, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "is not true or false"), int: ((int,), "is no whole number"), float: ((int, float), "is no number"),
    str: ((str,), "is no text"),
}


def fault(value: object, kind: Any, where: str = "") -> str:
    """What keeps a value from being of a type of this file, the first of it: `operators[3].id is missing`; empty where nothing does."""
    if is_typeddict(kind):
        return _fault_of_object(value, kind, where)
    if get_origin(kind) is list:
        if not isinstance(value, list):
            return f"{where} is no list"
        return next(filter(None, (fault(item, get_args(kind)[0], f"{where}[{at}]") for at, item in enumerate(value))), "")
    if get_origin(kind) is dict:
        return "" if isinstance(value, Mapping) else f"{where} is no object"
    if get_origin(kind) in (Union, UnionType):
        return "" if any(not fault(value, one, where) for one in get_args(kind)) else f"{where} is nothing that the format knows"
    if get_origin(kind) is Literal:
        return "" if value in get_args(kind) else f"{where} is none of {', '.join(get_args(kind))}"
    if kind is object:
        return ""
    types, words = _SIMPLE[kind]
    return "" if isinstance(value, types) and (kind is bool or not isinstance(value, bool)) else f"{where} {words}"


def _fault_of_object(value: object, kind: Any, where: str) -> str:
    if not isinstance(value, Mapping):
        return f"{where or 'the document'} is no object"
    prefix = f"{where}." if where else ""
    missing = kind.__required_keys__ - value.keys()
    if missing:
        return f"{prefix}{min(missing)} is missing"
    return next(filter(None, (fault(value[name], hint, prefix + name) for name, hint in _hints(kind).items() if name in value)), "")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def lasting(instance: Instance) -> set[int]:
    """Tensors that stay to the end once they are there: the caller's inputs, and what an iteration gives."""
    return {entry["id"] for entry in instance["tensors"] if entry["kind"] in ("input", "output", "param_gradient")}


def fixed_bytes(instance: Instance) -> int:
    """All of an instance's, whatever they are for."""
    fixed = instance.get("fixed_bytes", FixedBytes())
    return fixed.get("parameters", 0) + fixed.get("buffers", 0) + fixed.get("optimizer_state", 0) + fixed.get("workspace", 0)
