"""What a plan says, where it is kept, and what is refused with which words."""

import json
import math
import re
import sys
import tempfile

import pytest
import torch
from torch import nn

import rematplan
from rematplan import PlanError, PlanWarning, least, partition, planner
from rematplan.budget import mb
from rematplan.compiling import plans_of
from rematplan.graph import Joint
from rematplan.planning import difference_of
from rematplan.room import Steps

from . import planning
from .planning import SECONDS, Average, bit_equal, check_bits, iteration, mlp, planned
from .replaying import required_bench

pytestmark = pytest.mark.usefixtures("planner")


def test_a_plan_says_what_it_costs_and_can_be_saved_drawn_and_replayed(tmp_path):
    net, inputs, loss = mlp()
    plan = rematplan.plan(net, inputs, loss=loss, budget="60%", cost="flops", seconds=SECONDS, backend="eager")
    assert plan.graph.peak_bytes <= plan.graph.budget_bytes < plan.graph.plain_peak_bytes
    assert plan.graph.overhead > 0 and "repetitions" in str(plan)
    plan.save(tmp_path)
    plan.draw(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")
    import subprocess

    said = subprocess.run([required_bench(), "verify", tmp_path / "instance.json", tmp_path / "schedule.json", "--format", "json"],
                          capture_output=True, text=True, check=True)
    judged = json.loads(said.stdout)
    assert plan.graph.peak_bytes in judged.values() and plan.graph.time_ns in judged.values(), judged
    replay = plan.replay()
    assert replay.difference == 0
    assert replay.planned.peak_bytes < replay.plain.peak_bytes


def test_plans_are_kept_on_disk_for_the_same_graph_and_budget(monkeypatch, tmp_path):
    monkeypatch.setenv("REMATPLAN_CACHE", str(tmp_path))
    net, inputs, loss = mlp()

    def found(network, budget):
        torch._dynamo.reset()
        step = planned(network, budget=budget)
        iteration(network, inputs, loss, step)
        return step._rematplan.plans[0]

    assert not found(net, "60%").cached
    assert found(mlp()[0], "60%").cached, "another network of the same shape"
    assert not found(net, "65%").cached
    assert not found(mlp(depth=7)[0], "60%").cached
    cached = found(net, "60%")
    assert max(Steps(cached.instance, cached.operators).memory) == cached.peak_bytes, "what forward gives stays with the caller"
    (file,) = [file for file in (tmp_path / "plans").iterdir() if json.loads(file.read_text())["operators"] == cached.operators]
    good = json.loads(file.read_text())
    for broken in ("{broken", "[]", *(json.dumps(good | change) for change in (
            {"operators": "abc"}, {"operators": [[1]]}, {"operators": [float(o) for o in good["operators"]]},
            {"operators": good["operators"][::-1]}, {"operators": good["operators"] * 2},
            {"peak_bytes": 1}, {"time_ns": None}, {"note": [], "peak_bytes": "12"}))):
        file.write_text(broken)
        assert not found(net, "60%").cached, broken
        assert found(net, "60%").cached, "planned anew and kept"


def test_a_budget_that_cannot_be_met_is_an_error_of_plan_and_a_warning_of_compile():
    net, inputs, loss = mlp()
    with pytest.raises(PlanError, match="give a tuple"):
        rematplan.plan(net, inputs[0], loss=loss, budget="50%")
    with pytest.raises(PlanError, match="no plan within"):
        rematplan.plan(net, inputs, loss=loss, budget="5%", cost="flops", seconds=SECONDS, backend="eager")
    step = planned(net, budget="5%")
    with pytest.warns(PlanWarning, match="PyTorch's own partitioner takes it: no plan within") as caught:
        found = iteration(net, inputs, loss, step)
    assert {warning.filename for warning in caught} == {planning.__file__}, "where the user calls it"
    assert bit_equal(iteration(net, inputs, loss), found) == []
    assert "PyTorch's own partitioner" in rematplan.explain(step)


@pytest.mark.parametrize("apply", ["schedule", "sets"])
def test_a_budget_that_is_too_small_names_what_would_do(apply):
    net, inputs, loss = mlp()
    options = {"loss": loss, "cost": "flops", "seconds": SECONDS, "backend": "eager", "apply": apply}
    with pytest.raises(PlanError, match="no plan within") as refused:
        rematplan.plan(net, inputs, budget="5%", **options)
    text = str(refused.value)
    assert "bytes" not in text, "one unit"
    there = sum(2 * p.nbytes for p in net.parameters()) + inputs[0].nbytes + 4  # parameters, gradients, input, loss
    assert f"(parameters, buffers, inputs, outputs, gradients) takes {there / 1e6:.2f} MB" in text
    below, does = (re.search(words + r" ([\d.]+) MB \(([\d.]+)%\)", text) for words in ("needs less than", "known to do is"))
    with pytest.raises(PlanError, match="no plan within"):
        rematplan.plan(net, inputs, budget=f"{float(below[2]) - 0.1}%", **options)
    assert (does is None) == (apply == "sets")
    if does is not None:
        plan = rematplan.plan(net, inputs, budget=f"{does[2]}%", **options).graph
        assert plan.runs_again and float(below[1]) - 0.01 <= plan.peak_bytes / 1e6


def test_a_network_that_is_all_parameters_has_no_smaller_budget_and_is_told_so():
    net = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(256, 256), nn.GELU())))
    with pytest.raises(PlanError, match="no schedule needs less than .*and no budget below that of keeping everything is known to do"):
        rematplan.plan(net, (torch.randn(2, 256),), loss=lambda y: y.square().mean(), budget="60%", cost="flops", seconds=SECONDS,
                       backend="eager")


def test_no_schedule_that_is_found_is_below_the_bound():
    net, inputs, loss = mlp()
    plan = rematplan.plan(net, inputs, loss=loss, budget="60%", cost="flops", seconds=SECONDS, backend="eager").graph
    assert least.at_the_end(plan.instance) <= least.bound(plan.instance) <= plan.peak_bytes
    found = least.known(plan.instance, lambda budget: planner.solve(plan.instance, budget, 1, f"least {budget}").peak_bytes)
    assert least.bound(plan.instance) <= found <= plan.peak_bytes


class _Recurrent(nn.Module):
    """The compiler does not look into an LSTM."""

    def __init__(self):
        super().__init__()
        self.net = nn.LSTM(8, 8)

    def forward(self, x):
        return self.net(x)[0]


def test_where_nothing_is_captured_a_warning_says_once_that_nothing_is_planned():
    net, x = _Recurrent(), torch.randn(4, 2, 8)
    for target in (net, lambda x: net(x)):
        step = planned(target)
        with torch.no_grad():
            step(x)
        with pytest.warns(PlanWarning, match="nothing is planned.*captured no graph") as caught:
            step(x).sum().backward()
        assert [warning.filename for warning in caught] == [__file__]
        step(x).sum().backward()
        assert plans_of(step) == []


def test_without_the_planner_training_goes_on_and_says_why(monkeypatch, tmp_path):
    monkeypatch.setenv("REMATPLAN_CACHE", str(tmp_path))
    net, inputs, loss = mlp()
    for named, words in ((tmp_path / "nothing", "REMAT_BENCH names no program"), (tmp_path, "REMAT_BENCH names no program"),
                         (sys.executable, "is not the planner")):
        torch._dynamo.reset()
        monkeypatch.setenv("REMAT_BENCH", str(named))
        with pytest.warns(PlanWarning, match=words):
            found = iteration(net, inputs, loss, planned(net))
        assert bit_equal(iteration(net, inputs, loss), found) == []


def test_a_replay_leaves_module_gradients_and_random_numbers_as_they_were():
    net = Average()
    net.register_buffer("scale", net.scale, persistent=False)
    net.rest.append(nn.Dropout(0.1))
    inputs, loss = (torch.randn(256, 64),), lambda y: y.square().mean()
    plan = rematplan.plan(net, inputs, loss=loss, budget="80%", cost="flops", seconds=SECONDS, backend="eager")
    loss(net(*inputs)).backward()
    before = {name: tensor.clone() for name, tensor in net.named_buffers()} | {name: p.grad.clone() for name, p in net.named_parameters()}
    random = torch.get_rng_state()
    assert plan.replay().difference == 0
    after = dict(net.named_buffers()) | {name: p.grad for name, p in net.named_parameters()}
    assert bit_equal(before, after) == [] and torch.equal(random, torch.get_rng_state())


class Unusual(nn.Module):
    """Writes to an input, and has sparse gradients and a parameter of no elements."""

    def __init__(self):
        super().__init__()
        self.table, self.last, self.none = nn.Embedding(10, 8, sparse=True), nn.Linear(8, 8), nn.Parameter(torch.empty(0, 8))

    def forward(self, tokens, x, state):
        state.mul_(0.5).add_(x.detach().mean(0))
        return self.last(self.table(tokens) + x) * state + self.none.sum()


class Normed(nn.Module):
    """A loss with parameters and statistics of its own."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, y):
        return self.norm(y).pow(4).mean()


def test_a_replay_restores_inputs_and_a_loss_that_is_a_module():
    net, loss = Unusual(), Normed()
    inputs = (torch.randint(0, 10, (4,)), torch.randn(4, 8, requires_grad=True), torch.ones(8))
    plan = rematplan.plan(net, inputs, loss=loss, budget="100%", cost="flops", seconds=SECONDS, backend="eager")
    assert plan.replay().difference == 0
    assert torch.equal(inputs[2], torch.ones(8)) and inputs[1].grad is None
    assert torch.equal(loss.norm.running_mean, torch.zeros(8)) and all(p.grad is None for p in loss.parameters())


class Sparse(nn.Module):
    """Has a sparse buffer, and one that is no number and counts."""

    def __init__(self):
        super().__init__()
        self.body = mlp(depth=3)[0]
        self.register_buffer("adjacent", torch.eye(64).to_sparse())
        self.register_buffer("seen", torch.zeros(64))

    def forward(self, x):
        self.seen.add_(1)
        return self.body(x + self.seen)


def test_a_replay_restores_sparse_buffers_and_ends_at_inputs_that_were_computed():
    net, scale = Sparse(), torch.ones(64, requires_grad=True)
    plan = rematplan.plan(net, (torch.randn(256, 64) * scale,), loss=lambda y: y.square().mean(), budget="90%", cost="flops",
                          seconds=SECONDS, backend="eager")
    assert plan.replay().difference == 0
    assert torch.equal(net.seen, torch.zeros(64)) and scale.grad is None


@pytest.mark.parametrize("loss", [lambda y: y, lambda y: (y.sum(), y)])
def test_a_loss_that_is_no_number_is_refused(loss):
    with pytest.raises(PlanError, match="the loss must be a tensor of one element"):
        rematplan.plan(mlp(depth=2)[0], (torch.randn(256, 64),), loss=loss, budget="90%", cost="flops", seconds=SECONDS, backend="eager")


def test_a_gradient_that_is_no_number_is_a_difference():
    plain, planned_ = ({"first": torch.ones(2), "second": torch.tensor([2.0, second])} for second in (2.0, float("nan")))
    assert math.isnan(difference_of(plain, planned_)) and math.isnan(difference_of(planned_, plain))
    assert difference_of(plain, {"first": torch.ones(2), "second": torch.ones(2)}) == 0.5
    assert difference_of({}, {}) == 0


class FullyShardedDataParallel(nn.Linear):
    """Named as the class that is refused."""


def test_what_plans_do_not_work_with_is_refused_with_the_reason():
    with pytest.raises(rematplan.Refused, match="FSDP.*not supported"):
        planned(nn.Sequential(FullyShardedDataParallel(2, 2)))
    for wrong, words in (({"budget": "lots"}, "bad budget 'lots'"), ({"budget": 0}, "bad budget"),
                         ({"cost": "guess"}, "unknown cost model"), ({"apply": "magic"}, "unknown way"),
                         ({"budget": "0.5"}, "bad budget"), ({"budget": "0x"}, "bad budget"), ({"backend": "tpu"}, "unknown backend"),
                         *(({"seconds": seconds}, "needs time") for seconds in (0, float("inf"), 1e9, "5"))):
        with pytest.raises(PlanError, match=words):
            planned(mlp()[0], **wrong)


def test_a_share_of_the_peak_can_be_typed_as_for_bench():
    for text in ("50%", "0.5x", " 0.50x "):
        assert rematplan.Budget.parse(text).resolve(1000) == 500, text


def test_a_budget_may_be_in_terabytes():
    assert [rematplan.Budget.parse(text).bytes for text in ("1TB", "1.5 tib")] == [10**12, 3 * 2**39]


def test_a_planner_whose_words_are_no_text_or_that_cannot_be_asked_is_an_error(monkeypatch, tmp_path):
    program = tmp_path / "bench"
    program.write_text("#!/bin/sh\nprintf '\\377\\376\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("REMAT_BENCH", str(program))
    with pytest.raises(PlanError, match="is not the planner"):
        planner.version()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nothing"))
    with pytest.raises(PlanError, match="the planner cannot be asked: .*No such file"):
        planner.pack([(0, 1, 8)], 1, 1)


def test_plans_are_of_one_build_of_the_planner(monkeypatch, tmp_path):
    program = tmp_path / "bench"
    monkeypatch.setenv("REMAT_BENCH", str(program))
    keys = set()
    for comment in ("", "# built again"):
        program.write_text(f"#!/bin/sh\necho bench 0.1.0 {comment}\n")
        program.chmod(0o755)
        keys.add(partition.Settings(rematplan.Budget.parse("60%")).key())
    assert len(keys) == 2


def test_few_bytes_are_said_exactly():
    assert [mb(size) for size in (0, 12, 67_590, 123_456_789)] == ["0 MB", "0.000012 MB", "0.06759 MB", "123.46 MB"]


def test_a_graph_that_communicates_is_refused_with_the_reason():
    graph = torch.fx.Graph()
    x = graph.placeholder("primals_1")
    gathered = graph.call_function(torch.ops._c10d_functional.all_gather_into_tensor.default, (x, 2, "0"))
    graph.output((gathered,))
    with pytest.raises(rematplan.Refused, match=r"communicates \(_c10d_functional::all_gather_into_tensor\).*FSDP"):
        Joint(torch.fx.GraphModule({}, graph), 1, ())


def test_measured_costs_make_a_plan_too():
    check_bits(*mlp(depth=4), budget="80%", cost="measured")
