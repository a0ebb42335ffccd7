#!/usr/bin/env python3
"""Draws results/slots.svg from results/slots.csv (`cargo bench -p remat-formulations --bench slots`): per chain, the mean
excess of the makespan over the refinement's, over the budgets that both answer, against CPU seconds of the ten budgets."""

import csv
import math
from collections import defaultdict
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results"
WIDTH, HEIGHT, MARGIN = 340, 260, 62
COLOURS = {"rounded": "#d55e00", "fitted": "#0072b2", "aligned": "#009e73", "refined": "#000000"}


def main():
    series = defaultdict(dict)
    seconds = {}
    for row in csv.DictReader((RESULTS / "slots.csv").open()):
        key = (row["chain"], row["sizes"], int(row["slots"]))
        seconds[key] = max(float(row["cpu_seconds"]), 1e-3)
        if row["makespan"]:
            series[key][row["budget"]] = int(row["makespan"])
    chains = list(dict.fromkeys(key[0] for key in seconds))
    parts = [panel(chain, n, series, seconds) for n, chain in enumerate(chains)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * len(chains)}" height="{HEIGHT}" font-family="sans-serif"'
    (RESULTS / "slots.svg").write_text(f'{head} font-size="10">\n<rect width="100%" height="100%" fill="white"/>\n{"".join(parts)}</svg>\n')


def panel(chain, number, series, seconds):
    best = series[chain, "refined", 0]
    keys = [key for key in seconds if key[0] == chain]
    low = math.floor(min(math.log10(seconds[key]) for key in keys))
    high = math.ceil(max(math.log10(seconds[key]) for key in keys))
    right, bottom = WIDTH - 12, HEIGHT - 40

    def place(key):
        shared = [budget for budget in series[key] if budget in best]
        excess = 100 * sum(series[key][b] / best[b] - 1 for b in shared) / len(shared)
        x = MARGIN + (math.log10(seconds[key]) - low) / (high - low) * (right - MARGIN)
        # From 0.001 % (and less) to 10 %.
        y = bottom - (math.log10(min(max(excess, 1e-3), 10)) + 3) / 4 * (bottom - 28)
        return x, y, len(shared)

    text = [f'<g transform="translate({WIDTH * number},0)"><text x="{MARGIN}" y="16" font-size="13">{chain}</text>\n']
    text.append(f'<path d="M{MARGIN} 28V{bottom}H{right}" fill="none" stroke="#888"/>\n')
    for power in range(-3, 2):
        y = bottom - (power + 3) / 4 * (bottom - 28)
        label = "&lt;0.001" if power == -3 else f"{10.0**power:g}"
        text.append(f'<text x="{MARGIN - 4}" y="{y + 3:.0f}" text-anchor="end">{label} %</text>\n')
    for power in range(low, high + 1):
        x = MARGIN + (power - low) / (high - low) * (right - MARGIN)
        text.append(f'<text x="{x:.0f}" y="{bottom + 14}" text-anchor="middle">{10.0**power:g}</text>\n')
    text.append(f'<text x="{(MARGIN + right) // 2}" y="{HEIGHT - 10}" text-anchor="middle">CPU seconds, ten budgets</text>\n')
    for index, (sizes, colour) in enumerate(COLOURS.items()):
        points = [(key, place(key)) for key in sorted(keys, key=lambda key: key[2]) if key[1] == sizes]
        line = " ".join(f"{x:.1f},{y:.1f}" for _, (x, y, _) in points)
        text.append(f'<polyline points="{line}" fill="none" stroke="{colour}"/>\n')
        for key, (x, y, _) in points:
            text.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            text.append(f'<text x="{x + 4:.1f}" y="{y - 4:.1f}" fill="{colour}">{key[2] or "auto"}</text>\n')
        text.append(f'<text x="{right - 60}" y="{40 + 12 * index}" fill="{colour}">{sizes}</text>\n')
    return "".join(text) + "</g>\n"


if __name__ == "__main__":
    main()
