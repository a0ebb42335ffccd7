"""The framework's own ways to run an iteration, measured as schedules are.

* `plain`: forward, loss, backward.
* `checkpoint-sequential[segments=K]`: `torch.utils.checkpoint.checkpoint_sequential`, for modules that are an
  `nn.Sequential`. PyTorch updates running statistics in the recomputation once more; the record says so.
* `compile[budget=B]`: `torch.compile` with its activation memory budget (0 to 1, of what it would save), where
  the machine has a compiler for it; `compile[budget=B,backend=NAME]` for another backend of torch.compile.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import nn
from torch._inductor import config as inductor
from torch.utils.checkpoint import checkpoint_sequential

from ..capture import training_loss
from ..documents import Record
from ..errors import ProfilerError
from . import measure, record, reference
from .job import Bench
from .machine import Result

# Fused kernels round in another order, which batch norms over few samples enlarge: 0.5 % on ResNet-18, batch 8.
COMPILED_TOLERANCE = 2e-2
_PATTERN = re.compile(r"(?P<name>[a-z-]+)(\[(?P<options>[^\]]*)\])?")
Loss = Callable[..., torch.Tensor]


def parse(text: str) -> tuple[str, dict[str, str]]:
    """`name[option=value,...]`."""
    match = _PATTERN.fullmatch(text)
    if match is None or match["name"] not in _BASELINES:
        raise ProfilerError(f"unknown baseline '{text}': expected {', '.join(_BASELINES)}, with options in brackets")
    pairs = [pair.partition("=") for pair in (match["options"] or "").split(",") if pair]
    return match["name"], {name: value for name, _, value in pairs}


def measured(bench: Bench, text: str) -> Record:
    """The record of one baseline."""
    name, options = parse(text)
    loss_of, notes = _BASELINES[name](bench.module, options)

    def iteration() -> Result:
        bench.module.zero_grad(set_to_none=True)
        loss = loss_of(*bench.inputs)
        loss.backward()
        gradients = {name: p.grad for name, p in bench.module.named_parameters() if p.grad is not None}
        return Result(loss.detach(), gradients)

    tolerance = COMPILED_TOLERANCE if name == "compile" else reference.TOLERANCE
    with _budgeted(options):
        outcome = bench.outcome(iteration)
        compared = bench.compared(outcome, tolerance)
        bench.fresh()
        peaks = measure.peaks(iteration, bench.device, bench.resident_bytes)
        times = measure.times(iteration, bench.device, bench.settings.repeats)
    bench.fresh()
    made = record.header(bench.instance, f"pytorch:{text}", bench.settings.device, bench.settings.seed)
    made |= {"equality": record.of_comparison(compared), "time_ns": record.of_times(times),
             "memory": record.of_peaks(peaks, None)}
    if bench.settings.cap_bytes is not None:
        made["cap"] = record.of_cap(measure.capped(iteration, bench.device, bench.settings.cap_bytes))
    made["notes"] = notes
    return made


def _plain(module: nn.Module, options: dict[str, str]) -> tuple[Loss, list[str]]:
    _known(options)
    return lambda *inputs: training_loss(module, *inputs), []


def checkpointed(module: nn.Sequential, segments: int) -> nn.Module:
    """A module whose forward pass is `checkpoint_sequential`."""
    return _Checkpointed(module, segments)


class _Checkpointed(nn.Module):
    def __init__(self, module: nn.Sequential, segments: int) -> None:
        super().__init__()
        self.module, self.segments = module, segments

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint_sequential(self.module, self.segments, x, use_reentrant=False)


def _sequential(module: nn.Module, options: dict[str, str]) -> tuple[Loss, list[str]]:
    _known(options, "segments")
    if not isinstance(module, nn.Sequential):
        raise ProfilerError(f"checkpoint-sequential needs an nn.Sequential; this network is a {type(module).__name__}")
    segments = int(options.get("segments", "2"))
    if not 1 <= segments <= len(module):
        raise ProfilerError(f"checkpoint-sequential: expected 1 to {len(module)} segments, found {segments}")
    wrapped = checkpointed(module, segments)
    notes = ["checkpoint_sequential updates running statistics once more when it recomputes: those buffers differ"]
    has_norm = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())
    return lambda *inputs: training_loss(wrapped, *inputs), notes * has_norm


def _compiled(module: nn.Module, options: dict[str, str]) -> tuple[Loss, list[str]]:
    _known(options, "budget", "backend")
    backend = options.get("backend", "inductor")
    torch.compiler.reset()
    # Its own random numbers would drop other elements than the framework does.
    inductor.fallback_random = True
    compiled = torch.compile(module, backend=backend)
    return lambda *inputs: training_loss(compiled, *inputs), [
        f"torch.compile with backend {backend}: the loss runs outside of it",
        "activation_memory_budget is a fraction of what the compiler would save, not of the peak",
    ]


def _known(options: dict[str, str], *names: str) -> None:
    unknown = [name for name in options if name not in names]
    if unknown:
        raise ProfilerError(f"this baseline has no option '{unknown[0]}': it has {', '.join(names) or 'none'}")


class _budgeted:
    """The activation memory budget of torch.compile, for as long as it lasts."""

    def __init__(self, options: dict[str, str]) -> None:
        self.budget = float(options["budget"]) if "budget" in options else None

    def __enter__(self) -> None:
        import torch._functorch.config as config

        self.before = config.activation_memory_budget
        if self.budget is not None:
            if not 0 <= self.budget <= 1:
                raise ProfilerError(f"compile: the budget is a fraction from 0 to 1, not {self.budget}")
            config.activation_memory_budget = self.budget

    def __exit__(self, *_error: object) -> None:
        import torch._functorch.config as config

        config.activation_memory_budget = self.before


_BASELINES: dict[str, Callable[[nn.Module, dict[str, str]], tuple[Loss, list[str]]]] = {
    "plain": _plain, "checkpoint-sequential": _sequential, "compile": _compiled,
}
