"""One convolution in one direction, as cuDNN sees it, and the ones that an instance needs.

A transposed convolution is no case of its own: its forward pass is the backward-data of the
convolution that it transposes, its backward pass that convolution's forward and backward-filter with
input and output gradient exchanged. A one-dimensional one is two-dimensional with height 1.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from .. import whole
from ..documents import Operator
from ..errors import ProfilerError

FORWARD, BACKWARD_DATA, BACKWARD_FILTER = DIRECTIONS = ("forward", "backward-data", "backward-filter")
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}
FIELDS = ("direction", "input", "weight", "stride", "padding", "dilation", "groups", "dtype")
_FORWARD_TYPE, _BACKWARD_TYPE = "aten.convolution", "aten.convolution_backward"


@dataclass(frozen=True, order=True)
class Convolution:
    """`input` and `weight` are the shapes of the (not transposed) convolution, whatever the direction."""

    direction: str
    input: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    dtype: str

    @property
    def output(self) -> tuple[int, ...]:
        """Shape of the output."""
        spatial = zip(self.input[2:], self.weight[2:], self.stride, self.padding, self.dilation)
        return (self.input[0], self.weight[0], *[
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation in spatial
        ])

    @property
    def flops(self) -> float:
        """Operations of the textbook algorithm; the same in all directions."""
        return 2.0 * self.input[0] * prod(self.output[2:]) * prod(self.weight)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of input, weight and output together."""
        return DTYPE_BYTES[self.dtype] * (prod(self.input) + prod(self.weight) + prod(self.output))

    def cells(self) -> dict[str, str]:
        """As columns of a table."""
        return {name: _cell(getattr(self, name)) for name in FIELDS}

    @classmethod
    def of_cells(cls, row: dict[str, str]) -> Convolution:
        """From columns of a table; raises `ProfilerError` for anything malformed."""
        try:
            shapes = {name: tuple(int(part) for part in row[name].split("x")) for name in FIELDS[1:6]}
            made = cls(row["direction"], **shapes, groups=int(row["groups"]), dtype=row["dtype"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProfilerError(f"not a convolution: {row} (expected columns {', '.join(FIELDS)})") from error
        made.check()
        return made

    def check(self) -> None:
        """Refuses what is no convolution."""
        dimensions = len(self.input) - 2
        consistent = (
            self.direction in DIRECTIONS and self.dtype in DTYPE_BYTES and dimensions in (2, 3)
            and len(self.weight) == dimensions + 2
            and len(self.stride) == len(self.padding) == len(self.dilation) == dimensions
            and self.groups >= 1 and self.weight[1] * self.groups == self.input[1]
            and self.weight[0] % self.groups == 0
        )
        if not consistent or min(self.output) < 1:
            raise ProfilerError(f"not a convolution: {self}")

    def __str__(self) -> str:
        cells = self.cells()
        rest = f"stride {cells['stride']} padding {cells['padding']} dilation {cells['dilation']}"
        return f"{self.direction} {cells['input']} * {cells['weight']} {rest} groups {self.groups} {self.dtype}"


def _cell(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def of_operator(operator: Operator) -> list[Convolution]:
    """The convolutions that an operator of an instance runs: one forward, up to two backward."""
    if operator["op_type"] not in (_FORWARD_TYPE, _BACKWARD_TYPE):
        return []
    attributes: dict[str, Any] = operator.get("attributes", {})
    if attributes.get("dtype") not in DTYPE_BYTES or "input_shape" not in attributes:
        return []
    transposed = attributes["transposed"]
    source, weight = tuple(attributes["input_shape"]), tuple(attributes["weight_shape"])
    window = [tuple(attributes[name]) for name in ("stride", "padding", "dilation")]
    if transposed:
        source = _transposed_output(source, weight, window, tuple(attributes["output_padding"]), attributes["groups"])
    source, weight, window = _at_least_2d(source, weight, window)
    if operator["op_type"] == _FORWARD_TYPE:
        directions = [BACKWARD_DATA if transposed else FORWARD]
    else:
        data = FORWARD if transposed else BACKWARD_DATA
        needs_input, needs_weight, _ = attributes["output_mask"]
        directions = [data] * needs_input + [BACKWARD_FILTER] * needs_weight
    stride, padding, dilation = window
    return [Convolution(direction, source, weight, stride, padding, dilation, attributes["groups"], attributes["dtype"])
            for direction in directions]


Window = list[tuple[int, ...]]


def _transposed_output(
    source: tuple[int, ...], weight: tuple[int, ...], window: Window, extra: tuple[int, ...], groups: int
) -> tuple[int, ...]:
    stride, padding, dilation = window
    spatial = [
        (size - 1) * s - 2 * p + d * (kernel - 1) + e + 1
        for size, kernel, s, p, d, e in zip(source[2:], weight[2:], stride, padding, dilation, extra)
    ]
    return (source[0], weight[1] * groups, *spatial)


def _at_least_2d(
    source: tuple[int, ...], weight: tuple[int, ...], window: Window
) -> tuple[tuple[int, ...], tuple[int, ...], Window]:
    if len(source) != 3:
        return source, weight, window
    stride, padding, dilation = window
    return (*source[:2], 1, source[2]), (*weight[:2], 1, weight[2]), [(1, *stride), (0, *padding), (1, *dilation)]


# Figure 7 of the MONeT paper: 256x64x56x56 input, 3x3 kernel, 64 output channels.
FIGURE_7 = tuple(
    Convolution(direction, (256, 64, 56, 56), (64, 64, 3, 3), (1, 1), (1, 1), (1, 1), 1, "float32")
    for direction in DIRECTIONS
)


def collect(sources: Iterable[Path]) -> list[Convolution]:
    """The distinct convolutions of instance files and folders of them, after Figure 7's; the cheap
    ones come first, so that a harvest that is cut short has covered most. Lists alone stay as they are.
    """
    sources = list(sources)
    found = dict.fromkeys(convolution for source in sources for convolution in _of_source(source))
    if all(source.suffix == ".csv" for source in sources):
        return list(found)
    rest = sorted(set(found) - set(FIGURE_7), key=lambda c: (c.flops + 50 * c.tensor_bytes, c))
    return [*FIGURE_7, *rest]


def _of_source(source: Path) -> Iterator[Convolution]:
    from .. import instance

    if source.suffix == ".csv":
        yield from read_list(source)
        return
    files = sorted(path for path in source.rglob("*") if path.name.endswith(instance.SUFFIXES)) if source.is_dir() else [source]
    if not files:
        raise ProfilerError(f"'{source}' holds no instance ({', '.join(instance.SUFFIXES)})")
    for path in files:
        for operator in instance.load(path)["operators"]:
            yield from of_operator(operator)


def read_list(path: Path) -> list[Convolution]:
    """Reads what `write_list` wrote."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [Convolution.of_cells(row) for row in csv.DictReader(file)]
    except OSError as error:
        raise ProfilerError(f"cannot read '{path}': {error.strerror}") from error


def write_list(convolutions: Iterable[Convolution], path: Path) -> None:
    """A list that needs neither the instances nor zstandard to be read."""
    whole.write_table(path, FIELDS, (convolution.cells() for convolution in convolutions))
