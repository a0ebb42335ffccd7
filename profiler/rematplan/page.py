"""Measures training within budgets against what users have, and writes the page: `python -m rematplan.page OUT`.

Every row is one iteration (forward, loss, backward) of one network under one method: the allocator's peak with parameters
and inputs, the median time beside that of `torch.compile` taken in turn, and the largest difference of a gradient from eager
training. Budgets of ours are shares of the eager peak. Rows are added to OUT/compiled.csv as they are found; rows that
are there are kept, so that a measurement goes on where it stopped. The page is OUT/compiled.md, made from the rows alone.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from . import networks
from .budget import Budget
from .compiling import compile as compile_within
from .errors import PlanError, PlanWarning
from .networks import NETWORKS, Network
from .planning import executed, executed_time

SHARES = (80, 60, 50, 40, 30)
STOCK = (0.9, 0.7, 0.5, 0.3, 0.1, 0.0)
SOLVERS = ("dp", "greedy", "ilp")
UNFINISHED = 75
_NUMBERS = itertools.count()
Iteration = Callable[[], torch.Tensor]


@dataclass
class Row:
    """One method on one network. Times in nanoseconds; `reference_ns` is `torch.compile`'s in the same minutes."""

    network: str
    method: str
    setting: str
    peak_bytes: int = 0
    time_ns: int = 0
    reference_ns: int = 0
    budget_bytes: int = 0
    planned_peak_bytes: int = 0
    planned_overhead: float = 0.0
    difference: float = 0.0
    error: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What was asked for."""
        return self.network, self.method, self.setting

    @property
    def slower(self) -> float:
        """Time over that of `torch.compile`."""
        return self.time_ns / self.reference_ns if self.reference_ns else 0.0


def methods(shares: tuple[int, ...] = SHARES, stock: tuple[float, ...] = STOCK) -> Iterator[tuple[str, str]]:
    """Everything that is compared, the reference first."""
    yield "eager", ""
    yield "torch.compile", ""
    yield "checkpoint-blocks", "eager"
    yield "checkpoint-blocks", "compiled"
    yield "selective-checkpoint", "compiled"
    for solver in SOLVERS:
        for budget in stock:
            yield f"compile-budget-{solver}", f"{budget:g}"
    for share in shares:
        yield "rematplan", f"{share}%"
    for share in shares:
        yield "rematplan-sets", f"{share}%"


class Bench:
    """A network on a device, with what is measured once: the eager gradients, and bytes that are always there."""

    def __init__(self, name: str, size: str, device: str, samples: int, seconds: float) -> None:
        self.name, self.samples, self.seconds = name, samples, seconds
        made = networks.build(name, size)
        module = made.module.to(device).train()
        self.network = Network(module, tuple(x.to(device) for x in made.inputs), _on(made.loss, device), made.blocks)
        self.state = {key: value.clone() for key, value in module.state_dict().items()}
        held = [*module.parameters(), *module.buffers(), *self.network.inputs]
        self.fixed = sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}.values())
        torch._dynamo.reset()
        self.expected = self.gradients(self.iteration)
        self.reference: Iteration = torch.compile(self.fresh())
        self.eager_peak = 0

    def iteration(self) -> torch.Tensor:
        """Forward and loss."""
        return self.network.loss(self.network.module(*self.network.inputs))

    def fresh(self) -> Iteration:
        """The iteration as code of its own: the compiler keeps what it compiled by code, and knows nothing of methods."""
        code = Bench.iteration.__code__
        again = FunctionType(code.replace(co_name=f"{code.co_name}_{next(_NUMBERS)}"), Bench.iteration.__globals__)
        return lambda: again(self)

    def run(self, iteration: Iteration) -> Callable[[], None]:
        """A whole step without the optimizer's."""
        def once() -> None:
            self.network.module.zero_grad(set_to_none=True)
            iteration().backward()
        return once

    def gradients(self, iteration: Iteration) -> dict[str, torch.Tensor]:
        """From the first state, which comes back."""
        module = self.network.module
        torch.manual_seed(0)
        self.run(iteration)()
        found = {name: p.grad.detach().clone() for name, p in module.named_parameters() if p.grad is not None}
        module.zero_grad(set_to_none=True)
        module.load_state_dict(self.state)
        return found

    def row(self, method: str, setting: str) -> Row:
        """Measures one method."""
        row = Row(self.name, method, setting)
        try:
            with _configured(method, setting), _wrapped(self.network, method):
                iteration = self._chosen(method, setting, row)
                found = self.gradients(iteration)
                largest = max(g.abs().max().item() for g in self.expected.values()) or 1.0
                row.difference = max((found[n] - g).abs().max().item() / largest for n, g in self.expected.items())
                row.peak_bytes = executed(self.run(iteration), 1).peak_bytes + self.fixed
            self._time(row, iteration, method)
            if method == "eager":
                self.eager_peak = row.peak_bytes
        except Exception as error:  # a method that fails is a row that says so
            row.error = f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0][:200]}"
        self.network.module.load_state_dict(self.state)
        return row

    def _time(self, row: Row, iteration: Iteration, method: str) -> None:
        """In turn with the reference, so that what the machine does besides is the same for both."""
        taken: tuple[list[int], list[int]] = [], []
        self.run(self.reference)()
        for _ in range(self.samples):
            with _wrapped(self.network, method):
                taken[0].append(executed_time(self.run(iteration)))
            taken[1].append(executed_time(self.run(self.reference)))
        row.time_ns, row.reference_ns = (round(statistics.median(samples)) for samples in taken)

    def _chosen(self, method: str, setting: str, row: Row) -> Iteration:
        if method == "eager" or setting == "eager":
            return self.iteration
        if not method.startswith("rematplan"):
            return torch.compile(self.fresh())
        row.budget_bytes = Budget.parse(setting).resolve(self.eager_peak)
        apply = "sets" if method.endswith("sets") else "schedule"
        ours = compile_within(self.fresh(), budget=row.budget_bytes, apply=apply, seconds=self.seconds, fullgraph=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlanWarning)
            self.gradients(ours)
        (plan,) = ours._rematplan.plans  # type: ignore[attr-defined]
        if plan.status == "stock":
            raise PlanError(plan.reason)
        row.planned_peak_bytes, row.planned_overhead = plan.peak_bytes, plan.overhead
        return ours


def _on(loss: Callable[[Any], torch.Tensor], device: str) -> Callable[[Any], torch.Tensor]:
    """Losses close over labels on the CPU."""
    if device == "cpu":
        return loss
    for cell in loss.__closure__ or ():
        if isinstance(cell.cell_contents, torch.Tensor):
            cell.cell_contents = cell.cell_contents.to(device)
    return loss


def _configured(method: str, setting: str) -> AbstractContextManager[Any]:
    if not method.startswith("compile-budget-"):
        return nullcontext()
    from torch._functorch import config

    patched: AbstractContextManager[Any] = config.patch(
        activation_memory_budget=float(setting), activation_memory_budget_solver=method.rpartition("-")[2])
    return patched


class _wrapped:
    """Blocks that recompute themselves, for as long as it lasts: everything, or (selective, as torchtitan does) all but
    every other matrix product, convolutions and attention."""

    def __init__(self, network: Network, method: str) -> None:
        self.network = network
        self.options: dict[str, Any] | None = None
        if method == "checkpoint-blocks":
            self.options = {}
        elif method == "selective-checkpoint":
            self.options = {"context_fn": lambda: create_selective_checkpoint_contexts(_every_other())}

    def __enter__(self) -> None:
        if self.options is not None:
            for block in self.network.blocks:
                self._wrap(block, self.options)

    def _wrap(self, block: nn.Module, options: dict[str, Any]) -> None:
        plain = block.forward
        block.forward = lambda *inputs: checkpoint(plain, *inputs, use_reentrant=False, **options)

    def __exit__(self, *_error: object) -> None:
        if self.options is not None:
            for block in self.network.blocks:
                del block.__dict__["forward"]


def _every_other() -> Callable[..., CheckpointPolicy]:
    products = 0
    kept = {"aten::convolution", "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_flash_attention",
            "aten::_scaled_dot_product_efficient_attention"}

    def policy(context: Any, operator: Any, *_arguments: Any, **_keywords: Any) -> CheckpointPolicy:
        nonlocal products
        name = operator._schema.name if isinstance(operator, torch._ops.OpOverload) else ""
        if name in ("aten::mm", "aten::addmm"):
            products += 0 if context.is_recompute else 1
            return CheckpointPolicy.MUST_SAVE if products % 2 else CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if name in kept else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def read(path: Path) -> list[Row]:
    """The rows that are there."""
    if not path.is_file():
        return []
    kinds = {field.name: field.type for field in fields(Row)}
    convert: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
    with path.open(newline="", encoding="utf-8") as file:
        return [Row(**{name: convert[str(kinds[name])](value) for name, value in row.items()}) for row in csv.DictReader(file)]


def write(path: Path, rows: list[Row]) -> None:
    """All of them, in order."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def page(rows: list[Row], device: str) -> str:
    """The page, from the rows alone."""
    lines = ["# Training within a budget", "",
             f"One iteration without the optimizer step on {device}, torch {torch.__version__}. Peaks include parameters and inputs, "
             "in MB. Times are over `torch.compile`'s, measured in the same minutes. `budget`: a share of the eager peak. Made by "
             "`just compiled`; every row is in compiled.csv.", ""]
    for name in dict.fromkeys(row.network for row in rows):
        mine = [row for row in rows if row.network == name]
        lines += [f"## {name}", "", "| method | setting | budget | planned peak | peak | time | gradients off by |",
                  "|---|---|---|---|---|---|---|"]
        for row in mine:
            if row.error:
                lines.append(f"| {row.method} | {row.setting} | {_mb(row.budget_bytes)} | | | {_escaped(row.error)} | |")
                continue
            over = " (over)" if row.budget_bytes and row.peak_bytes > row.budget_bytes else ""
            lines.append(f"| {row.method} | {row.setting} | {_mb(row.budget_bytes)} | {_mb(row.planned_peak_bytes)} "
                         f"| {_mb(row.peak_bytes)}{over} | {row.slower:.2f} | {row.difference:.0e} |")
        lines += ["", _verdict(mine), ""]
    return "\n".join(lines)


def _verdict(rows: list[Row]) -> str:
    """Ours against the fastest of theirs that needs no more memory; what theirs cannot reach."""
    ours = [row for row in rows if row.method.startswith("rematplan") and not row.error]
    theirs = [row for row in rows if not row.method.startswith("rematplan") and not row.error]
    if not ours or not theirs:
        return "Nothing to compare."
    lowest = min(row.peak_bytes for row in theirs)
    ratios = []
    for row in ours:
        rivals = [other.slower for other in theirs if other.peak_bytes <= row.peak_bytes]
        if rivals:
            ratios.append(row.slower / min(rivals))
    kept = sum(row.peak_bytes <= row.budget_bytes for row in ours)
    text = f"Within the budget: {kept} of {len(ours)} of ours. The lowest peak of theirs is {_mb(lowest)} MB"
    beyond = sorted(row.peak_bytes for row in ours if row.peak_bytes < lowest)
    text += f"; ours reach {_mb(beyond[0])} MB." if beyond else "."
    if ratios:
        text += (f" Where theirs reach a peak as low, ours take {statistics.median(ratios):.2f} of the best of theirs "
                 f"(median of {len(ratios)}, {min(ratios):.2f} to {max(ratios):.2f}).")
    return text


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f}" if size else ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0: all rows are there; 75: the time is over, run the same again."""
    parser = argparse.ArgumentParser(prog="rematplan.page", description="Measures training within budgets and writes the page.")
    parser.add_argument("out", type=Path, help="folder of compiled.csv and compiled.md")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS), metavar="NAME")
    parser.add_argument("--only", nargs="+", metavar="METHOD", help="only these methods (always with eager)")
    parser.add_argument("--size", choices=networks.SIZES, help="trial, cpu or cuda (that of the device)")
    parser.add_argument("--samples", type=int, default=9, help="timed iterations (9)")
    parser.add_argument("--seconds", type=float, default=30.0, help="time of the planner for a graph (30)")
    parser.add_argument("--slice-seconds", type=float, help="begin no row after this time, and exit with 75")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    file, started = options.out / "compiled.csv", time.monotonic()
    rows = read(file)
    there = {row.key for row in rows}
    device = torch.cuda.get_device_name() if options.device == "cuda" else f"a CPU with {torch.get_num_threads()} threads"
    done = True
    for name in options.networks:
        wanted = [pair for pair in methods() if options.only is None or pair[0] in ("eager", *options.only)]
        if all((name, *pair) in there for pair in wanted):
            continue
        bench = Bench(name, options.size or options.device, options.device, options.samples, options.seconds)
        bench.eager_peak = next((row.peak_bytes for row in rows if row.key == (name, "eager", "")), 0)
        for pair in wanted:
            if (name, *pair) in there:
                continue
            if options.slice_seconds is not None and time.monotonic() - started > options.slice_seconds:
                done = False
                break
            row = bench.row(*pair)
            rows.append(row)
            write(file, rows)
            print(f"{name} {pair[0]} {pair[1]}: {row.error or f'{row.peak_bytes / 1e6:.1f} MB, {row.slower:.2f}'}", flush=True)
    (options.out / "compiled.md").write_text(page(rows, device), encoding="utf-8")
    return 0 if done else UNFINISHED


if __name__ == "__main__":
    sys.exit(main())
