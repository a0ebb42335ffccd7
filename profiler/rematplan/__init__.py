"""Training with a plan: `torch.compile` with a bound on the peak, by the planners of `bench`.

    step = rematplan.compile(model, budget="60%")                    # otherwise as torch.compile's result
    plan = rematplan.plan(model, inputs, loss=..., budget="8GiB")    # time, peak, what runs again
    rematplan.explain()                                              # what was planned for what has run

The pieces, each ignorant of the ones after it: `graph` (what a planner sees of a joint graph), `costs`, `instance`,
`inplace` (results over operands that end there), `unpadded` (products before inductor pads them), `planner` (asks `bench`),
`least` (what would do where a budget is too small), `room` (what a plan leaves free), `apply` (from a plan to two graphs), `fusing`
(what inductor may do at once in them), `arena` (planned addresses), `skipped` (what the compiler leaves to Python), `partition`,
`compiling`, `planning`, `page`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remat_profiler.allocator import plan_cuda
    from remat_profiler.replay.scheduled import Scheduled
    from remat_profiler.replay.tracing import trace_module

    from .budget import Budget
    from .compiling import compile  # noqa: A004
    from .errors import PlanError, PlanWarning, Refused
    from .partition import GraphPlan
    from .planning import Executed, Plan, Replay, executed, explain, plan

__version__ = "0.1.0"
_FROM = {
    "Budget": ".budget", "compile": ".compiling", "PlanError": ".errors", "PlanWarning": ".errors", "Refused": ".errors",
    "GraphPlan": ".partition", "Executed": ".planning", "Plan": ".planning", "Replay": ".planning", "executed": ".planning",
    "explain": ".planning", "plan": ".planning", "Scheduled": "remat_profiler.replay.scheduled",
    "trace_module": "remat_profiler.replay.tracing", "plan_cuda": "remat_profiler.allocator",
}
__all__ = ["Budget", "Executed", "GraphPlan", "Plan", "PlanError", "PlanWarning", "Refused", "Replay", "Scheduled", "compile",
           "executed", "explain", "plan", "plan_cuda", "trace_module"]


def __getattr__(name: str) -> Any:
    """Loads what needs torch when it is asked for."""
    from importlib import import_module

    if name in _FROM:
        return getattr(import_module(_FROM[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
