"""The replay of single schedules: files, records, and what wrong schedules come to."""

import copy
import json
import subprocess
import sys
import types

import pytest
import torch

from remat_profiler import instance as files
from remat_profiler.cli import main
from remat_profiler.errors import ProfilerError
from remat_profiler.replay import agreement, job, measure, plan, reference
from remat_profiler.replay.machine import Account, IllegalStep, Machine
from remat_profiler.replay.once import store_all

from .replaying import JOBS, bench_of, document_of


@pytest.fixture(scope="module")
def residual():
    return bench_of(document_of("residual", JOBS["residual"]))


@pytest.fixture(scope="module")
def transformer():
    return bench_of(document_of("transformer", JOBS["transformer"]))


def compared(bench, schedule):
    chosen = plan.plan(bench.instance, schedule)
    machine = Machine(chosen, bench.trace, bench.module, bench.device)
    return reference.compare(bench.expected, bench.outcome(lambda: machine.run(bench.inputs)), job.tolerance_of(chosen))


def steps_of(bench):
    return copy.deepcopy(store_all(bench.instance))


def index_of(bench, steps, name):
    (id,) = [op["id"] for op in bench.instance["operators"] if op["name"] == name]
    return next(i for i, step in enumerate(steps) if step.get("compute") == id)


def test_the_commands_record_has_what_its_documentation_says(tmp_path, capsys, residual):
    made = residual.instance
    files.write(made, tmp_path / "net.json.gz")
    (tmp_path / "s.json").write_text(json.dumps(store_all(made) | {"budget_bytes": 7 * 2**30, "instance_hash": "00"}))
    arguments = ["replay", "--instance", str(tmp_path / "net.json.gz"), "--schedule", str(tmp_path / "s.json"),
                 "--repeat", "3", "--timeline", str(tmp_path / "t.csv"), "-o", str(tmp_path / "r.json")]
    assert main(arguments) == 0
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["format"] == "remat-replay" and record["version"] == 1 and record["instance"] == "residual"
    assert record["equality"]["equal"] and record["equality"]["within_tolerance"] == 0
    assert record["equality"]["bitwise"] == len(residual.expected.tensors)
    assert len(record["time_ns"]["samples"]) == 3 and record["time_ns"]["median"] > 0
    assert record["over_store_all"]["simulated"] == 1 and record["over_store_all"]["executed"] > 0
    memory, expected = record["memory"], record["expected"]
    assert memory["storage_peak_bytes"] == expected["storage_peak_bytes"] == expected["peak_bytes"]
    assert memory["allocated_peak_bytes"] >= memory["storage_peak_bytes"] > memory["before_bytes"]
    assert record["schedule"] == {"instance_hash": "00", "budget_bytes": 7 * 2**30, "steps": len(store_all(made)["steps"])}
    timeline = (tmp_path / "t.csv").read_text().splitlines()
    assert timeline[0] == "step,action,element,memory_bytes" and len(timeline) == 1 + record["schedule"]["steps"]
    assert "equal to the framework's iteration" in capsys.readouterr().out


def test_the_allocator_agrees_with_the_accounts_but_for_scratch_memory(residual):
    record = job.replay(residual, store_all(residual.instance))
    allocated, storages = record["memory"]["allocated_peak_bytes"], record["memory"]["storage_peak_bytes"]
    largest = max(tensor["bytes"] for tensor in residual.instance["tensors"])
    assert storages <= allocated <= storages + 3 * largest


def test_a_free_too_early_is_named(residual):
    schedule = steps_of(residual)
    at = index_of(residual, schedule["steps"], "3.body.1")
    first = residual.instance["operators"][schedule["steps"][at]["compute"]]["inputs"][0]
    schedule["steps"].insert(at, {"free": first})
    with pytest.raises(IllegalStep, match=rf"step {at + 1} \(compute 3.body.1 \(default\)\) reads tensor {first} "):
        compared(residual, schedule)


def test_a_free_of_what_is_gone_is_named(residual):
    schedule = steps_of(residual)
    at = next(i for i, step in enumerate(schedule["steps"]) if "free" in step)
    schedule["steps"].insert(at + 1, dict(schedule["steps"][at]))
    with pytest.raises(IllegalStep, match=rf"step {at + 1} \(free .*\) frees tensor .* not in memory"):
        compared(residual, schedule)


def test_state_that_is_updated_twice_shows_as_a_difference(residual):
    schedule = steps_of(residual)
    at = index_of(residual, schedule["steps"], "3.body.1")
    schedule["steps"].insert(at + 1, dict(schedule["steps"][at]))
    found = compared(residual, schedule)
    assert {d.name for d in found.beyond} == {"buffer 3.body.1.running_mean", "buffer 3.body.1.running_var"}
    schedule["steps"][at + 1]["implementation"] = "recompute"
    assert compared(residual, schedule).equal


def test_on_a_gpu_whose_framework_runs_other_kernels_schedules_are_compared_with_store_all_and_a_note_says_how_far_apart(residual):
    bench = copy.copy(residual)
    bench.expected = reference.Outcome({**residual.expected.tensors, "0.weight.grad": residual.expected.tensors["0.weight.grad"] * 1.01})
    outcome = bench.graph_outcome
    assert not bench.judged(outcome, 1e-4)[0].equal, "on a CPU they are the same kernels"
    bench.device = types.SimpleNamespace(type="cuda")
    found, notes = bench.judged(outcome, 1e-4)
    assert found.equal and len(notes) == 1 and "0.weight.grad is 9.9e-03 off (largest of 1)" in notes[0]
    wrong = reference.Outcome({**outcome.tensors, "loss": outcome.tensors["loss"] + 1})
    assert [d.name for d in bench.judged(wrong, 1e-4)[0].beyond] == ["loss"]
    bench.expected = residual.expected
    assert bench.judged(outcome, 1e-4)[0].equal and bench.judged(wrong, 1e-4)[1] == []


def test_a_gradient_that_is_dropped_shows_as_missing(residual):
    schedule = steps_of(residual)
    (weight,) = [t["id"] for t in residual.instance["tensors"] if t["name"] == "0.weight.grad"]
    schedule["steps"].append({"free": weight})
    found = compared(residual, schedule)
    assert found.missing == ["0.weight.grad"] and not found.equal


def test_an_operator_that_is_left_out_ends_with_its_reader(residual):
    schedule = steps_of(residual)
    del schedule["steps"][index_of(residual, schedule["steps"], "3.body.2")]
    with pytest.raises(IllegalStep, match="which is not in memory"):
        compared(residual, schedule)


@pytest.mark.parametrize("change,expected", [
    (lambda s: s | {"format": "x"}, "expected a schedule file"),
    (lambda s: s | {"instance": "other"}, "of instance 'other', not of 'residual'"),
    (lambda s: s | {"steps": [{"compute": 999}]}, "step 0 computes operator 999"),
    (lambda s: s | {"steps": [{"free": 999}]}, "step 0 .free. names tensor 999"),
    (lambda s: s | {"steps": [{}]}, "step 0 is not one of"),
    (lambda s: s | {"steps": [{"compute": 0, "implementation": "cudnn:NONE"}]}, "has no implementation 'cudnn:NONE'"),
])
def test_schedules_that_name_nothing_are_refused(residual, change, expected):
    with pytest.raises(ProfilerError, match=expected):
        plan.plan(residual.instance, change(store_all(residual.instance)))


@pytest.mark.parametrize("what,spoil,expected", [
    ("schedule", lambda s: s.pop("steps"), "steps is missing: make it again with bench solve"),
    ("schedule", lambda s: s["steps"].insert(1, 3), r"steps\[1\] is no object"),
    ("schedule", lambda s: s["steps"].insert(0, {"free": [1]}), r"steps\[0\].free is no whole number"),
    ("schedule", lambda s: s.update(transfer_rates={"fetch": 1}), "transfer_rates.offload is missing"),
    ("schedule", lambda s: s.update(budget_bytes=True), "budget_bytes is no whole number"),
    ("instance", lambda s: s.pop("operators"), "operators is missing: trace it again"),
    ("instance", lambda s: s.update(provenance=None), "provenance is missing"),
    ("instance", lambda s: s["tensors"][2].pop("id"), r"tensors\[2\].id is missing"),
    ("instance", lambda s: s["tensors"][2].update(kind="x"), r"tensors\[2\].kind is none of input, activation"),
    ("instance", lambda s: s["provenance"].update(times={"kind": "guessed"}), "provenance.times is nothing that the format knows"),
    ("instance", lambda s: s["operators"][1]["implementations"][0].update(time="1"), r"operators\[1\].implementations\[0\].time is no"),
])
def test_malformed_documents_are_refused_by_file_element_and_rule(residual, what, spoil, expected, tmp_path):
    made = {"instance": copy.deepcopy(residual.instance), "schedule": store_all(residual.instance)}
    spoil(made[what])
    with pytest.raises(ProfilerError, match=expected):
        plan.plan(made["instance"], made["schedule"])
    (tmp_path / "bad.json").write_text(json.dumps(made[what]))
    with pytest.raises(ProfilerError, match=f"{what} '.*bad.json': {expected}"):
        plan.read_document(tmp_path / "bad.json", what)


def test_an_instance_whose_numbers_do_not_fit_together_is_refused(residual):
    made = copy.deepcopy(residual.instance)
    made["operators"][1]["inputs"].append(999)
    with pytest.raises(ProfilerError, match="'residual' is not sound: operator 1 .* reads tensor 999 before it is there; trace it again"):
        plan.plan(made, store_all(residual.instance))


def test_a_schedule_is_refused_where_the_instance_takes_more_than_its_budget(residual):
    schedule = store_all(residual.instance)
    peak = plan.expectation(plan.plan(residual.instance, schedule)).peak_bytes
    plan.plan(residual.instance, schedule | {"budget_bytes": peak, "claimed_peak_bytes": 1})
    for field in ("budget_bytes", "claimed_peak_bytes"):
        with pytest.raises(ProfilerError, match=f"at most {peak - 1} bytes, and takes {peak} on instance 'residual': .*solve it again"):
            plan.plan(residual.instance, schedule | {field: peak - 1})


def test_an_instance_that_is_not_what_its_command_traces_is_refused(residual):
    for spoil, expected in [
        (lambda made: made["operators"][3].update(name="x"), r"operator 3 \(x\): name is"),
        (lambda made: made["tensors"][2].update(bytes=5), r"tensor 2 .*bytes is \d+, not 5"),
        (lambda made: made["operators"][0]["attributes"].update(padding=[0, 0]), "operator 0 .*attributes"),
        (lambda made: made["provenance"].update(command=""), "was not traced by remat-profiler"),
        (lambda made: made["provenance"].update(command="remat-profiler trace --nonsense"), "cannot read its command"),
    ]:
        made = copy.deepcopy(residual.instance)
        spoil(made)
        with pytest.raises(ProfilerError, match=expected):
            agreement.retrace(made)


def test_a_tensor_that_goes_to_the_host_and_back_is_the_same(residual):
    """The largest tensor that the backward pass reads leaves after its last use in the forward pass."""
    schedule = steps_of(residual) | {"transfer_rates": {"offload": 3000, "fetch": 7000}}
    operators, tensors = residual.instance["operators"], residual.instance["tensors"]
    backward = {op["id"] for op in operators if op["phase"] == "backward"}
    (wanted,) = [op["outputs"][0] for op in operators if op["name"] == "3.body.0"]
    readers = [i for i, step in enumerate(schedule["steps"]) if "compute" in step
               and wanted in operators[step["compute"]]["inputs"]]
    first_back = next(i for i in readers if schedule["steps"][i]["compute"] in backward)
    last_forward = max(i for i in readers if i < first_back)
    schedule["steps"].insert(first_back, {"fetch": wanted})
    schedule["steps"][last_forward + 1:last_forward + 1] = [{"offload": wanted}, {"free": wanted}]
    chosen = plan.plan(residual.instance, schedule)
    machine, account = Machine(chosen, residual.trace, residual.module, residual.device), Account()
    outcome = residual.outcome(lambda: machine.run(residual.inputs, account))
    found, expected = reference.compare(residual.expected, outcome, 0.0), plan.expectation(chosen)
    assert found.equal and account.timeline == expected.timeline
    size = tensors[wanted]["bytes"]
    stored = plan.expectation(plan.plan(residual.instance, store_all(residual.instance)))
    assert expected.time - stored.time == -(-size * 1000 // 3000) + -(-size * 1000 // 7000)
    assert expected.peak_bytes <= stored.peak_bytes
    schedule["steps"][last_forward + 1] = {"offload": 0}
    with pytest.raises(IllegalStep, match="fetches tensor .* not in memory"):
        compared(residual, schedule)
    del schedule["transfer_rates"]
    with pytest.raises(ProfilerError, match="no transfer_rates"):
        plan.plan(residual.instance, schedule)


def test_random_operators_draw_the_same_numbers_again(transformer):
    """The whole forward pass runs a second time, after all of its numbers were drawn: it draws the same ones again."""
    schedule = steps_of(transformer)
    operators = transformer.instance["operators"]
    assert len([op for op in operators if op.get("random")]) > 4
    forward = [op["id"] for op in operators if op["phase"] != "backward"]
    split = next(i for i, step in enumerate(schedule["steps"]) if step.get("compute", -1) > forward[-1])
    read_later = {t for op in operators if op["phase"] == "backward" for t in op["inputs"]}
    kept = {t["id"] for t in transformer.instance["tensors"] if t["kind"] in ("input", "output")}
    freed = dict.fromkeys(step["free"] for step in schedule["steps"][:split] if "free" in step)
    again = [{"compute": id} for id in forward] + [{"free": t} for t in freed if t not in read_later | kept]
    schedule["steps"][split:split] = again
    assert compared(transformer, schedule).equal


def test_first_runs_out_of_order_find_the_states_of_the_frameworks_order(transformer):
    """The prepared states are those that the framework's own order comes to, and a run that finds one uses it."""
    schedule = store_all(transformer.instance)
    machine = Machine(plan.plan(transformer.instance, schedule), transformer.trace, transformer.module, transformer.device)
    random = sorted(id for id, op in machine.library.operators.items() if op.random)
    seen, original = [], machine._generator_state
    machine.plan.steps.reverse()  # for the preparation alone: the bound steps stay as they are
    torch.manual_seed(3)
    machine._prepare_random()
    machine.plan.steps.reverse()
    prepared = dict(machine.random_states)
    assert list(prepared) == random and len(random) > 4
    torch.manual_seed(3)
    for id in random:
        seen.append(original())
        machine._draw(machine.library.operators[id].node)
    assert all(torch.equal(prepared[id], state) for id, state in zip(random, seen))
    drawn = []
    machine._random_ends.clear()  # of operators, which draw other amounts than three
    for seed in (8, 9):
        torch.manual_seed(seed)
        machine._replaying(random[1], lambda: drawn.append(torch.rand(3)) or {}, False)()
    assert torch.equal(*drawn), "whatever the generator's state, the prepared one is used"
    machine.random_states.clear()
    machine._replaying(random[1], dict, False)()
    assert not machine.random_states, "a state that nobody needs is not kept"


def test_a_cap_needs_a_gpu_and_says_so(tmp_path, capsys, residual):
    files.write(residual.instance, tmp_path / "net.json")
    (tmp_path / "s.json").write_text(json.dumps(store_all(residual.instance)))
    arguments = ["replay", "--instance", str(tmp_path / "net.json"), "--schedule", str(tmp_path / "s.json"),
                 "-o", str(tmp_path / "r.json")]
    assert main([*arguments, "--repeat", "1", "--cap", "1000"]) == 2
    assert "a CPU's allocator has no limit" in capsys.readouterr().err
    assert main([*arguments, "--repeat", "0"]) == 2
    assert main([*arguments[:-1], str(tmp_path / "r.txt")]) == 2
    assert main(["replay", "--instance", str(tmp_path / "none.json"), *arguments[3:]]) == 2
    assert "cannot read instance" in capsys.readouterr().err and not (tmp_path / "r.json").exists()


def test_a_wrong_schedule_is_a_record_that_says_different_and_exit_code_1(tmp_path, capsys, residual):
    files.write(residual.instance, tmp_path / "net.json")
    schedule = steps_of(residual)
    bn = index_of(residual, schedule["steps"], "1")
    schedule["steps"].insert(bn + 1, dict(schedule["steps"][bn]))
    (tmp_path / "s.json").write_text(json.dumps(schedule))
    arguments = ["replay", "--instance", str(tmp_path / "net.json"), "--schedule", str(tmp_path / "s.json"),
                 "--repeat", "1", "-o", str(tmp_path / "r.json")]
    code = main(arguments)
    out = capsys.readouterr()
    assert code == 1 and "DIFFERENT" in out.out
    assert not json.loads((tmp_path / "r.json").read_text())["equality"]["equal"]


def test_times_are_of_as_many_samples_as_asked_for():
    ran = []
    times = measure.times(lambda: ran.append(1), torch.device("cpu"), 5)
    assert len(times.samples) == 5 and len(ran) == 5 + measure.WARM_UP and times.median >= 0


def test_the_allocators_peak_counts_what_is_alive_at_once():
    def iteration():
        a = torch.zeros(1000)
        b = torch.add(a, a)
        del a
        c = torch.mul(b, b)
        del b
        return torch.neg(c)

    assert measure.peaks(iteration, torch.device("cpu"), 100).allocated == 100 + 8000


def test_the_package_loads_without_torch_until_it_is_needed():
    code = "import remat_profiler, sys; assert 'torch' not in sys.modules; remat_profiler.Scheduled; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_operator_that_nothing_feeds_is_named(residual):
    """Where its backward operator differentiates nothing there is no other implementation to blame."""
    made = copy.deepcopy(residual.instance)
    first = made["operators"][made["order"][0]]
    first["inputs"] = [made["operators"][made["order"][-1]]["outputs"][0]]
    first["implementations"] = first["implementations"][:1]
    first["implementations"][0].pop("inputs", None)
    with pytest.raises(ProfilerError, match=f"operator {first['id']} .* reads what nobody makes before it"):
        store_all(made)
