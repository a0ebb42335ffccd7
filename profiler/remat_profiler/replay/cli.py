"""The commands `replay` and `baseline`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import ProfilerError


def add_parser(commands) -> None:
    """Adds them."""
    replay = commands.add_parser("replay", help="run a schedule for real: compare gradients, measure time and peak memory")
    replay.add_argument("--instance", type=Path, required=True, help="FILE.json, .json.gz or .json.zst")
    replay.add_argument("--schedule", type=Path, required=True, help="a schedule of that instance, as `bench solve -o` writes it")
    replay.add_argument("--timeline", type=Path, metavar="FILE.csv", help="write the memory during each step, without workspaces")
    _common(replay)
    replay.set_defaults(run=_replay)


def _common(parser: argparse.ArgumentParser) -> None:
    from .job import DEFAULT_REPEATS

    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeat", type=int, default=DEFAULT_REPEATS, help=f"timed iterations (default {DEFAULT_REPEATS})")
    parser.add_argument("--seed", type=int, default=0, help="of parameters, inputs and random operators (default 0)")
    parser.add_argument("--cap", type=int, metavar="BYTES", help="also run under this limit of the allocator (cuda)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="RECORD.json")


def settings_of(options: argparse.Namespace):
    """The settings that the common options make."""
    from .job import Settings

    if options.repeat < 1:
        raise ProfilerError("--repeat must be at least 1")
    return Settings(options.device, options.repeat, options.seed, options.cap)


def _replay(options: argparse.Namespace) -> int:
    from . import record
    from .job import bench, replay
    from .plan import plan, read_document

    settings = settings_of(options)
    record.check_output(options.output)
    instance = read_document(options.instance, "instance")
    schedule = read_document(options.schedule, "schedule")
    plan(instance, schedule)
    made = replay(bench(instance, settings), schedule, options.timeline)
    record.write(made, options.output)
    print(summary(made))
    return 0 if made["equality"]["equal"] else 1


def summary(made: dict) -> str:
    """A record in a few lines, for people."""
    equality, memory, taken = made["equality"], made["memory"], made["time_ns"]
    lines = [f"{made['instance']}, {made['method'] or 'schedule'} on {made['device']['name']}"]
    if equality["equal"]:
        lines.append(f"  equal to the framework's iteration: {equality['bitwise']} tensors to the bit, "
                     f"{equality['within_tolerance']} within {equality['tolerance']:g}")
    else:
        first = equality["different"][:1] or [{"name": name, "relative": "missing"} for name in equality["missing"][:1]]
        lines.append(f"  DIFFERENT from the framework's iteration: {first[0]['name']} ({first[0]['relative']})")
    lines.append(f"  time {taken['median'] / 1e6:.3f} ms (spread {taken['spread'] / 1e6:.3f})"
                 + (f", simulated {made['expected']['time_ns'] / 1e6:.3f} ms" if "expected" in made else ""))
    lines.append(f"  peak {memory['allocated_peak_bytes']} bytes by the allocator"
                 + (f", {memory['storage_peak_bytes']} by storages" if "storage_peak_bytes" in memory else "")
                 + (f", simulated {made['expected']['peak_bytes']}" if "expected" in made else ""))
    if "cap" in made:
        lines.append(f"  under a cap of {made['cap']['limit_bytes']} bytes: {'fits' if made['cap']['fits'] else 'does not fit'}")
    return "\n".join(lines)
