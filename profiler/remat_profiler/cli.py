"""The command line: `trace` writes one instance, `suite` a set of them, `harvest` measures; `--list` names the models."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__
from .errors import ProfilerError

if TYPE_CHECKING:
    from .job import Job


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; 0 on success, 2 with one line on stderr on a request that cannot be met."""
    reader = parser()
    options = reader.parse_args(arguments)
    try:
        if options.list:
            from .models import listing

            print(listing())
            return 0
        if options.command is None:
            reader.error("expected a command: trace, suite, replay or harvest (or --list)")
        return int(options.run(options))
    except ProfilerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """All commands; `replay` reads the command of an instance with it."""
    parser = argparse.ArgumentParser(prog="remat_profiler", description="Traces networks into instances.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--list", action="store_true", help="list the models and exit")
    commands = parser.add_subparsers(dest="command")

    trace = commands.add_parser("trace", help="trace one training iteration into an instance file")
    trace.add_argument("--model", required=True, metavar="FAMILY:NAME", help="e.g. torchvision:resnet50")
    trace.add_argument("--batch", type=int, required=True, help="samples per iteration, e.g. 32")
    trace.add_argument("--shape", required=True, help="shape of one sample, e.g. 3x224x224")
    trace.add_argument("--device", required=True, help="cpu, cuda, model:<gpu> (e.g. model:v100), flops or unit")
    trace.add_argument("--trace-device", choices=("auto", "cpu", "cuda"), default="auto",
                       help="device of the fake tensors (default: that of --device where torch allows)")
    trace.add_argument("--repeats", type=int, default=10, help="runs per measured operator (default 10)")
    trace.add_argument("--convolutions", metavar="FILE.csv|model",
                       help="add cudnn:<ALGO> implementations from a harvested table of the same device, or modelled")
    trace.add_argument("--alternatives", action="store_true",
                       help="add implementations as in MONeT: from output, input, mask or kernel index, in place")
    trace.add_argument("--gist", action="store_true", help="add Gist's encodings (gist:dpr-fp16 is lossy)")
    trace.add_argument("--split-convolution-backward", action="store_true",
                       help="parameter gradient and input gradient as two operators")
    trace.add_argument("--split-batch-norm", action="store_true",
                       help="statistics and normalisation as two operators, so that kept statistics are not found again")
    trace.add_argument("--graph-size", action="store_true",
                       help="note the nodes and values of the joint graph before views are folded")
    trace.add_argument("-o", "--output", type=Path, required=True, help="FILE.json, .json.gz or .json.zst")
    trace.set_defaults(run=_trace)

    suite = commands.add_parser("suite", help="write all committed instances of a suite")
    suite.add_argument("name", help="e.g. resnet")
    suite.add_argument("-o", "--output", type=Path, required=True, help="folder")
    suite.add_argument("--only", default="", help="only instances whose name contains this")
    suite.set_defaults(run=_suite)

    join = commands.add_parser("join", help="add cudnn:<ALGO> implementations to an instance that is there already")
    join.add_argument("instance", type=Path, help="FILE.json, .json.gz or .json.zst")
    join.add_argument("--convolutions", required=True, metavar="FILE.csv", help="a table of the same device")
    join.add_argument("--math", choices=("fp32", "tf32"), default=None, help="arithmetic (default fp32)")
    join.add_argument("-o", "--output", type=Path, required=True)
    join.set_defaults(run=_join)

    compare = commands.add_parser("compare", help="print published figures beside those of the committed instances")
    compare.add_argument("--published", type=Path, default=Path("results/published"), help="folder of store-all.csv, graphs.csv")
    compare.add_argument("--instances", type=Path, default=Path("instances"), help="folder of the instances")
    compare.set_defaults(run=_compare)

    from .harvest import cli as harvest
    from .replay import cli as replay

    harvest.add_parser(commands)
    replay.add_parser(commands)
    return parser


def _trace(options: argparse.Namespace) -> int:
    from .job import run

    print(run(job_of(options), options.output))
    return 0


def job_of(options: argparse.Namespace) -> Job:
    """The request that the options of `trace` make."""
    from .job import Job

    return Job(
        options.model, options.batch, parse_shape(options.shape), options.device,
        options.trace_device, options.repeats, options.convolutions, options.alternatives, options.gist,
        options.split_convolution_backward, options.split_batch_norm, options.graph_size,
    )


def _join(options: argparse.Namespace) -> int:
    from . import check, instance
    from .convolutions.join import join

    instance.check_output(options.output)
    made = instance.load(options.instance)
    made["name"] = instance.stem(options.output)
    added = join(made, options.convolutions, "", options.math)
    if not added:
        raise ProfilerError(f"'{options.convolutions}' has no algorithm for any convolution of '{options.instance}'")
    command = f"; remat-profiler join --convolutions {shlex.quote(Path(options.convolutions).name)}"
    made["provenance"]["command"] = made["provenance"].get("command", "") + command + (f" --math {options.math}" if options.math else "")
    found = check.problems(made)
    if found:
        raise ProfilerError(f"the joined instance is not valid ({len(found)} problems): {found[0]}")
    size = instance.write(made, options.output)
    print(f"{made['name']}: {added} implementations added, {size} bytes written")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from .compare import page

    print(page(options.published, options.instances, "just published"), end="")
    return 0


def _suite(options: argparse.Namespace) -> int:
    from .job import run, traced
    from .suites import suite

    jobs = suite(options.name)
    if not options.output.is_dir():
        raise ProfilerError(f"the output folder '{options.output}' does not exist")
    previous = trace = None
    for name, job in jobs.items():
        if options.only in name:
            # The same network with other costs follows at once; traced for a given device, it has the same graph.
            if replace(job, device="") != previous or job.trace_device == "auto":
                trace = traced(job)
            previous = replace(job, device="")
            print(run(job, options.output / f"{name}.json.zst", trace=trace), flush=True)
    return 0


def parse_shape(text: str) -> tuple[int, ...]:
    """`3x224x224` as a tuple."""
    try:
        shape = tuple(int(part) for part in text.split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise ProfilerError(f"bad shape '{text}': expected positive integers like 3x224x224")
    return shape
