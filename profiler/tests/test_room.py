"""Memory of schedules step by step, and what a compiler may take besides, against a count of every tensor at every step."""

import random

import pytest
import torch
from torch.nn import functional as F

import rematplan
from rematplan import PlanError, partition
from rematplan.room import Room, Steps

from .planning import mlp

SECONDS = 2


def drawn(draw):
    """A small instance and a legal schedule of it, in which operators run again. Operator i makes tensor i + 1; 0 is the input."""
    count = draw.randint(3, 8)
    reads = [sorted({draw.randrange(i + 1) for _ in range(draw.randint(1, 3))}) for i in range(count)]
    kinds = ["input"] + [draw.choice(["activation", "gradient", "output"]) for _ in range(count)]
    order = [*range(count)]
    for _ in range(draw.randint(0, 6)):
        again = draw.randrange(count)
        order.insert(draw.randint(order.index(again), len(order)), again)
    return {
        "fixed_bytes": {"parameters": 5},
        "tensors": [{"id": i, "bytes": draw.randint(1, 9), "kind": kind} for i, kind in enumerate(kinds)],
        "operators": [{"id": i, "name": f"o{i}", "inputs": reads[i], "outputs": [i + 1],
                       "implementations": [{"time": draw.randint(1, 9), "workspace_bytes": draw.randint(0, 3)}]}
                      for i in range(count)],
    }, order


def there(instance, order):
    """The tensors at each step, from what a copy is: made, and kept until its last reader before the next copy."""
    lasting = {t["id"] for t in instance["tensors"] if t["kind"] in ("input", "output")}
    found = [{t["id"] for t in instance["tensors"] if t["kind"] == "input"} for _ in order]
    for tensor in range(1, len(instance["tensors"])):
        runs = [step for step, operator in enumerate(order) if operator == tensor - 1]
        for run, end in zip(runs, [*runs[1:], len(order)]):
            readers = [s for s in range(run, end) if tensor in instance["operators"][order[s]]["inputs"]]
            last = len(order) - 1 if tensor in lasting else max(readers, default=run)
            for step in range(run, last + 1):
                found[step].add(tensor)
    return found


def bytes_of(instance, tensors):
    return sum(instance["tensors"][t]["bytes"] for t in tensors)


@pytest.mark.parametrize("seed", range(200))
def test_memory_and_room_are_those_of_a_count(seed):
    draw = random.Random(seed)
    instance, order = drawn(draw)
    steps, counted = Steps(instance, order), there(instance, order)
    done = [instance["operators"][operator] for operator in order]
    workspaces = [entry["implementations"][0]["workspace_bytes"] for entry in done]
    assert steps.memory == [5 + bytes_of(instance, here) + w for here, w in zip(counted, workspaces)]
    assert steps.time == sum(entry["implementations"][0]["time"] for entry in done)
    for _ in range(20):
        together = frozenset(draw.sample(range(len(order)), min(len(order), draw.randint(2, 3))))
        all_at_once = {t for step in together for t in (*done[step]["inputs"], *done[step]["outputs"])}
        span = range(min(together), max(together) + 1)
        between = any(order[other] + 1 in done[step]["inputs"] for step in together for other in span
                      if other not in together and span[0] < other < step
                      and (instance["tensors"][order[other] + 1]["kind"] != "output" or order.index(order[other]) == other))
        needed = []
        for step in span:
            late = {t for other in together if other < step for t in done[other]["inputs"]}
            early = {t for other in together if other > step for t in done[other]["outputs"]}
            assert late | early <= all_at_once
            needed.append(5 + bytes_of(instance, counted[step] | late | early) + workspaces[step])
        for budget in range(max(needed) - 2, max(needed) + 2):
            assert Room(steps, budget).fits(together) == (max(needed) <= budget and not between), (order, together)


def test_what_is_taken_is_no_longer_free():
    instance, order = drawn(random.Random(1))
    steps = Steps(instance, order)
    room = Room(steps, max(steps.memory) + 10)
    assert room.take(0, len(order) - 1, 10)
    assert not room.take(0, len(order) - 1, max(steps.memory) - min(steps.memory) + 1)
    worst = steps.memory.index(max(steps.memory))
    assert not room.take(worst, worst, 1)
    assert room.take(worst, worst - 1, 1000), "no step at all is always free"


def test_steps_that_are_one_count_beside_others():
    """Two pairs of steps fit each, and not both."""
    entry = {"implementations": [{"time": 1, "workspace_bytes": 0}]}
    instance = {
        "fixed_bytes": {}, "tensors": [{"id": i, "bytes": 4, "kind": "input" if i == 0 else "gradient"} for i in range(5)],
        "operators": [entry | {"id": i, "name": f"o{i}", "inputs": [0], "outputs": [i + 1]} for i in range(4)],
    }
    room = Room(Steps(instance, [0, 1, 2, 3]), 12)
    first, second = frozenset({0, 2}), frozenset({1, 3})
    assert room.fits(first) and room.fits(second)
    assert not room.fits(first, [second])


def test_a_schedule_that_reads_what_is_not_there_is_an_error():
    instance, _ = drawn(random.Random(0))
    late = next(entry for entry in instance["operators"] if entry["inputs"] != [0])
    with pytest.raises(PlanError, match="reads what is not there"):
        Steps(instance, [late["id"]])


def test_a_plan_takes_the_time_and_the_memory_that_bench_says(planner):
    net, inputs, loss = mlp()
    found = rematplan.plan(net, inputs, loss=loss, budget="60%", cost="flops", seconds=SECONDS)
    graph = found.graph
    steps = Steps(graph.instance, graph.operators)
    assert (steps.time, max(steps.memory)) == (graph.time_ns, graph.peak_bytes)


class _Turned(torch.nn.Module):
    """Layers that join two halves, as rotary positions do."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64, bias=False) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            a, b = layer(x).chunk(2, -1)
            x = torch.cat([a * b.cos(), b * a.sin()], -1)
        return x


def test_only_where_there_is_room_is_a_concatenation_written_part_by_part(planner, monkeypatch):
    graphs = []
    scheduled = partition.scheduled

    def recorded(joint, before, after, room):
        for budget in (0, 1 << 40):
            pair = scheduled(joint, before, after, Room(room.steps, budget))
            graphs.append([str(node.target) for part in pair for node in part.graph.nodes])
        return scheduled(joint, before, after, room)

    monkeypatch.setattr(partition, "scheduled", recorded)
    net, x = _Turned(), torch.randn(512, 64)
    step = rematplan.compile(lambda x: F.relu(net(x)).mean(), budget="70%", cost="flops", seconds=SECONDS)
    step(x).backward()
    (plan,) = step._rematplan.plans
    assert plan.status == "planned", plan.reason
    tight, wide = graphs
    assert "rematplan.joined.default" in tight and "aten.cat.default" not in tight
    assert "rematplan.joined.default" not in wide and "aten.cat.default" in wide
