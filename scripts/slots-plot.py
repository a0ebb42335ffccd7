#!/usr/bin/env python3
"""Draws results/slots.svg from results/slots.csv (`cargo bench -p remat-formulations --bench slots`).

One column per chain. Above: how much the makespan exceeds the best refinement's (`slots=auto`, either program), mean over the
budgets that both answer, against the number of slots. Below: CPU seconds of the ten budgets, the refinement's as a line."""

import csv
import math
from collections import defaultdict
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results"
WIDTH, HEIGHT, LEFT, RIGHT, TOP = 350, 225, 66, 14, 76
SLOTS = (250, 500, 1000, 2000, 4000)
STYLES = {
    ("Persistent", "rounded"): ("#d55e00", "", "rotor-persistent, rounded up (published)"),
    ("Persistent", "fitted"): ("#0072b2", "", "rotor-persistent, fitted to the bytes"),
    ("Persistent", "aligned"): ("#009e73", "", "rotor-persistent, aligned grids"),
    ("Persistent", "refined"): ("#000000", "", "rotor-persistent, slots=auto (time)"),
    ("Weak", "rounded"): ("#d55e00", "5 4", "rotor-weak, rounded up"),
    ("Weak", "fitted"): ("#0072b2", "5 4", "rotor-weak, fitted to the bytes"),
    ("Weak", "aligned"): ("#009e73", "5 4", "rotor-weak, aligned grids"),
    ("Weak", "refined"): ("#000000", "5 4", "rotor-weak, slots=auto (time)"),
}
TITLES = {"L100": "random chain", "resnet101": "ResNet-101, 1000x1000", "resnet1001": "ResNet-1001"}


def main():
    makespans, seconds, stages = defaultdict(dict), {}, {}
    for row in csv.DictReader((RESULTS / "slots.csv").open()):
        key = (row["chain"], row["rule"], row["sizes"], int(row["slots"]))
        seconds[key] = float(row["cpu_seconds"])
        stages[row["chain"]] = row["stages"]
        if row["makespan"]:
            makespans[key][row["budget"]] = int(row["makespan"])
    excess = {key: value for key in seconds if key[2] != "refined" and (value := above(key, makespans)) is not None}
    parts = [legend()]
    for column, chain in enumerate(stages):
        most = max((key[3] for key in seconds if key[:2] == (chain, "Weak")), default=0)
        missing = "" if most == SLOTS[-1] else f" (weak to {most} slots)" if most else " (weak not run)"
        title = f"{TITLES.get(chain, chain)}, {stages[chain]} stages{missing}"
        parts.append(f'<text x="{WIDTH * column + LEFT}" y="{TOP - 8}" font-size="12">{title}</text>\n')
        # Below 0.001 % is drawn at 0.001 %.
        above_zero = {key: max(value, 1e-3) for key, value in excess.items() if key[0] == chain}
        parts.append(panel((column, 0), above_zero, (-3, 2), "excess makespan, %", {-3: "&#8804;0.001"}))
        taken = {key: value for key, value in seconds.items() if key[0] == chain}
        parts.append(panel((column, 1), taken, (-3, 2), "CPU seconds, ten budgets", {}))
    size = f'width="{WIDTH * len(stages)}" height="{TOP + 2 * HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="10">\n'
    (RESULTS / "slots.svg").write_text(f'{head}<rect width="100%" height="100%" fill="white"/>\n{"".join(parts)}</svg>\n')


def above(key, makespans):
    """Mean excess over the refinement of the same program, in per cent; none where no budget is answered by both."""
    refined = [makespans[key[0], rule, "refined", 0] for rule in ("Persistent", "Weak")]
    best = {budget: min(found[budget] for found in refined if budget in found) for budget in set().union(*refined)}
    shared = [budget for budget in makespans[key] if budget in best]
    return 100 * sum(makespans[key][b] / best[b] - 1 for b in shared) / len(shared) if shared else None


def legend():
    text = ""
    for index, (colour, dash, label) in enumerate(STYLES.values()):
        x, y = 14 + 262 * (index % 4), 16 + 18 * (index // 4)
        text += f'<path d="M{x} {y}h26" stroke="{colour}" stroke-dasharray="{dash}"/><text x="{x + 32}" y="{y + 4}">{label}</text>\n'
    return text


def panel(place, values, powers, axis, names):
    low, high = powers
    right, bottom = WIDTH - RIGHT, HEIGHT - 44

    def x_of(slots):
        return LEFT + 10 + math.log2(slots / SLOTS[0]) / math.log2(SLOTS[-1] / SLOTS[0]) * (right - LEFT - 20)

    def y_of(value):
        return bottom - (math.log10(value) - low) / (high - low) * bottom

    text = [f'<g transform="translate({WIDTH * place[0]},{TOP + HEIGHT * place[1]})">\n']
    for power in range(low, high + 1):
        y, label = y_of(10.0**power), names.get(power, f"{10.0**power:g}")
        text.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/><text x="{LEFT - 5}" y="{y + 3:.1f}" text-anchor="end">{label}</text>\n')
    for slots in SLOTS:
        text.append(f'<text x="{x_of(slots):.1f}" y="{bottom + 14}" text-anchor="middle">{slots}</text>\n')
    text.append(f'<path d="M{LEFT} 0V{bottom}H{right}" fill="none" stroke="#666"/>\n')
    text.append(f'<text x="{(LEFT + right) // 2}" y="{bottom + 29}" text-anchor="middle">slots</text>\n')
    text.append(f'<text transform="translate(14,{bottom // 2}) rotate(-90)" text-anchor="middle">{axis}</text>\n')
    for (rule, sizes), (colour, dash, _) in STYLES.items():
        line = f'fill="none" stroke="{colour}" stroke-dasharray="{dash}"'
        points = [(key[3], value) for key, value in sorted(values.items()) if key[1:3] == (rule, sizes)]
        if sizes == "refined":
            text += [f'<path d="M{LEFT} {y_of(value):.1f}H{right}" {line}/>\n' for _, value in points]
            continue
        places = [(x_of(slots), y_of(value)) for slots, value in points]
        text.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}" {line}/>\n')
        fill = "white" if dash else colour
        text += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{fill}" stroke="{colour}"/>\n' for x, y in places]
    return "".join(text) + "</g>\n"


if __name__ == "__main__":
    main()
