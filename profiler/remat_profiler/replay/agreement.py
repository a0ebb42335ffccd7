"""Traces the network of an instance again and checks, operator by operator, that the two agree.

The request is read from the provenance: model, batch, shape, and the options in the recorded command. Costs are
not compared: they say nothing about what is computed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from torch import fx, nn

from ..capture import Example
from ..costs import Call, Cost, Description
from ..documents import Instance, Operator, Tensor
from ..errors import ProfilerError
from ..job import Job, traced_with
from ..trace import TracedIteration

_TENSOR_FIELDS = ("name", "bytes", "kind", "shape", "dtype")
_OPERATOR_FIELDS = ("name", "op_type", "phase", "differentiates", "inputs", "outputs", "random", "updates_state", "attributes")
_IMPLEMENTATION_FIELDS = ("inputs", "saves", "in_place", "recompute")
_TRACED_ON = re.compile(r"under fake tensors \((\w+)\)")
# Operators that instances had before their outputs were views (docs/reference/instances.md).
_ONCE_COPIES = ("aten.split", "aten.unbind", "aten.unsafe_split", "aten.unsafe_chunk")
# Implementations that `--convolutions` and `join` add: the same operator, run by an algorithm of cuDNN's.
ALGORITHMS = ("cudnn:", "torch:")


class _NoCosts:
    """A cost source that knows nothing."""

    def describe(self) -> Description:
        return Description("cpu", None, {"kind": "modelled", "model": "none"}, {"kind": "modelled", "model": "none"})

    def cost(self, _node: fx.Node) -> Cost:
        return Cost(0)

    def cost_of_call(self, _call: Call) -> Cost:
        return Cost(0)


def request_of(instance: Instance) -> Job:
    """What was asked for when the instance was traced."""
    from ..cli import job_of, parser

    provenance = instance["provenance"]
    command = provenance.get("command") or ""
    words = _words_of_the_first(command)
    if words[:2] != ["remat-profiler", "trace"]:
        raise ProfilerError(
            f"instance '{instance['name']}' was not traced by remat-profiler (its provenance names no such command): "
            "there is no network to run"
        )
    try:
        options = parser().parse_args([*words[1:], "-o", "unused.json"])
    except SystemExit as error:
        raise ProfilerError(f"instance '{instance['name']}': cannot read its command '{command}'") from error
    job = job_of(options)
    found = next((match[1] for note in provenance.get("notes", []) if (match := _TRACED_ON.search(note))), "cpu")
    return replace(job, trace_device=found)


def _words_of_the_first(commands: str) -> list[str]:
    """Of several commands with semicolons between them; one within quotation marks is part of a name."""
    lexer = shlex.shlex(commands, posix=True, punctuation_chars=";")
    lexer.whitespace_split, lexer.commenters = True, ""
    return list(takewhile(lambda word: word != ";", lexer))


def retrace(instance: Instance, build: Callable[[], nn.Module] | None = None, example: Example | None = None) -> TracedIteration:
    """The trace again, of the named network or of what `build` makes; refuses one that differs."""
    job = request_of(instance)
    trace = traced_with(job, build, example)
    found = differences(instance, trace, job)
    if found:
        more = f" (and {len(found) - 1} more differences)" if len(found) > 1 else ""
        copies = any(operator["op_type"].startswith(_ONCE_COPIES) for operator in instance["operators"])
        remedy = ("it was traced when the outputs of split and unbind counted as copies: trace it again" if copies
                  else "trace it again with this version of torch")
        raise ProfilerError(
            f"instance '{instance['name']}' is not what tracing '{instance['provenance']['model']}' gives here: "
            f"{found[0]}{more}; {remedy}"
        )
    return trace


def differences(instance: Instance, trace: TracedIteration, job: Job) -> list[str]:
    """What differs, one line each, the first in the framework's order first."""
    again = _document(instance["name"], trace, job)
    found = _compare_all("tensor", instance["tensors"], again["tensors"], _TENSOR_FIELDS)
    found += _compare_all("operator", instance["operators"], again["operators"], _OPERATOR_FIELDS)
    if found:
        return found
    for old, new in zip(instance["operators"], again["operators"]):
        offered = {entry["name"]: entry for entry in new["implementations"]}
        for entry in old["implementations"]:
            if entry["name"].startswith(ALGORITHMS):
                continue
            where = f"operator {old['id']} ({old['name']}), implementation {entry['name']}"
            if entry["name"] not in offered:
                found.append(f"{where} is not there")
            else:
                found += _compare(where, entry, offered[entry["name"]], _IMPLEMENTATION_FIELDS)
    return found


def _document(name: str, trace: TracedIteration, job: Job) -> Instance:
    from ..alternatives.attach import attach
    from ..instance import Header, document

    costs = _NoCosts()
    made = document(Header(name, job.model, job.batch, job.shape, job.command), trace, costs)
    if job.alternatives or job.gist:
        attach(made, trace, costs, job.alternatives, job.gist)
    return made


def _compare_all(what: str, old: Sequence[Tensor | Operator], new: Sequence[Tensor | Operator], fields: tuple[str, ...]) -> list[str]:
    found = []
    if [entry["id"] for entry in old] != [entry["id"] for entry in new]:
        found.append(f"{len(new)} {what}s instead of {len(old)}")
    for a, b in zip(old, new):
        found += _compare(f"{what} {a['id']} ({a['name']})", a, b, fields)
    return found


def _compare(where: str, a: Mapping[str, object], b: Mapping[str, object], fields: tuple[str, ...]) -> list[str]:
    return [f"{where}: {field} is {b.get(field)}, not {a.get(field)}" for field in fields if a.get(field) != b.get(field)]
