"""One replay from files to record: agree, run, compare, account, measure."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import nn

from .. import turns
from ..documents import Instance, Record, Schedule, fixed_bytes
from ..errors import ProfilerError
from ..trace import TracedIteration
from . import DEFAULT_REPEATS, agreement, measure, record, reference
from .implementations import LOSSY, ROUNDED
from .machine import Account, Machine, Result
from .once import store_all
from .plan import Compute, Expectation, Plan, expectation, plan


@dataclass(frozen=True)
class Settings:
    """How to run: device, samples, seed of parameters, inputs and random operators, hard cap."""

    device: str = "cpu"
    repeats: int = DEFAULT_REPEATS
    seed: int = 0
    cap_bytes: int | None = None


@dataclass
class Bench:
    """A network with inputs, and the framework's own outcome on them; serves any number of schedules."""

    instance: Instance
    trace: TracedIteration
    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    device: torch.device
    settings: Settings
    buffers: dict[str, torch.Tensor]
    # None where the framework's own iteration does not fit the device.
    expected: reference.Outcome | None

    @property
    def fixed_bytes(self) -> int:
        """Of the instance."""
        return fixed_bytes(self.instance)

    @property
    def resident_bytes(self) -> int:
        """Before an iteration: fixed bytes and inputs."""
        return self.fixed_bytes + sum(tensor.untyped_storage().nbytes() for tensor in self.inputs)

    def fresh(self) -> None:
        """The state from which every iteration starts."""
        self.module.zero_grad(set_to_none=True)
        reference.restore_buffers(self.module, self.buffers)
        torch.manual_seed(self.settings.seed)

    def outcome(self, iteration: Callable[[], Result]) -> reference.Outcome:
        """Of an iteration from that state."""
        self.fresh()
        return reference.Outcome.of(iteration(), self.module)

    @cached_property
    def store_all(self) -> Machine:
        """Everything once, with default implementations."""
        return Machine(plan(self.instance, store_all(self.instance)), self.trace, self.module, self.device)

    def timed(self, iteration: measure.Iteration, expected: Expectation) -> Record:
        """The times of an iteration; on a CPU, whose speed changes within minutes, in turn with store-all, and the time over its."""
        beside = [partial(self.store_all.run, self.inputs)] if self.device.type == "cpu" else []
        own, *reference = measure.in_turn([iteration, *beside], self.device, self.settings.repeats)
        made: Record = {"time_ns": record.of_times(own)}
        if reference:
            made["over_store_all"] = record.of_ratio(own, reference[0], expected.time / expectation(self.store_all.plan).time)
        return made

    def compared(self, outcome: reference.Outcome, tolerance: float) -> reference.Comparison | None:
        """With the framework's own; None where there is none."""
        return None if self.expected is None else reference.compare(self.expected, outcome, tolerance)

    @cached_property
    def graph_outcome(self) -> reference.Outcome:
        """What the traced operators come to, each run once."""
        return self.outcome(lambda: self.store_all.run(self.inputs))

    def judged(self, outcome: reference.Outcome, tolerance: float) -> tuple[reference.Comparison | None, list[str]]:
        """As `compared`, of a schedule; on a GPU, where the framework may run other kernels than the graph has (cuDNN's batch norm for
        PyTorch's own), with the graph's outcome where the framework's is another, and a note that says how far the two are apart."""
        found = self.compared(outcome, tolerance)
        if found is None or found.equal or self.device.type != "cuda":
            return found, []
        apart = self.compared(self.graph_outcome, tolerance)
        if apart is None or apart.equal or apart.missing or apart.worst is None:
            return found, []
        note = (f"compared with store-all: the framework runs other kernels here, and its {apart.worst.name} is "
                f"{apart.worst.relative:.1e} off (largest of {len(apart.beyond)})")
        return reference.compare(self.graph_outcome, outcome, tolerance), [note]


def bench(instance: Instance, settings: Settings, build: Callable[[], nn.Module] | None = None) -> Bench:
    """Traces again, checks that the two agree, builds the network and runs the framework's own iteration."""
    from ..models import builder

    device = measure.prepare(settings.device)
    trace = agreement.retrace(instance, build)
    turns.measure()
    torch.manual_seed(settings.seed)
    module = (build or builder(instance["provenance"]["model"]))().to(device)
    inputs = reference.inputs_for(trace, device, settings.seed)
    made = Bench(instance, trace, module, inputs, device, settings, reference.saved_buffers(module), None)
    with contextlib.suppress(torch.OutOfMemoryError):
        made.expected = made.outcome(lambda: reference.framework_iteration(module, inputs))
    module.zero_grad(set_to_none=True)
    return made


def tolerance_of(chosen: Plan) -> float:
    """What a schedule's implementations allow for."""
    names = {step.implementation["name"].removesuffix("-recompute") for step in chosen.steps if isinstance(step, Compute)}
    return reference.LOSSY_TOLERANCE if LOSSY in names else reference.TOLERANCE


def replay(with_bench: Bench, schedule: Schedule, timeline: Path | None = None) -> Record:
    """The record of one schedule."""
    settings, device = with_bench.settings, with_bench.device
    chosen = plan(with_bench.instance, schedule)
    expected = expectation(chosen)
    machine = Machine(chosen, with_bench.trace, with_bench.module, device)
    account = Account()
    outcome = with_bench.outcome(lambda: machine.run(with_bench.inputs, account))
    compared, beside = with_bench.judged(outcome, tolerance_of(chosen))
    if timeline is not None:
        _write_timeline(timeline, chosen, account)

    def iteration() -> None:
        machine.run(with_bench.inputs)

    with_bench.fresh()
    peaks = measure.peaks(iteration, device, with_bench.resident_bytes)
    made = record.header(with_bench.instance, chosen.schedule.get("method", ""), settings.device, settings.seed)
    made |= {
        "schedule": record.of_schedule(chosen.schedule), "expected": record.of_expectation(expected),
        "equality": record.of_comparison(compared), **with_bench.timed(iteration, expected),
        "memory": record.of_peaks(peaks, account),
    }
    if settings.cap_bytes is not None:
        made["cap"] = record.of_cap(measure.capped(iteration, device, settings.cap_bytes))
    made["notes"] = [*machine.notes, *beside, *_notes(chosen, account, expected.timeline)]
    return made


def _notes(chosen: Plan, account: Account, expected: list[int]) -> list[str]:
    names = {step.implementation["name"] for step in chosen.steps if isinstance(step, Compute)}
    notes = [f"{name} computes its result in another way: equal within the tolerance only" for name in ROUNDED if name in names]
    if account.timeline != expected:
        step = next(i for i, (a, b) in enumerate(zip(account.timeline, expected)) if a != b)
        notes.append(f"storages differ from the instance's sizes first at step {step} ({chosen.named(chosen.steps[step])})")
    return notes


def _write_timeline(path: Path, chosen: Plan, account: Account) -> None:
    """Memory during each step, without workspaces; the columns of `bench verify --timeline`."""
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["step", "action", "element", "memory_bytes"])
            for index, (step, memory) in enumerate(zip(chosen.steps, account.timeline, strict=True)):
                action, _, element = chosen.named(step).partition(" ")
                writer.writerow([index, action, element, memory])
    except OSError as error:
        raise ProfilerError(f"cannot write '{path}': {error.strerror}") from error
