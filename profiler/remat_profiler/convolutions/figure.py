"""Figure 7 of the MONeT paper: time against workspace of the algorithms of one forward convolution, as SVG.

Draws the rows of the first row's convolution from tables of algorithms, one series for each device and
origin (modelled, measured or published), so that one table can stand beside another. The same tables give
the same bytes. No plotting library: the profiler's environment has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

from ..errors import ProfilerError
from .problem import Convolution
from .table import OK, Row

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 60
# Of the palette of Okabe and Ito, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STEPS = (1, 2, 5)
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Point:
    """One algorithm: MiB of workspace, milliseconds."""

    algorithm: str
    workspace: float
    time: float


@dataclass(frozen=True)
class Axis:
    """Values from 0 to `top` on pixels from `start` to `end`, a tick each `step`."""

    top: float
    step: float
    start: float
    end: float

    @classmethod
    def over(cls, values: list[float], start: float, end: float) -> Axis:
        """With room above the largest value and about five round ticks."""
        top = 1.08 * max([*values, 1e-9])
        power = 1.0
        while power > top / 5:
            power /= 10
        while power * 10 <= top / 5:
            power *= 10
        step = next((power * factor for factor in STEPS if power * factor >= top / 6), power * 10)
        return cls(top, step, start, end)

    def at(self, value: float) -> float:
        """The pixel of a value."""
        return self.start + (self.end - self.start) * value / self.top

    def ticks(self) -> list[float]:
        """Round values up to the top."""
        return [self.step * number for number in range(int(self.top / self.step) + 1)]


def series_of(rows: list[Row]) -> dict[str, list[Point]]:
    """Points of the first row's convolution, by device and origin."""
    found: dict[str, list[Point]] = {}
    for row in rows:
        if row.convolution == rows[0].convolution and row.status == OK and not row.algorithm.endswith(":default"):
            arithmetic = "" if row.math == "fp32" else f", {row.math}"
            points = found.setdefault(f"{row.device} ({row.origin}{arithmetic})", [])
            points.append(Point(row.algorithm, row.workspace_bytes / MEBIBYTE, row.time_ns / 1e6))
    if not found:
        raise ProfilerError("no algorithm to draw: the tables are empty, or nothing ran for their first convolution")
    return found


def svg(rows: list[Row]) -> str:
    """The figure."""
    series = series_of(rows)
    points = [point for drawn in series.values() for point in drawn]
    across = Axis.over([point.workspace for point in points], LEFT, WIDTH - RIGHT)
    up = Axis.over([point.time for point in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="DejaVu Sans, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        *_frame(across, up, rows[0].convolution),
    ]
    labelled: dict[str, Point] = {}
    for number, (name, drawn) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(_text(LEFT + 10, TOP - 12 - 16 * (len(series) - 1 - number), f"● {name}", fill=colour))
        for point in drawn:
            parts += _mark(point, labelled.get(point.algorithm), across, up, colour)
            labelled.setdefault(point.algorithm, point)
    return "\n".join([*parts, "</svg>", ""])


def _frame(across: Axis, up: Axis, convolution: Convolution) -> list[str]:
    parts = []
    for tick in across.ticks():
        x = across.at(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{up.start}" x2="{x:.1f}" y2="{up.end}" stroke="#dddddd"/>')
        parts.append(_text(x, up.start + 18, f"{tick:g}", anchor="middle"))
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<line x1="{across.start}" y1="{y:.1f}" x2="{across.end}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(_text(across.start - 8, y + 4, f"{tick:g}", anchor="end"))
    cells = convolution.cells()
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18,
                       f"workspace in MiB ({cells['input']} input, {cells['weight']} kernel, {cells['direction']})", anchor="middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="20" y="{middle}" transform="rotate(-90 20 {middle})" text-anchor="middle">time in ms</text>')
    return parts


def _mark(point: Point, labelled: Point | None, across: Axis, up: Axis, colour: str) -> list[str]:
    """A dot with the algorithm's name, or with a line to the dot of another series that has the name."""
    x, y = across.at(point.workspace), up.at(point.time)
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'
    if labelled is not None:
        there = across.at(labelled.workspace), up.at(labelled.time)
        return [f'<line x1="{there[0]:.1f}" y1="{there[1]:.1f}" x2="{x:.1f}" y2="{y:.1f}" stroke="{colour}"/>', dot]
    last = x > LEFT + 0.7 * (WIDTH - LEFT - RIGHT)
    return [dot, _text(x - 9 if last else x + 9, y + 4, point.algorithm, anchor="end" if last else "start", fill=colour)]


def _text(x: float, y: float, words: str, anchor: str = "start", fill: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(words)}</text>'
