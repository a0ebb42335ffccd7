"""`compile`: `torch.compile` with a bound on the peak."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.fx.graph import _BoxedCodeGen
from torch.utils._pytree import tree_leaves

from remat_profiler.allocator import is_planned_cuda
from remat_profiler.drawing import target_of

from . import fusing, made, room
from .arena import Arena
from .budget import Budget
from .errors import PlanError, Refused, warn
from .partition import GraphPlan, Partitioner, Settings
from .store import digest

BACKENDS = ("inductor", "eager")
_PACKING_SECONDS, _MOST_SECONDS = 10.0, 86400
_NOTHING = "nothing is planned, and the budget does not hold: the compiler captured no graph for training"
# The partitioners of this process, the latest last; `explain` speaks of them.
_KNOWN: list[weakref.ref[Partitioner]] = []


def compile(  # noqa: A001 - as in torch
        target: Callable[..., Any], *, budget: str | int | Budget, cost: str = "roofline", apply: str = "schedule",
        seconds: float = 30.0, backend: str = "inductor", fullgraph: bool = False, dynamic: bool | None = None,
        arena: bool = False, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """A module or function compiled so that a training iteration stays within a budget; used as `torch.compile`'s result.

    `budget`: "60%" (or "0.6x") of the peak of keeping everything, or bytes ("8GiB"); parameters, inputs, gradients, saved values
    and temporaries of the compiled graphs count, optimizer state and what runs outside do not. `cost`: what a
    repetition costs (`roofline`, `flops`, `measured`). `apply`: `schedule` (any order, any number of repetitions) or
    `sets` (PyTorch's own partitioner, told what to save). `seconds`: how long the planner may look for each graph.
    `backend`: `inductor`, or `eager`, which runs the graphs uncompiled (for tests). `arena`: whether what the graphs allocate
    lies in one preallocated buffer, at planned addresses (`arena.py`; on a GPU after `plan_cuda`). `options` are inductor's.
    """
    refuse(target)
    turned = (options or {}).get("layout_optimization", True)
    partitioner = Partitioner(replace(settings(budget, cost, apply, seconds, backend), channels_last=bool(turned)))
    if arena:
        partitioner.arena = Arena(min(partitioner.settings.seconds, _PACKING_SECONDS), "cuda" if is_planned_cuda() else "cpu")
    compiled, _ = compiled_by(target, partitioner, backend, fullgraph=fullgraph, dynamic=dynamic, options=options)
    return _watched(compiled, partitioner)


def settings(budget: str | int | Budget, cost: str, apply: str, seconds: float, backend: str) -> Settings:
    """The settings that the arguments make; `eager` fuses nothing."""
    if backend not in BACKENDS:
        raise PlanError(f"unknown backend {backend!r}: expected one of {', '.join(BACKENDS)}")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= _MOST_SECONDS:
        raise PlanError(f"the planner needs time: seconds={seconds!r} is no number above 0 (and at most a day, {_MOST_SECONDS})")
    return Settings(Budget.parse(budget), cost, apply, float(seconds), fuse=backend == "inductor")


def refuse(target: object) -> None:
    """Raises `Refused` for what plans are known not to work with."""
    modules = target.modules() if isinstance(target, nn.Module) else ()
    for module in modules:
        kinds = {kind.__name__ for kind in type(module).__mro__}
        if kinds & {"FullyShardedDataParallel", "FSDPModule"}:
            raise Refused("fully sharded training (FSDP) is not supported: a plan would gather shards again on its own schedule. "
                          "Compile the blocks inside of it, or train with DistributedDataParallel")


def compiled_by(target: Callable[..., Any], partitioner: Partitioner, backend: str, *, fullgraph: bool = False,
                dynamic: bool | None = None, options: dict[str, Any] | None = None) -> tuple[Callable[..., Any], Partitioner]:
    """The target with this partitioner in the compiler."""
    chosen = _inductor(partitioner, options or {}) if backend == "inductor" else _eager(partitioner)
    compiled = torch.compile(target, backend=chosen, fullgraph=fullgraph, dynamic=dynamic)
    _KNOWN.append(weakref.ref(partitioner))
    _put(compiled, "_rematplan", partitioner)
    return compiled, partitioner


def _put(compiled: object, name: str, value: object) -> None:
    """Sets an attribute. A compiled module alone would pass it on to the user's, which others may compile, copy or save."""
    object.__setattr__(compiled, name, value)


def _watched(compiled: Callable[..., Any], partitioner: Partitioner) -> Callable[..., Any]:
    """The same, which says once, when it first gives results for training, what of them the compiler captured no graph of; and once,
    when it first gives such results that no compiled graph made."""
    run: Callable[..., Any] = compiled.forward if isinstance(compiled, nn.Module) else compiled
    waiting = watching = True

    @wraps(run)
    def watched(*arguments: Any, **keywords: Any) -> Any:
        nonlocal waiting, watching
        if torch.compiler.is_compiling():
            return run(*arguments, **keywords)
        with partitioner.outside.noted():
            results = run(*arguments, **keywords)
        trains = _may_train(results)
        # A result for training may be a number: forward and backward in one function.
        alone = torch.is_grad_enabled() and bool(partitioner.outside.frames or partitioner.outside.breaks)
        if waiting and (partitioner.plans or trains or alone):
            waiting, watching = False, bool(partitioner.plans)
            said = filter(None, ("" if partitioner.plans else _NOTHING, partitioner.outside.fallen_back()))
            if text := "; ".join(said):
                warn(f"{text}. TORCH_LOGS=graph_breaks says why")
        if watching and trains and not _are_compiled(results):
            watching, partitioner.outside.calls = False, True
            warn(partitioner.outside.lines()[-1])
        return results

    if not isinstance(compiled, nn.Module):
        return watched
    _put(compiled, "forward", watched)
    return compiled


def _may_train(results: object) -> bool:
    return any(tensor.requires_grad for tensor in _tensors(results))


def _tensors(results: object) -> Iterator[torch.Tensor]:
    """Also those in dataclasses that the compiler knows nothing of."""
    todo, seen = tree_leaves(results), set[int]()
    while todo:
        leaf = todo.pop()
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type) and id(leaf) not in seen:
            seen.add(id(leaf))
            todo += tree_leaves([getattr(leaf, field.name, None) for field in fields(leaf)])


def _are_compiled(results: object) -> bool:
    """Whether a compiled graph is among what results come from."""
    todo: list[Any] = [tensor.grad_fn for tensor in _tensors(results) if tensor.requires_grad]
    seen = {None}
    while todo:
        node = todo.pop()
        if node not in seen:
            if node.name().startswith("CompiledFunction"):
                return True
            seen.add(node)
            todo += [before for before, _ in node.next_functions]
    return False


def plans_of(compiled: object | None) -> list[GraphPlan]:
    """The plans of one compiled target, or of all of this process."""
    return [plan for partitioner in _partitioners(compiled) for plan in partitioner.plans]


def outside_of(compiled: object | None) -> list[str]:
    """Lines that say what ran uncompiled of one compiled target, or of all of this process."""
    return [line for partitioner in _partitioners(compiled) for line in partitioner.outside.lines()]


def arenas_of(compiled: object | None) -> list[Arena]:
    """The arena of one compiled target, if it has one, or of all of this process."""
    return [partitioner.arena for partitioner in _partitioners(compiled) if partitioner.arena is not None]


def _partitioners(compiled: object | None) -> list[Partitioner]:
    if compiled is None:
        return [partitioner for reference in _KNOWN if (partitioner := reference()) is not None]
    partitioner = getattr(compiled, "_rematplan", None)
    if not isinstance(partitioner, Partitioner):
        raise PlanError("this was not made by rematplan.compile")
    return [partitioner]


def _in_arena(partitioner: Partitioner, run: Callable[..., Any], inputs: Sequence[object], backward: bool) -> Callable[..., Any]:
    """A compiled graph of a training iteration in the arena, where there is one for it."""
    if partitioner.arena is None:
        return run
    kind = partitioner.arena.kind
    there = {value.device.type for value in inputs if isinstance(value, torch.Tensor)}
    if there - {kind, "cpu"} or kind == "cuda" and kind not in there:
        remedy = "" if kind == "cuda" else "; rematplan.plan_cuda(), before the first tensor is on a GPU, makes arenas there"
        warn(f"a graph runs without the arena, which is for tensors on {kind} alone{remedy}")
        return run
    return partitioner.arena.within(run, backward=backward, outputs=0 if backward else partitioner.forward_outputs)


def _inductor_settings(plan: GraphPlan | None, apply: str) -> dict[str, object]:
    """Inductor's, where they would undo a plan: steps get another order, by what inductor takes them to need; a freed buffer waits
    for a later one of its size, through steps in which a library takes scratch memory that inductor does not count; and on a CPU
    the weights of convolutions turn channels-last before the first operator, and those copies are saved for the backward pass
    (42 MB of 203 on a ResNet-18). On a GPU long rows are padded, and then a result is too large for its operand's place."""
    if plan is None or plan.status == "stock":
        return {}
    found: dict[str, object] = {"layout_optimization": plan.channels_last} if plan.device == "cpu" else {}
    if plan.parts:
        found["comprehensive_padding"] = False
    if plan.status == "planned":
        found["allow_buffer_reuse"] = False
        if apply == "schedule":
            found["reorder_for_peak_memory"] = False
    return found


def _inductor(partitioner: Partitioner, options: dict[str, Any]) -> Callable[..., Any]:
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    made.register()
    sources = (Path(file).read_text(encoding="utf-8") for file in (__file__, fusing.__file__, made.__file__, room.__file__))
    key = digest(partitioner.settings.key() + "".join(sources))

    class Planned(CustomPartitionerFn):
        """Inductor caches generated code by graph and by this uuid (settings, and what these files decide). The graphs say
        what the plan did, so another plan is another entry. The cache in front of the partitioner is off: it would skip
        planning and reporting."""

        def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
            return partitioner(gm, joint_inputs, **kwargs)

        def uuid(self) -> str:
            return key

        def __reduce__(self) -> tuple[type[str], tuple[str]]:  # inductor pickles its configuration
            return str, (self.uuid(),)

    def inner(module: fx.GraphModule, inputs: Sequence[Any], **keywords: Any) -> Any:  # of one pass; the backward one comes later
        plan = partitioner.plan_of(module)
        by_the_plan = fusing.by_the_plan(key) if plan is not None and plan.status == "planned" else nullcontext()
        with by_the_plan, inductor_config.patch(_inductor_settings(plan, partitioner.settings.apply)):
            compiled = compile_fx_inner(module, inputs, **keywords)
        if keywords.get("is_inference"):
            return compiled
        return _in_arena(partitioner, compiled, inputs, bool(keywords.get("is_backward")))

    def backend(module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Any:
        with functorch_config.patch(enable_autograd_cache=False):
            return compile_fx(module, inputs, inner, config_patches={**options, "custom_partitioner_fn": Planned()})

    return backend


def _eager(partitioner: Partitioner) -> Callable[..., Any]:
    from torch._dynamo.backends.common import aot_autograd

    def as_python(module: fx.GraphModule, inputs: Sequence[torch.Tensor], backward: bool | None) -> Callable[..., Any]:
        for node in module.graph.nodes:
            node.target = target_of(node)
        # Boxed: otherwise the caller's list keeps every saved tensor alive to the end.
        module.graph.set_codegen(_BoxedCodeGen())
        module.recompile()

        def run(arguments: list[Any]) -> Any:
            return module(arguments)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run if backward is None else _in_arena(partitioner, run, inputs, backward)

    chosen: Callable[..., Any] = aot_autograd(
        fw_compiler=partial(as_python, backward=False), bw_compiler=partial(as_python, backward=True),
        inference_compiler=partial(as_python, backward=None), partition_fn=partitioner,
        # Or plans would not see the writes, and the backward pass would read what was written meanwhile.
        keep_inference_input_mutations=True)
    return chosen
