"""Costs measured within whole iterations: what the steps say of the iteration."""

import copy
import itertools
import json
from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from remat_profiler import check
from remat_profiler import instance as files
from remat_profiler.cli import main
from remat_profiler.replay import job, measure, remeasure
from remat_profiler.replay.machine import Machine
from remat_profiler.replay.once import store_all
from remat_profiler.replay.plan import Move, expectation, plan

from .replaying import JOBS, bench_of, document_of


@pytest.fixture(scope="module")
def residual():
    return bench_of(document_of("residual", JOBS["residual"]), job.Settings(repeats=4))


def twice(instance, position):
    """Everything once, but what the operator at this position makes is dropped and made a second time at once."""
    schedule, id = store_all(instance), instance["order"][position]
    at = next(i for i, step in enumerate(schedule["steps"]) if step.get("compute") == id)
    again = [*({"free": tensor} for tensor in instance["operators"][id]["outputs"]), {"compute": id}]
    return schedule | {"steps": [*schedule["steps"][: at + 1], *again, *schedule["steps"][at + 1 :]]}


def test_steps_cost_what_the_clock_says_and_dropping_a_tensor_counts_for_what_made_it(residual):
    schedule = twice(residual.instance, 0)
    chosen = plan(residual.instance, schedule)
    durations = [1 if isinstance(step, Move) else 100 for step in chosen.steps]
    costs = list(remeasure._costs(chosen, durations))
    frees = sum(isinstance(step, Move) for step in chosen.steps)
    assert sum(cost for _, _, cost in costs) == 100 * len(costs) + frees
    first = residual.instance["order"][0], "default"
    assert costs[:2] == [(first, False, 101), (first, True, 101)]


def test_costs_sum_to_the_iteration_that_they_were_measured_in(residual, monkeypatch):
    """By a clock that counts: an iteration is as long as its steps, and a repetition costs what it took there."""
    ticks = itertools.count(step=1000)
    monkeypatch.setattr("remat_profiler.replay.machine.time.perf_counter_ns", lambda: next(ticks))
    found = remeasure.measured(residual, [twice(residual.instance, 0)])
    assert found.within == 1000 * len(store_all(residual.instance)["steps"])
    assert check.problems(found.instance) == []
    assert (found.repeated, found.again) == (1, 1.0)
    assert found.instance["provenance"]["times"]["statistic"] == remeasure.STATISTIC
    offered = [entry for operator in found.instance["operators"] for entry in operator["implementations"]]
    assert not any("origin" in entry for entry in offered if not entry.get("recompute"))


def test_the_middle_half_leaves_out_iterations_that_something_disturbed():
    assert remeasure._middle([[9, 9], [1, 1], [2, 1], [50, 0]]) == [[2, 1], [9, 9]]
    assert remeasure._middle([[3, 3]]) == [[3, 3]]


class Work(TorchDispatchMode):
    """A clock that no other program disturbs: every operator of PyTorch takes what it writes, and something besides."""

    def __init__(self):
        super().__init__()
        self.now = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self.now += 1000 + sum(leaf.numel() for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor))
        return made


@pytest.mark.parametrize("position", [4, 6])
def test_other_schedules_take_what_is_simulated_and_what_every_iteration_takes_beside_its_steps(residual, monkeypatch, position):
    with Work() as clock:
        monkeypatch.setattr("remat_profiler.replay.machine.time.perf_counter_ns", lambda: clock.now)
        found = remeasure.measured(residual, [twice(residual.instance, 3)])
        chosen = plan(found.instance, twice(found.instance, position))
        run = partial(Machine(chosen, residual.trace, residual.module, residual.device).run, residual.inputs)
        executed = measure.times(run, residual.device, 3).median
    assert executed > found.executed
    assert executed - expectation(chosen).time == found.executed - found.within


def test_the_command_rewrites_a_measured_instance_and_refuses_a_modelled_one(tmp_path, capsys, residual):
    made = json.loads(json.dumps(residual.instance))
    file, schedule, new = tmp_path / "residual.json", tmp_path / "s.json", tmp_path / "new.json.gz"
    schedule.write_text(json.dumps(twice(made, 0)))
    arguments = ["remeasure", "--instance", str(file), "--schedule", str(schedule), "--repeat", "2", "-o", str(new)]
    files.write(made, file)
    assert main(arguments) == 2
    assert "are not measured: trace it with --device cpu or cuda" in capsys.readouterr().err
    made["provenance"]["times"] = {"kind": "measured", "samples": 1, "statistic": "median"}
    made["provenance"]["command"] = made["provenance"]["command"].replace("model:v100", "cpu")
    files.write(made, file)
    assert main([*arguments, "--device", "cuda"]) == 2
    assert "was measured with --device cpu" in capsys.readouterr().err
    assert main(arguments) == 0
    assert "by operators measured in it" in capsys.readouterr().out
    again = files.read(new)
    assert again["order"] == made["order"] and again["provenance"]["command"] == made["provenance"]["command"]
    assert [op["implementations"][0]["time"] for op in again["operators"]] != [op["implementations"][0]["time"] for op in made["operators"]]


def test_a_time_that_was_measured_anew_has_no_older_origin(residual):
    """An implementation that no schedule ran at first keeps the origin of its time, until one runs it."""
    made = copy.deepcopy(residual.instance)
    entry = made["operators"][0]["implementations"][0]
    entry["origin"] = {"kind": "modelled", "model": "roofline:v100"}
    run = made["operators"][0]["id"], entry["name"]
    runs = remeasure.Runs({run: [500.0]}, {}, {run: 3.0})
    found = remeasure._document(made, [runs], [], 4)["operators"][0]["implementations"][0]
    assert (found["time"], found["spread"]) == (500, 3) and "origin" not in found
