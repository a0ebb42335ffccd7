"""Writes a traced iteration with its costs as an instance file, format v1 of `bench`.

The format is defined by `core/src/format.rs` of the repository. The same trace gives the same bytes:
nothing here depends on the time, the machine or the order of a hash table.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import fx

from . import whole
from .aliasing import Value, bound_arguments, is_view
from .costs import Cost, CostSource
from .documents import INSTANCE_FORMAT, VERSION, Implementation, Instance, Tensor, TensorKind, without_nulls
from .documents import Operator as OperatorEntry
from .errors import ProfilerError
from .trace import Operator, Storage, TracedIteration

SUFFIXES = (".json", ".json.gz", ".json.zst")
_CONVOLUTIONS = {"aten::convolution", "aten::convolution_backward"}


@dataclass(frozen=True)
class Header:
    """What the trace itself does not know."""

    name: str
    model: str
    batch: int
    shape: tuple[int, ...]
    command: str


def document(header: Header, trace: TracedIteration, costs: CostSource) -> Instance:
    """The instance as a JSON object."""
    described = costs.describe()
    inputs = [Value(node).tensor for node in trace.capture.inputs]
    abstract = {} if described.time_unit == "ns" else {"units": {"time": described.time_unit}}
    device = {} if described.device is None else {"device": described.device}
    return cast(Instance, {
        "format": INSTANCE_FORMAT,
        "version": VERSION,
        "name": header.name,
        **abstract,
        "provenance": {
            "model": header.model,
            "batch_size": header.batch,
            "input_shapes": [list(tensor.shape) for tensor in inputs],
            "dtype": _dtype(inputs[0]),
            "framework": {"name": "pytorch", "version": torch.__version__},
            **device,
            "sizes": {"kind": "exact"},
            "times": described.times,
            "workspaces": described.workspaces,
            "command": header.command,
            "notes": [*trace.notes, *_notes(trace, described.runs_on), *described.notes],
        },
        "fixed_bytes": {"parameters": trace.parameter_bytes, "buffers": trace.buffer_bytes},
        "tensors": [_tensor(storage) for storage in trace.storages],
        "operators": [_operator(operator, trace, costs) for operator in trace.operators],
        "order": [operator.id for operator in trace.operators],
    })


def _notes(trace: TracedIteration, runs_on: str) -> list[str]:
    notes = [
        "joint graph of AOTAutograd at ATen level under fake tensors "
        f"({trace.capture.trace_device}); functional: in-place ReLUs appear out of place",
        "operands of which an operator reads only the shape are not among its inputs",
    ]
    if trace.capture.trace_device != runs_on:
        notes.append(
            f"traced for a CPU: operators that {runs_on} would dispatch differently (batch norm has a "
            "cuDNN form with one more saved buffer) appear in their generic form"
        )
    if any(operator.updates_state for operator in trace.operators):
        notes.append("batch norm: the recompute implementation has the cost of the default one")
    return notes


def _tensor(storage: Storage) -> Tensor:
    tensor = storage.value.tensor
    entry: Tensor = {
        "id": storage.id, "name": storage.name, "bytes": storage.value.nbytes, "kind": cast(TensorKind, storage.kind),
    }
    if tensor.numel() * tensor.element_size() == storage.value.nbytes:
        entry["shape"] = list(tensor.shape)
    entry["dtype"] = _dtype(tensor)
    return entry


def _operator(operator: Operator, trace: TracedIteration, costs: CostSource) -> OperatorEntry:
    entry: dict[str, object] = {
        "id": operator.id,
        "name": operator.name,
        "op_type": str(operator.node.target).removesuffix(".default"),
        "phase": operator.phase,
    }
    if operator.differentiates is not None:
        entry["differentiates"] = operator.differentiates
    entry["inputs"] = operator.inputs
    entry["outputs"] = operator.outputs
    if operator.random:
        entry["random"] = True
    if operator.updates_state:
        entry["updates_state"] = True
    attributes = _attributes(operator.node)
    if attributes:
        entry["attributes"] = attributes
    cost = costs.cost(operator.node)
    offered = [_implementation("default", cost)]
    if operator.updates_state:
        offered.append({**_implementation("recompute", cost), "recompute": True})
    entry["implementations"] = offered
    return cast(OperatorEntry, entry)  # in the order of fields that committed files have


def _implementation(name: str, cost: Cost) -> Implementation:
    entry: Implementation = {"name": name, "time": cost.time_ns}
    if cost.workspace_bytes:
        entry["workspace_bytes"] = cost.workspace_bytes
    if cost.spread_ns is not None:
        entry["spread"] = cost.spread_ns
    return entry


def _attributes(node: fx.Node) -> dict[str, object]:
    """Arguments that are no tensors, and the shapes of operands that a reader could not know:
    parameters are not in the file, and views have other shapes than their storages."""
    attributes: dict[str, object] = {}
    for argument, value in bound_arguments(node):
        if isinstance(value, fx.Node):
            attributes |= _shape_attributes(argument.name, value, node)
            if argument.name == "weight" and node.target._schema.name in _CONVOLUTIONS:
                attributes["dtype"] = _dtype(value.meta["val"])
        elif value is not None:
            scalar = _scalar(value)
            if scalar is not None:
                attributes[argument.name] = scalar
    return attributes


def _shape_attributes(name: str, operand: fx.Node, node: fx.Node) -> dict[str, object]:
    tensor = operand.meta.get("val")
    if not isinstance(tensor, torch.Tensor):
        return {}
    unlisted = operand.op in ("placeholder", "get_attr")
    folded = operand.op == "call_function" and is_view(operand)
    convolution = node.target._schema.name in _CONVOLUTIONS and name in ("input", "weight")
    found: dict[str, object] = {}
    if unlisted or folded or convolution:
        found[f"{name}_shape"] = list(tensor.shape)
    if not tensor.is_contiguous():
        found[f"{name}_stride"] = list(tensor.stride())
    return found


def _scalar(value: object) -> object | None:
    """A JSON value, or None for what holds tensors."""
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, (list, tuple)):
        items = [_scalar(item) for item in value]
        return None if any(item is None for item in items) else items
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, (torch.memory_format, torch.layout)):
        return str(value).removeprefix("torch.")
    return None


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def check_output(path: Path) -> None:
    """Refuses, before the work starts, an output that could not be written."""
    if not path.name.endswith(SUFFIXES):
        raise ProfilerError(f"output '{path}' must end in one of {', '.join(SUFFIXES)}")
    if path.is_dir():
        raise ProfilerError(f"output '{path}' is a directory")
    if not path.parent.is_dir():
        raise ProfilerError(f"the folder of output '{path}' does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ProfilerError(f"output '{path}' is not writable")


def write(instance: Instance, path: Path) -> int:
    """Writes the file, compressed as its suffix says; returns its size."""
    text = _text(instance).encode()
    if path.name.endswith(".gz"):
        text = gzip.compress(text, 9, mtime=0)
    elif path.name.endswith(".zst"):
        import zstandard

        text = zstandard.ZstdCompressor(level=19).compress(text)
    whole.write(path, text)
    return len(text)


def read(path: Path) -> Instance:
    """Reads an instance file; raises `OSError`, and `ValueError` for what is none."""
    read = parsed(path)
    if read.get("format") != INSTANCE_FORMAT or read.get("version") != VERSION:
        raise ValueError(f"expected an instance file (format {INSTANCE_FORMAT}, version {VERSION})")
    return without_nulls(cast(Instance, read))


def load(path: Path) -> Instance:
    """Reads an instance file; raises `ProfilerError`, which names the file."""
    try:
        return read(path)
    except OSError as error:
        raise ProfilerError(f"cannot read '{path}': {error.strerror}") from error
    except ValueError as error:
        raise ProfilerError(f"'{path}' is no instance of ours: {error}") from error


def parsed(path: Path) -> dict[str, object]:
    """The JSON object of a file, decompressed as its suffix says; raises `OSError`, and `ValueError` where it holds none."""
    data = path.read_bytes()
    if path.name.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(str(error)) from error
    elif path.name.endswith(".zst"):
        import zstandard

        try:
            # Files that were written as a stream do not say how long they are.
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
    read = json.loads(data)
    if not isinstance(read, dict):
        raise ValueError("expected a JSON object")
    return read


def _text(instance: Instance) -> str:
    """Compact JSON with one tensor or operator a line, so that two files can be compared."""
    lines = []
    for key, value in instance.items():
        if key in ("tensors", "operators"):
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in cast(list[object], value))
            lines.append(f"{json.dumps(key)}:[\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}")
    return "{" + ",\n".join(lines) + "}\n"


def stem(path: Path) -> str:
    """The name of an instance: its file name without suffixes."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.stem
