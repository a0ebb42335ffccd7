"""Replays in one arena: equal to plain replays to the bit, every tensor in its place, bad plans refused."""

import copy
import json
import re
import subprocess

import pytest
import torch

from remat_profiler import instance as files
from remat_profiler.cli import main
from remat_profiler.costs import cost_source
from remat_profiler.errors import ProfilerError
from remat_profiler.instance import Header, document
from remat_profiler.job import Job, traced
from remat_profiler.replay import batch, job
from remat_profiler.replay.arena import ArenaMachine, Watch, extent, places
from remat_profiler.replay.arena_replay import differing, replay_in_arena, unlike
from remat_profiler.replay.machine import IllegalStep
from remat_profiler.replay.once import store_all
from remat_profiler.replay.plan import plan
from remat_profiler.replay.preferring import families

from .replaying import JOBS, SETTINGS, bench_of, document_of, required_bench


@pytest.fixture(scope="module", params=sorted(JOBS))
def made(request):
    return bench_of(document_of(request.param, JOBS[request.param]))


@pytest.fixture(scope="module")
def residual():
    return bench_of(document_of("residual", JOBS["residual"]))


def planned(binary, folder, instance, schedule, options=()):
    """The plan that `bench allocate` makes of a schedule."""
    files.write(instance, folder / "net.json")
    shown = subprocess.run([binary, "instances", "show", folder / "net.json"], capture_output=True, text=True, check=True)
    (found,) = {word.strip("()") for word in shown.stdout.split() if re.fullmatch(r"\(?[0-9a-f]{16}\)?", word)}
    (folder / "s.json").write_text(json.dumps({"instance_hash": found} | schedule))
    command = [binary, "allocate", folder / "net.json", folder / "s.json", "-o", folder / "plan.json", "--threads", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "plan.json").read_text())


def schedules(instance):
    """Store-all, and store-all with the implementations of each family: masks, results in parts, and outputs in place."""
    return [store_all(instance), *(store_all(instance, family) for family in families(instance))]


def test_every_schedule_in_an_arena_is_equal_to_the_plain_replay_to_the_bit(tmp_path, made):
    binary = required_bench()
    for schedule in schedules(made.instance):
        document = planned(binary, tmp_path, made.instance, schedule)
        record = replay_in_arena(made, schedule, places(document))
        arena, memory = record["arena"], record["memory"]
        assert arena["equal_to_plain"] and arena["different_from_plain"] == []
        assert record["equality"]["equal"]
        assert arena["height_bytes"] == document["height"]
        assert memory["before_bytes"] == memory["storage_peak_bytes"] == made.fixed_bytes + document["height"]
        assert memory["allocated_peak_bytes"] == memory["before_bytes"] + arena["beside_bytes"]
        assert 0 < arena["placed"] <= arena["allocations"]


def test_a_schedule_with_recomputation_runs_in_its_arena(tmp_path, made):
    binary = required_bench()
    files.write(made.instance, tmp_path / "net.json")
    subprocess.run([binary, "solve", tmp_path / "net.json", "--method", "linearized-sqrt", "-o", tmp_path / "s.json"],
                   capture_output=True, check=True)
    schedule = json.loads((tmp_path / "s.json").read_text())
    record = replay_in_arena(made, schedule, places(planned(binary, tmp_path, made.instance, schedule)))
    assert record["expected"]["recomputations"] > 0 and record["arena"]["equal_to_plain"]


def test_what_kernels_allocate_for_themselves_goes_to_the_workspaces_that_were_measured(tmp_path, residual):
    wanted = Job("toy:residual", 4, (3, 16, 16), "cpu", "cpu")
    trace, costs = traced(wanted), cost_source(wanted.device, 1)
    measured = bench_of(document(Header("residual", wanted.model, wanted.batch, wanted.shape, wanted.command), trace, costs))

    def in_its_arena(made):
        schedule = store_all(made.instance)
        return replay_in_arena(made, schedule, places(planned(required_bench(), tmp_path, made.instance, schedule)))["arena"]

    without, with_places = in_its_arena(residual), in_its_arena(measured)
    assert without["placed"] < with_places["placed"] <= with_places["allocations"]
    assert with_places["beside_bytes"] < without["beside_bytes"]


def test_a_tensor_that_is_not_where_the_plan_says_is_named(tmp_path, residual):
    schedule = store_all(residual.instance)
    document = planned(required_bench(), tmp_path, residual.instance, schedule)
    machine = ArenaMachine(plan(residual.instance, schedule), residual.trace, residual.module, residual.device, places(document))
    machine.learn(residual.inputs)
    machine.run(residual.inputs, stamps=Watch(machine))
    moved = [entry | {"offset": entry["offset"] + 512} for entry in document["buffers"]]
    machine.places = places(document | {"buffers": moved, "height": document["height"] + 512})
    with pytest.raises(IllegalStep, match=r"step \d+ .* leaves tensor \d+ outside of its place in the arena"):
        machine.run(residual.inputs, stamps=Watch(machine))


def test_an_iteration_that_allocates_otherwise_is_an_error(tmp_path, residual):
    schedule = store_all(residual.instance)
    found = places(planned(required_bench(), tmp_path, residual.instance, schedule))
    machine = ArenaMachine(plan(residual.instance, schedule), residual.trace, residual.module, residual.device, found)
    machine.learn(residual.inputs)
    machine._steps.insert(0, lambda: torch.empty(77).numel())
    with pytest.raises(ProfilerError, match=r"allocation \d+ of \d+ is of another size than in the first iteration"):
        machine.run(residual.inputs)


def test_plans_that_do_not_fit_are_refused_with_what_to_do(tmp_path, residual):
    schedule = store_all(residual.instance)
    sound = planned(required_bench(), tmp_path, residual.instance, schedule)

    def refused(words, **changes):
        document = copy.deepcopy(sound)
        for key, value in changes.items():
            document[key] = value(document[key]) if callable(value) else value
        with pytest.raises(ProfilerError, match=words):
            replay_in_arena(residual, schedule, places(document))

    refused("expected a plan of addresses", format="remat-schedule")
    refused("bench allocate --alignment 512", alignment=8)
    refused("lacks a field", buffers=[{"lower": 0}])
    refused("outside of the arena", height=lambda height: height - 512)
    refused("shares an address", buffers=lambda buffers: [entry | {"offset": 0} for entry in buffers])
    refused("of instance 'other'", instance="other")
    refused("has 7 fixed bytes, the instance", fixed_bytes=7)
    refused("the plan has no place for tensor", buffers=lambda buffers: buffers[1:])
    refused("they do not belong together", buffers=lambda buffers: [entry | {"upper": entry["upper"] + 999} for entry in buffers[:1]])


def test_too_small_a_buffer_ends_the_run(tmp_path, residual):
    schedule = store_all(residual.instance)
    document = planned(required_bench(), tmp_path, residual.instance, schedule)
    largest = max((entry for entry in document["buffers"] if entry["lower"] > 0), key=lambda entry: entry["size"])
    largest["size"] = 512
    with pytest.raises(ProfilerError, match="does not fit into its buffer of 512"):
        replay_in_arena(residual, schedule, places(document))


def test_the_tolerance_decides_only_where_the_plain_replay_differs_from_itself():
    def of(value):
        return job.reference.Outcome({"a": torch.tensor([1.0, value]), "b": torch.ones(2)})

    near, far = of(2.0 + 1e-5), of(2.1)
    assert unlike(of(2.0), near, lambda: of(2.0), 1e-4) == (["a"], [])
    names, notes = unlike(of(2.0), near, lambda: of(2.0 - 1e-5), 1e-4)
    assert names == [] and notes == ["1 tensors are within 0.0001 of the plain replay, which differs from itself in 1"]
    assert unlike(of(2.0), far, lambda: near, 1e-4) == (["a"], [])
    lacking = job.reference.Outcome({"a": torch.tensor([1.0, 2.0 + 1e-5])})
    assert unlike(of(2.0), lacking, lambda: near, 1e-4) == (["b"], [])


def test_bits_decide_what_differs():
    of = job.reference.Outcome
    one = of({"a": torch.tensor([0.0, float("nan")]), "b": torch.ones(2)})
    assert differing(one, of({"a": torch.tensor([0.0, float("nan")]), "b": torch.ones(2)})) == []
    assert differing(one, of({"a": torch.tensor([-0.0, float("nan")]), "c": torch.ones(2)})) == ["a", "b", "c"]


def test_the_extent_of_a_tensor_is_from_its_first_element_to_its_last():
    assert extent(torch.empty(3, 4)) == 48 and extent(torch.empty(0)) == 0
    assert extent(torch.empty(4, 6)[:, ::2]) == (3 * 6 + 2 * 2 + 1) * 4


def test_the_command_and_the_list_take_a_plan(tmp_path, capsys, residual):
    schedule = store_all(residual.instance)
    planned(required_bench(), tmp_path, residual.instance, schedule)
    arguments = ["replay", "--instance", str(tmp_path / "net.json"), "--schedule", str(tmp_path / "s.json"), "--repeat", "1",
                 "-o", str(tmp_path / "r.json"), "--arena", str(tmp_path / "plan.json")]
    assert main(arguments) == 0
    assert "equal to the plain replay" in capsys.readouterr().out
    assert main([*arguments, "--timeline", str(tmp_path / "t.csv")]) != 0
    (tmp_path / "list.tsv").write_text("net.json\ts.json\trecords/a.json\tplan.json\nnet.json\ts.json\trecords/b.json\n")
    assert batch.run(tmp_path / "list.tsv", SETTINGS, None, lambda line: None)
    with_arena, without = (json.loads((tmp_path / "records" / name).read_text()) for name in ("a.json", "b.json"))
    assert with_arena["arena"]["equal_to_plain"] and "arena" not in without
