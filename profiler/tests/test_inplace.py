"""Results over operands that end there: what is planned for them, and that it is what runs."""

import random
from itertools import chain

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rematplan
from rematplan import PlanError, inplace, planner
from rematplan.inplace import Merged, _merged

from .planning import iteration, transformer, worst

SECONDS = 2
pytestmark = pytest.mark.usefixtures("planner")


def language_model(**options):
    """Logits of 2 MB, which are most of the peak."""
    torch.manual_seed(0)
    return transformer(batch=8, t=16, vocabulary=4096, **options)


@pytest.mark.parametrize("tied", [False, True])
def test_logits_and_their_gradient_are_one_buffer_as_planned(tied):
    net, inputs, loss = language_model(tied=tied)
    expected = iteration(net, inputs, loss)
    logits = 8 * 16 * 4096 * 4
    plan = rematplan.plan(net, inputs, loss=loss, budget="100%", seconds=SECONDS)
    assert len(plan.graph.parts) == 2 and logits < plan.graph.peak_bytes - plan.graph.fixed_bytes < 2 * logits
    # Counting both, there is no plan within this.
    tight = rematplan.plan(net, inputs, loss=loss, budget="92%", seconds=SECONDS)
    compiled = rematplan.compile(lambda *x: loss(net(*x)), budget=tight.graph.budget_bytes, seconds=SECONDS, fullgraph=True)
    assert worst(expected, iteration(net, inputs, lambda y: y, compiled)) < 1e-5
    replay = tight.replay()
    assert replay.planned.peak_bytes + tight.graph.fixed_bytes <= tight.graph.peak_bytes * 1.01 + 1e5
    assert replay.difference < 1e-5


class _Shared(nn.Module):
    """One weight that embeds twice and is the last layer's, too: its gradient is a sum of three."""

    def __init__(self):
        super().__init__()
        self.token, self.inner = nn.Embedding(4096, 32), nn.Linear(32, 32)

    def forward(self, x):
        return F.linear(F.gelu(self.inner(self.token(x) + self.token(x.flip(1)))), self.token.weight)


def test_the_logits_go_before_the_other_gradients_of_their_weight_come():
    tokens = torch.randint(0, 4096, (8, 16))
    plan = rematplan.plan(_Shared(), (tokens,), loss=lambda y: F.cross_entropy(y.flatten(0, 1), tokens.flatten()), budget="100%",
                          cost="flops", seconds=SECONDS)
    assert plan.graph.parts
    assert plan.replay().planned.peak_bytes + plan.graph.fixed_bytes <= plan.graph.peak_bytes


def test_a_plan_with_operators_that_stand_for_several_is_an_instance_and_a_schedule_like_others(tmp_path):
    net, inputs, loss = language_model()
    plan = rematplan.plan(net, inputs, loss=loss, budget="92%", seconds=SECONDS)
    assert plan.graph.parts and "take their operands' memory" in plan.graph.instance["provenance"]["notes"][-1]
    plan.save(tmp_path)
    said = planner._said([str(planner.binary()), "verify", str(tmp_path / "instance.json"), str(tmp_path / "schedule.json"),
                          "--format", "json"], SECONDS)
    assert f"{plan.graph.peak_bytes}" in said


def test_a_second_backward_pass_through_overwritten_logits_is_refused():
    net, inputs, loss = language_model()
    compiled = rematplan.compile(lambda *x: loss(net(*x)), budget="95%", seconds=SECONDS, fullgraph=True)
    compiled(*inputs).backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        compiled(*inputs).backward(retain_graph=True)


def test_small_pairs_are_planned_apart(monkeypatch):
    net, inputs, loss = transformer()
    assert rematplan.plan(net, inputs, loss=loss, budget="100%", seconds=SECONDS).graph.parts
    monkeypatch.setattr(inplace, "_WORTH", 1)
    assert rematplan.plan(net, inputs, loss=loss, budget="100%", seconds=SECONDS).graph.parts == {}


def test_where_overwriting_needs_more_than_the_budget_the_plan_without_it_is_taken(monkeypatch):
    net, inputs, loss = language_model()
    peak = rematplan.plan(net, inputs, loss=loss, budget="100%", seconds=SECONDS).graph.peak_bytes
    monkeypatch.setattr(inplace.Merged, "reads_overwritten", lambda self, order: bool(self.parts))
    plan = rematplan.plan(net, inputs, loss=loss, budget=2 * peak, seconds=SECONDS)
    assert plan.graph.parts == {} and plan.graph.peak_bytes > peak
    with pytest.raises(PlanError, match="no plan within"):
        rematplan.plan(net, inputs, loss=loss, budget=peak, seconds=SECONDS)


# The instance alone: operators that become one, against a count of every byte at every step.

def chain_of(draw):
    """A chain in which some operators read older tensors, too; operator i makes tensor i + 1."""
    count = draw.randint(4, 9)
    size = draw.randint(1, 5)
    operators = [{"id": i, "name": f"o{i}", "inputs": sorted({i, draw.randint(0, i)}), "outputs": [i + 1], "recomputable": True,
                  "implementations": [{"name": "default", "time": draw.randint(1, 5), "workspace_bytes": draw.randint(0, 4)}]}
                 for i in range(count)]
    kinds = ["input", *("output" if i == count - 1 else "activation" for i in range(count))]
    return {"fixed_bytes": {"parameters": 0}, "order": list(range(count)), "operators": operators,
            "tensors": [{"id": i, "name": f"t{i}", "bytes": size, "kind": kind} for i, kind in enumerate(kinds)]}


def needed(instance, first, last):
    """The most bytes at a step of a stretch in which operators run in order."""
    operators, most = instance["operators"], 0
    size = {t["id"]: t["bytes"] for t in instance["tensors"]}
    for step in range(first, last + 1):
        # What the operator that stands for all of them reads is there from the first to the last.
        held = {t for op in operators[first:last + 1] for t in op["inputs"] if t <= first}
        for tensor in range(first + 1, step + 2):
            readers = [op["id"] for op in operators if tensor in op["inputs"]]
            if max(readers, default=len(operators)) >= step or tensor == len(operators):
                held.add(tensor)
        most = max(most, sum(size[t] for t in held) + operators[step]["implementations"][0]["workspace_bytes"])
    return most


@pytest.mark.parametrize("seed", range(100))
def test_operators_as_one_take_what_they_take_apart_and_no_less(seed):
    draw = random.Random(seed)
    instance = chain_of(draw)
    count = len(instance["operators"])
    first = draw.randrange(count - 1)
    last = draw.randint(first + 1, count - 1)
    members = tuple(range(first, last + 1))
    one = next(entry for entry in _merged(instance, {last: members}, {}) if entry["id"] == last)
    size = {t["id"]: t["bytes"] for t in instance["tensors"]}
    outside = {t for op in instance["operators"][last + 1:] for t in op["inputs"]} | {count}
    assert one["outputs"] == [t for t in range(first + 1, last + 2) if t in outside]
    assert one["inputs"] == sorted({t for op in instance["operators"][first:last + 1] for t in op["inputs"] if t <= first})
    assert one["implementations"][0]["time"] == sum(instance["operators"][i]["implementations"][0]["time"] for i in members)
    counted = sum(size[t] for t in chain(one["inputs"], one["outputs"]))
    assert counted + one["implementations"][0]["workspace_bytes"] == max(counted, needed(instance, first, last))


def test_a_result_over_its_operand_counts_once():
    entry = {"recomputable": True, "implementations": [{"name": "default", "time": 1, "workspace_bytes": 0}]}
    instance = {"order": [0, 1, 2], "tensors": [{"id": i, "bytes": 10 if i in (1, 2) else 1,
                                             "kind": "output" if i == 3 else "activation"} for i in range(4)],
                "operators": [{**entry, "id": i, "name": f"o{i}", "inputs": [i], "outputs": [i + 1]} for i in range(3)]}
    apart, over = (_merged(instance, {2: (0, 1, 2)}, over)[0]["implementations"][0] for over in ({}, {2: 1}))
    assert apart["workspace_bytes"] == 1 + 10 + 10 - 2 and over["workspace_bytes"] == 1 + 10 + 1 - 2
    kept = _merged(instance, {1: (0, 1)}, {2: 1})[0]
    assert kept["outputs"] == [2] and kept["implementations"][0]["workspace_bytes"] == 0


def test_operators_of_a_cycle_are_no_instance():
    entry = {"recomputable": True, "implementations": [{"name": "default", "time": 1, "workspace_bytes": 0}]}
    reads = [[0], [1], [2], [3]]
    instance = {"order": [0, 1, 2, 3], "tensors": [{"id": i, "bytes": 1, "kind": "activation"} for i in range(5)],
                "operators": [{**entry, "id": i, "name": f"o{i}", "inputs": reads[i], "outputs": [i + 1]} for i in range(4)]}
    assert len(_merged(instance, {2: (0, 2)}, {})) < 3


def test_a_schedule_may_not_read_what_was_overwritten_unless_it_is_made_again():
    operators = [{"id": i, "inputs": [0] if i else [], "outputs": [i]} for i in range(3)]
    merged = Merged({"operators": operators}, {}, {0: 2})
    assert not merged.reads_overwritten([0, 1, 2]) and merged.reads_overwritten([0, 2, 1])
    assert not merged.reads_overwritten([0, 2, 0, 1])
