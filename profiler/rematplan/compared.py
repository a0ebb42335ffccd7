"""What the page compares, and the measurement of one row: one training iteration of one network under one method.

An iteration is forward, loss and backward, without the optimizer. Its peak is the allocator's, with parameters, buffers and
inputs. Its time is taken in turn with that of `torch.compile` in the same process, so that both see the same machine, and
with that of the fastest other method that needs no more memory, where the row is ours. Knows PyTorch's own ways and ours;
the page and its file are somebody else's.
"""

from __future__ import annotations

import itertools
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from remat_profiler import turns

from . import networks
from .budget import Budget
from .compiling import arenas_of
from .compiling import compile as compile_within
from .errors import PlanError, PlanWarning
from .networks import Network
from .planning import difference_of, executed, executed_time

SHARES = (80, 60, 50, 40, 30)
STOCK = (0.7, 0.5, 0.3, 0.1)
SOLVERS = ("dp", "greedy", "ilp")
Iteration = Callable[[], torch.Tensor]
_NUMBERS = itertools.count()
# Iterations until an arena has been planned: one may be unlike the others, and two must be alike.
_SETTLING = 4
# Peaks this close are the same: allocators round.
_SAME_PEAK = 1.002


@dataclass
class Row:
    """One method on one network. `slower` is its time over that of `torch.compile`: the median of pairs taken in turn, and
    `noise` their interquartile range. `against` and its noise are the same over the `rival`, if the row is ours and some
    other method needed no more memory; 0 if that one failed, which `rival` says then. `seconds` is what the row took
    altogether, compilation and planning included."""

    network: str
    method: str
    setting: str
    device: str = ""
    peak_bytes: int = 0
    time_ns: int = 0
    reference_ns: int = 0
    slower: float = 0.0
    noise: float = 0.0
    budget_bytes: int = 0
    planned_peak_bytes: int = 0
    planned_overhead: float = 0.0
    difference: float = 0.0
    seconds: float = 0.0
    error: str = ""
    # Of the peak, where there is one: all of the arena.
    arena_bytes: int = 0
    rival: str = ""
    against: float = 0.0
    against_noise: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """What was asked for."""
        return self.network, self.method, self.setting

    @property
    def ours(self) -> bool:
        """Whether rematplan made it."""
        return self.method.startswith("rematplan")

    @property
    def over(self) -> bool:
        """Whether it took more than its budget."""
        return 0 < self.budget_bytes < self.peak_bytes

    @property
    def words(self) -> str:
        """Method and setting."""
        return " ".join(filter(None, (self.method, self.setting)))


def rival_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """The fastest method of others that needs no more memory on the same network, by their times over `torch.compile`."""
    fitting = [other for other in rows if other.network == row.network and not other.ours and not other.error and other.slower
               and other.peak_bytes <= row.peak_bytes * _SAME_PEAK]
    return min(fitting, key=lambda other: other.slower, default=None)


def methods(shares: tuple[int, ...] = SHARES, stock: tuple[float, ...] = STOCK) -> Iterator[list[tuple[str, str]]]:
    """Everything that is compared, in rounds: a round is measured for every network before the next one begins."""
    yield [("eager", ""), ("torch.compile", "")]
    yield [("compile-budget-dp", f"{budget:g}") for budget in stock]
    yield [("checkpoint-blocks", "eager"), ("checkpoint-blocks", "compiled"), ("selective-checkpoint", "compiled")]
    yield [*(("rematplan", f"{share}%") for share in shares), ("rematplan-arena", "60%")]
    yield [("rematplan-sets", f"{share}%") for share in shares]
    yield from ([(f"compile-budget-{solver}", f"{budget:g}") for budget in stock] for solver in SOLVERS[1:])


@dataclass(frozen=True)
class Conditions:
    """How rows are measured: size of the networks, device, timed iterations, and the planner's seconds for a graph."""

    size: str = "cpu"
    device: str = "cpu"
    samples: int = 9
    seconds: float = 30.0


class Bench:
    """A network on a device, the gradients of eager training, and bytes that are always there."""

    def __init__(self, name: str, conditions: Conditions) -> None:
        self.name, self.conditions = name, conditions
        turns.prepare()
        device = conditions.device
        made = networks.build(name, conditions.size)
        module = made.module.to(device).train()
        self.network = Network(module, tuple(x.to(device) for x in made.inputs), _on(made.loss, device), made.blocks)
        self.state = {key: value.clone() for key, value in module.state_dict().items()}
        held = [*module.parameters(), *module.buffers(), *self.network.inputs]
        self.fixed = sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}.values())
        self.least = self.fixed + sum(p.numel() * p.element_size() for p in module.parameters() if p.requires_grad)
        torch._dynamo.reset()
        self.expected = self.gradients(self.iteration)
        self._give_back()
        self.reference: Iteration = torch.compile(self.fresh())

    def iteration(self) -> torch.Tensor:
        """Forward and loss."""
        return self.network.loss(self.network.module(*self.network.inputs))

    def fresh(self) -> Iteration:
        """The iteration as code of its own: the compiler keeps what it compiled by code, and knows nothing of methods."""
        code = Bench.iteration.__code__
        again = FunctionType(code.replace(co_name=f"{code.co_name}_{next(_NUMBERS)}"), Bench.iteration.__globals__)
        return lambda: again(self)

    def drop(self) -> None:
        """The gradients go."""
        self.network.module.zero_grad(set_to_none=True)

    def run(self, iteration: Iteration) -> Callable[[], None]:
        """A whole step without the optimizer's."""
        def once() -> None:
            self.drop()
            iteration().backward()
        return once

    def gradients(self, iteration: Iteration) -> dict[str, torch.Tensor]:
        """From the first state, which comes back."""
        module = self.network.module
        torch.manual_seed(0)
        self.run(iteration)()
        found = {name: p.grad.detach().clone() for name, p in module.named_parameters() if p.grad is not None}
        self.drop()
        module.load_state_dict(self.state)
        return found

    def _give_back(self) -> None:
        """Memory of a GPU that others may need while this process compiles or waits."""
        if self.conditions.device == "cuda":
            torch.cuda.empty_cache()

    def row(self, method: str, setting: str, others: Sequence[Row] = ()) -> Row:
        """Measures one method. Budgets of ours are shares of the peak of the row "eager" of `others`, among which is the rival, or
        of the same measured here."""
        row = Row(self.name, method, setting, _device(self.conditions.device))
        eager_peak = next((other.peak_bytes for other in others if other.key == (self.name, "eager", "")), 0)
        try:
            with self._as(row):
                iteration = self._chosen(row, eager_peak)
                found = self.gradients(iteration)
                row.difference = difference_of(self.expected, found)
                row.arena_bytes = self._settled(iteration) if method == "rematplan-arena" else 0
                row.peak_bytes = executed(self.run(iteration), 1, self.drop).peak_bytes + self.fixed + row.arena_bytes
            self._time(row, iteration, rival_of(row, others) if row.ours else None)
        except Exception as error:  # a method that fails is a row that says so
            row.error = _said(error)
        self.network.module.load_state_dict(self.state)
        return row

    def _settled(self, iteration: Iteration) -> int:
        """The height of the arena, after the iterations that its plan is made of."""
        for _ in range(_SETTLING):
            self.run(iteration)()
        (arena,) = arenas_of(iteration)
        if arena.packing is None:
            raise PlanError(f"no arena: {arena.given_up or 'iterations do not allocate alike'}")
        return arena.packing.height

    def _time(self, row: Row, iteration: Iteration, rival: Row | None) -> None:
        """In turn with the reference and the rival, so that what the machine does besides is the same for all."""
        turn = [(row.method, iteration), ("torch.compile", self.reference)]
        if rival is not None:
            row.rival = rival.words
            try:
                with self._as(rival):
                    turn.append((rival.method, self._chosen(rival)))
                    self.run(turn[-1][1])()
            except Exception as error:  # the row is still a row, without a comparison
                del turn[2:]
                row.rival += f" ({_said(error)})"
        self.run(self.reference)()
        self._give_back()
        turns.measure()
        taken: list[list[int]] = []
        for _ in range(self.conditions.samples):
            taken.append([])
            for method, one in turn:
                with _wrapped(self.network, method):
                    taken[-1].append(executed_time(self.run(one)))
        row.time_ns, row.reference_ns = (round(statistics.median(samples)) for samples in list(zip(*taken))[:2])
        row.slower, row.noise = _ratio(taken, 1)
        if len(turn) > 2:
            row.against, row.against_noise = _ratio(taken, 2)

    @contextmanager
    def _as(self, row: Row) -> Iterator[None]:
        """While the row's method is compiled."""
        with _configured(row.method, row.setting), _wrapped(self.network, row.method):
            yield

    def _chosen(self, row: Row, eager_peak: int = 0) -> Iteration:
        if "eager" in (row.method, row.setting):
            return self.iteration
        if not row.ours:
            return torch.compile(self.fresh())
        peak = eager_peak or executed(self.run(self.iteration), 1, self.drop).peak_bytes + self.fixed
        row.budget_bytes = Budget.parse(row.setting).resolve(peak)
        if row.budget_bytes < self.least:
            raise PlanError(f"parameters, inputs and gradients alone take {self.least / 1e6:.1f} MB")
        apply = "sets" if row.method.endswith("sets") else "schedule"
        ours = compile_within(self.fresh(), budget=row.budget_bytes, apply=apply, seconds=self.conditions.seconds, fullgraph=True,
                              arena=row.method == "rematplan-arena")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlanWarning)
            self.gradients(ours)
        (plan,) = ours._rematplan.plans  # type: ignore[attr-defined]
        if plan.status == "stock":
            raise PlanError(plan.reason)
        row.planned_peak_bytes, row.planned_overhead = plan.peak_bytes, round(plan.overhead, 4)
        return ours


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0][:200]}"


def _ratio(taken: list[list[int]], other: int) -> tuple[float, float]:
    """Median and interquartile range of the first time over another, turn by turn."""
    ratios = [times[0] / times[other] for times in taken]
    first, _, third = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else (0.0, 0.0, 0.0)
    return round(statistics.median(ratios), 4), round(third - first, 4)


def _device(device: str) -> str:
    threads = torch.get_num_threads()
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {threads} thread{'' if threads == 1 else 's'}"
    return f"{name}, torch {torch.__version__}"


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
            self.options = {"context_fn": lambda: create_selective_checkpoint_contexts(every_other())}

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


def every_other() -> Callable[..., CheckpointPolicy]:
    """torchtitan's policy, for one block: the first matrix product is saved, the second runs again, and so on. The forward
    pass and its repetition are counted apart, so that both decide alike."""
    products = {False: 0, True: 0}
    kept = {"aten::convolution", "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_flash_attention",
            "aten::_scaled_dot_product_efficient_attention"}

    def policy(context: Any, operator: Any, *_arguments: Any, **_keywords: Any) -> CheckpointPolicy:
        name = operator._schema.name if isinstance(operator, torch._ops.OpOverload) else ""
        if name in ("aten::mm", "aten::addmm"):
            products[context.is_recompute] += 1
            return CheckpointPolicy.MUST_SAVE if products[context.is_recompute] % 2 else CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if name in kept else CheckpointPolicy.PREFER_RECOMPUTE

    return policy
