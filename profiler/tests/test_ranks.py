"""Data parallel training on two ranks: rank 0 plans, rank 1 follows, and gradients are those of plain data parallel training."""

import copy
import warnings

import torch

import rematplan

from .planning import bit_equal, iteration, transformer
from .replaying import required_bench

RANKS = 2


def rank(number, folder, bench, budget):
    """One process; what it found goes to a file. Only rank 0 has a planner."""
    import os

    os.environ["REMAT_BENCH"] = bench if number == 0 else f"{folder}/nothing"
    os.environ["REMATPLAN_CACHE"] = f"{folder}/cache-{number}"
    torch.set_num_threads(1)
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=number, world_size=RANKS)
    torch.manual_seed(0)
    net, _, _ = transformer(d=128, layers=2, batch=8)
    torch.manual_seed(number)
    _, inputs, loss = transformer(d=128, layers=2, batch=8)
    parallel = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=100)
    expected = iteration(parallel, inputs, loss)
    alone = iteration(copy.deepcopy(net), inputs, loss)
    step = rematplan.compile(parallel, budget=budget, backend="eager", cost="flops", seconds=2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", rematplan.PlanWarning)
        found = iteration(parallel, inputs, loss, step)
    plans = [(plan.status, plan.runs_again, plan.operators, plan.reason) for plan in step._rematplan.plans]
    shared = any(not torch.equal(expected["module." + name], value) for name, value in alone.items() if name != "loss")
    words = [str(warning.message) for warning in said if issubclass(warning.category, rematplan.PlanWarning)]
    torch.save({"different": bit_equal(expected, found), "plans": plans, "shared": shared, "warnings": words}, f"{folder}/{number}.pt")
    distributed.destroy_process_group()


def ran(folder, budget):
    torch.multiprocessing.spawn(rank, (str(folder), str(required_bench()), budget), nprocs=RANKS)
    return [torch.load(folder / f"{number}.pt") for number in range(RANKS)]


def test_two_ranks_train_by_the_plan_of_the_first(tmp_path):
    first, second = ran(tmp_path, "80%")
    assert first["shared"], "gradients of both ranks must have been averaged"
    assert first["different"] == second["different"] == []
    assert first["plans"] == second["plans"]
    assert any(status == "planned" and again for status, again, _, _ in first["plans"]), first["plans"]


def test_a_budget_that_the_first_rank_cannot_meet_is_a_warning_on_both(tmp_path):
    found = ran(tmp_path, "5%")
    for outcome in found:
        assert outcome["different"] == []
        assert any("no plan within" in words for words in outcome["warnings"]), outcome["warnings"]
