"""The commands that run schedules for real: `replay`, `baseline`, `alternatives`, `remeasure`, `replay-batch`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..documents import Record
from ..errors import ProfilerError

if TYPE_CHECKING:
    from .job import Settings

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Commands) -> None:
    """Adds them."""
    replay = commands.add_parser("replay", help="run a schedule for real: compare gradients, measure time and peak memory")
    replay.add_argument("--instance", type=Path, required=True, help="FILE.json, .json.gz or .json.zst")
    replay.add_argument("--schedule", type=Path, required=True, help="a schedule of that instance, as `bench solve -o` writes it")
    replay.add_argument("--timeline", type=Path, metavar="FILE.csv", help="write the memory during each step, without workspaces")
    replay.add_argument("--arena", type=Path, metavar="PLAN",
                        help="run in one preallocated arena, each tensor where this plan of `bench allocate` puts it")
    _common(replay)
    replay.set_defaults(run=_replay)

    baseline = commands.add_parser("baseline", help="measure one of PyTorch's own ways as `replay` measures a schedule")
    baseline.add_argument("--instance", type=Path, required=True, help="FILE.json, .json.gz or .json.zst")
    baseline.add_argument("--method", required=True, metavar="NAME",
                          help="plain, checkpoint-sequential[segments=K], or compile[budget=FRACTION]")
    _common(baseline)
    baseline.set_defaults(run=_baseline)

    alternatives = commands.add_parser("alternatives", help="what an instance's other implementations cost in reality, beside its numbers")
    alternatives.add_argument("--instance", type=Path, required=True, help="FILE.json, .json.gz or .json.zst, traced with --alternatives")
    _settings(alternatives)
    alternatives.add_argument("-o", "--output", type=Path, required=True, help="TABLE.csv; rows that are there are not measured again")
    alternatives.set_defaults(run=_alternatives)

    remeasure = commands.add_parser("remeasure", help="measure an instance's operators anew inside of whole iterations")
    remeasure.add_argument("--instance", type=Path, required=True, help="an instance file, traced with --device cpu or cuda")
    remeasure.add_argument("--schedule", type=Path, nargs="+", default=[], metavar="FILE",
                          help="schedules of that instance: what they run again is measured where it stands")
    _settings(remeasure)
    remeasure.add_argument("-o", "--output", type=Path, required=True, help="FILE.json, .json.gz or .json.zst; may be the same file")
    remeasure.set_defaults(run=_remeasure)

    batch = commands.add_parser("replay-batch", help="many replays from a list, in slices; run again until it says that all are there")
    batch.add_argument("jobs", type=Path, metavar="FILE.tsv",
                       help="FILE.tsv: INSTANCE, SCHEDULE (or baseline:NAME), RECORD and, to run in one arena, PLAN a line")
    batch.add_argument("--slice-seconds", type=float, help="stop cleanly before (default: go on to the end)")
    batch.add_argument("--pack", action="store_true", help="put the folder records/ beside the list into records.tar.gz")
    _settings(batch)
    batch.set_defaults(run=_batch)


def _common(parser: argparse.ArgumentParser) -> None:
    _settings(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, help="RECORD.json")


def _settings(parser: argparse.ArgumentParser) -> None:
    from . import DEFAULT_REPEATS

    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeat", type=int, default=DEFAULT_REPEATS, help=f"timed iterations (default {DEFAULT_REPEATS})")
    parser.add_argument("--seed", type=int, default=0, help="of parameters, inputs and random operators (default 0)")
    parser.add_argument("--cap", type=int, metavar="BYTES", help="also run under this limit of the allocator (cuda)")


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that the common options make."""
    from .job import Settings

    if options.repeat < 1:
        raise ProfilerError("--repeat must be at least 1")
    return Settings(options.device, options.repeat, options.seed, options.cap)


def _replay(options: argparse.Namespace) -> int:
    from ..allocator import plan_cuda
    from . import record
    from .arena import check_belongs, read_places
    from .arena_replay import replay_in_arena, words
    from .job import bench, replay
    from .plan import plan, read_document

    settings = settings_of(options)
    record.check_output(options.output)
    instance = read_document(options.instance, "instance")
    schedule = read_document(options.schedule, "schedule")
    chosen = plan(instance, schedule)
    if options.arena is None:
        made = replay(bench(instance, settings), schedule, options.timeline)
    else:
        if options.timeline is not None or options.cap is not None:
            raise ProfilerError("--arena goes without --timeline (memory is the arena at every step) and --cap")
        found = read_places(options.arena)
        check_belongs(found, chosen)
        if settings.device == "cuda":
            plan_cuda()
        made = replay_in_arena(bench(instance, settings), schedule, found)
    record.write(made, options.output)
    print("\n".join(filter(None, [summary(made), words(made)])))
    return 1 if made["equality"]["equal"] is False or not made.get("arena", {}).get("equal_to_plain", True) else 0


def _baseline(options: argparse.Namespace) -> int:
    from . import record
    from .baselines import measured, parse
    from .job import bench
    from .plan import read_document

    settings = settings_of(options)
    record.check_output(options.output)
    parse(options.method)
    made = measured(bench(read_document(options.instance, "instance"), settings), options.method)
    record.write(made, options.output)
    print(summary(made))
    return 0


def _alternatives(options: argparse.Namespace) -> int:
    from . import preferring
    from .job import bench
    from .plan import read_document

    settings = settings_of(options)
    instance = read_document(options.instance, "instance")
    if not preferring.families(instance):
        raise ProfilerError(f"'{options.instance}' has no implementation to choose: trace it with --alternatives")
    equal = True
    for cost in preferring.table(bench(instance, settings), options.output):
        print(preferring.words(cost), flush=True)
        equal &= cost.equal
    return 0 if equal else 1


def _remeasure(options: argparse.Namespace) -> int:
    from .. import instance as files
    from .agreement import request_of
    from .job import bench
    from .plan import plan, read_document
    from .remeasure import measured

    settings = settings_of(options)
    files.check_output(options.output)
    instance = read_document(options.instance, "instance")
    if instance["provenance"]["times"].get("kind") != "measured":
        raise ProfilerError(f"the times of '{options.instance}' are not measured: trace it with --device cpu or cuda")
    measured_on = request_of(instance).device
    if measured_on != settings.device:
        raise ProfilerError(f"'{options.instance}' was measured with --device {measured_on}: measure it anew with --device {measured_on}")
    schedules = [read_document(path, "schedule") for path in options.schedule]
    for schedule in schedules:
        plan(instance, schedule)
    found = measured(bench(instance, settings), schedules)
    files.write(found.instance, options.output)
    again = "" if found.again is None else f"; a repetition takes {found.again:.2f} of a first run (median of {found.repeated})"
    print(f"{instance['name']}: an iteration takes {found.executed / 1e6:.1f} ms, by operators measured in it "
          f"{found.within / 1e6:.1f} ms, as it was {found.alone / 1e6:.1f} ms{again}")
    return 0


def _batch(options: argparse.Namespace) -> int:
    from . import batch

    if options.slice_seconds is not None and options.slice_seconds <= 0:
        raise ProfilerError("--slice-seconds must be positive")
    done = batch.run(options.jobs, settings_of(options), options.slice_seconds, lambda line: print(line, flush=True))
    if options.pack:
        print(f"{batch.pack(options.jobs.parent)} holds the records")
    return 0 if done else batch.UNFINISHED


def summary(made: Record) -> str:
    """A record in a few lines, for people."""
    equality, memory, taken = made["equality"], made["memory"], made["time_ns"]
    lines = [f"{made['instance']}, {made['method'] or 'schedule'} on {made['device']['name']}"]
    if equality["equal"] is None:
        lines.append(f"  not compared: {equality['words']}")
    elif equality["equal"]:
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
