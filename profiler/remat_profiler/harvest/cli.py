"""The commands `harvest collect`, `harvest convolutions`, `harvest networks`, `harvest all` and `harvest model`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ProfilerError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Commands) -> None:
    """Adds `harvest` with its own commands."""
    harvest = commands.add_parser("harvest", help="measure convolutions and networks, slice by slice")
    verbs = harvest.add_subparsers(dest="verb", required=True)

    collect = verbs.add_parser("collect", help="list the distinct convolutions of instances")
    _sources(collect)
    collect.add_argument("-o", "--output", type=Path, required=True, help="FILE.csv")
    collect.set_defaults(run=_collect)

    convolutions = verbs.add_parser("convolutions", help="measure every algorithm of every convolution")
    _device(convolutions)
    _sources(convolutions)
    convolutions.add_argument("--dtypes", nargs="*", default=[], choices=("float16", "bfloat16"),
                              help="measure the float32 convolutions in these too")
    convolutions.add_argument("--method", choices=("runs", "find"), default="runs",
                              help="own medians of explicit runs, or cuDNN's single measurement (default runs)")
    convolutions.add_argument("-o", "--output", type=Path, required=True, help="FILE.csv, appended to")
    convolutions.set_defaults(run=_convolutions)

    networks = verbs.add_parser("networks", help="trace whole networks with measured operators")
    _device(networks)
    networks.add_argument("--list", dest="jobs", type=Path,
                          help="lines NAME MODEL BATCH SHAPE (default: the suites resnet, monet, kusumoto and checkmate)")
    networks.add_argument("--plain", action="store_true", help="without alternatives and Gist's encodings")
    networks.add_argument("--split", action="store_true", help="each network once more with split operators (NAME-split)")
    networks.add_argument("-o", "--output", type=Path, required=True, help="folder")
    networks.set_defaults(run=_networks)

    everything = verbs.add_parser("all", help="one slice of everything; run again until it says finished")
    _device(everything, budget=False)
    everything.add_argument("--slice-seconds", type=float, default=540.0, help="length of this slice (default 540)")
    everything.add_argument("--from", dest="sources", nargs="+", type=Path, required=True, metavar="PATH",
                            help="instances, folders of them or lists of convolutions")
    everything.add_argument("--list", dest="jobs", type=Path, help="networks (default: the suites resnet, monet, kusumoto and checkmate)")
    everything.add_argument("--plain", action="store_true", help="networks without alternatives and Gist's encodings")
    everything.add_argument("--no-split", dest="split", action="store_false", help="no second instance with split operators")
    everything.add_argument("--dtypes", nargs="*", default=[], choices=("float16", "bfloat16"))
    everything.add_argument("--out", type=Path, required=True, help="folder; an archive in it is resumed from")
    everything.set_defaults(run=_all)

    model = verbs.add_parser("model", help="write the modelled table of algorithms for a GPU")
    model.add_argument("--device", required=True, help="model:<gpu>, e.g. model:p100")
    _sources(model)
    model.add_argument("-o", "--output", type=Path, required=True, help="FILE.csv")
    model.set_defaults(run=_model)


def _device(parser: argparse.ArgumentParser, budget: bool = True) -> None:
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True, help="cpu is a rehearsal")
    parser.add_argument("--repeats", type=int, default=10, help="runs per measurement at most (default 10)")
    if budget:
        parser.add_argument("--budget-seconds", type=float, default=500.0, help="stop cleanly before (default 500)")


def _sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="sources", nargs="+", type=Path, required=True, metavar="PATH",
                        help="instances, folders of them or lists of convolutions (FILE.csv)")


def _collect(options: argparse.Namespace) -> int:
    from ..convolutions import problem

    found = problem.collect(options.sources)
    problem.write_list(found, options.output)
    print(f"{len(found)} distinct convolutions, in all directions")
    return 0


def _convolutions(options: argparse.Namespace) -> int:
    from ..convolutions import problem, table
    from . import slices
    from .convolutions import Harvest, short_table, with_dtypes
    from .deadline import Deadline

    _positive(options)
    deadline = Deadline(options.budget_seconds)
    wanted = with_dtypes(problem.collect(options.sources), options.dtypes)
    harvest = Harvest(options.output, options.device, None, options.repeats, options.method)
    try:
        outcome = harvest.run(wanted, deadline, lambda line: print(line, flush=True))
    finally:
        harvest.close()
    print(short_table(table.read(options.output)))
    state = "complete" if outcome.finished else "not complete: run again to go on"
    print(f"{outcome.added} rows added, {outcome.skipped} were there; {state}")
    return slices.LOST if outcome.lost else 0 if outcome.finished else slices.UNFINISHED


def _networks(options: argparse.Namespace) -> int:
    from . import networks, slices

    _positive(options)
    if options.jobs is None:
        jobs = networks.default_jobs(options.device, options.repeats)
    else:
        jobs = networks.read_jobs(options.jobs, options.device, options.repeats)
    jobs = networks.variants(jobs, not options.plain, options.split)
    done = networks.harvest(jobs, options.output, options.device, options.budget_seconds,
                            lambda line: print(line, flush=True))
    return 0 if done else slices.UNFINISHED


def _all(options: argparse.Namespace) -> int:
    from . import slices

    if options.repeats < 1 or options.slice_seconds <= 0:
        raise ProfilerError("--repeats and --slice-seconds must be positive")
    plan = slices.Plan(options.device, options.out, options.sources, options.jobs, options.slice_seconds,
                       options.dtypes, options.repeats, options.plain, options.split)
    return 0 if slices.run(plan, lambda line: print(line, flush=True)) else slices.UNFINISHED


def _model(options: argparse.Namespace) -> int:
    from ..convolutions import model, problem, table

    rows = model.rows(problem.collect(options.sources), options.device)
    table.write(rows, options.output)
    print(f"{len(rows)} modelled rows")
    return 0


def _positive(options: argparse.Namespace) -> None:
    if options.repeats < 1 or options.budget_seconds <= 0:
        raise ProfilerError("--repeats and --budget-seconds must be positive")
