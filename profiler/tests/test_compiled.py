"""Compiled training with a plan comes to what plain training comes to, within the budget."""

import copy
import io
import json
import math
import re
import sys
import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import rematplan
from rematplan import PlanError, PlanWarning, networks, partition, planner
from rematplan.compiling import plans_of
from rematplan.graph import Joint
from rematplan.planning import difference_of
from rematplan.room import Steps

from .planning import bit_equal, iteration, mlp, residual, transformer, worst
from .replaying import required_bench

SECONDS = 2
pytestmark = pytest.mark.usefixtures("planner")


def planned(net, **options):
    """Uncompiled unless said otherwise, by counted costs: the same plan on every machine."""
    return rematplan.compile(net, **{"budget": "70%", "backend": "eager", "cost": "flops", "seconds": SECONDS} | options)


def check_bits(net, inputs, loss, call=None, **options):
    """Bit-equal to plain training, with something run again; gives the plans back."""
    step = planned(net, **options)
    expected = iteration(net, inputs, loss, None if call is None else call(net))
    found = iteration(net, inputs, loss, step if call is None else call(step))
    assert bit_equal(expected, found) == []
    plans = step._rematplan.plans
    assert any(plan.status == "planned" and plan.runs_again for plan in plans), [p.reason or p.status for p in plans]
    assert all(plan.peak_bytes <= plan.budget_bytes for plan in plans)
    return plans


@pytest.mark.parametrize("apply", ["schedule", "sets"])
@pytest.mark.parametrize("network", [mlp, transformer, residual])
def test_gradients_and_buffers_are_those_of_plain_training_to_the_bit(network, apply):
    check_bits(*network(), apply=apply, budget="80%")


@pytest.mark.parametrize("apply", ["schedule", "sets"])
def test_dropout_drops_the_same_elements_when_it_runs_again(apply):
    net, inputs, loss = transformer(dropout=0.3)
    check_bits(net, inputs, loss, apply=apply, budget="85%")


def test_running_statistics_are_updated_once():
    net, inputs, loss = residual()
    plans = check_bits(net, inputs, loss, budget="80%")
    assert any("batch_norm" in name for plan in plans for name in plan.again), plans[0].again


def test_tied_weights_and_views_keep_their_gradients():
    check_bits(*transformer(tied=True), budget="80%")


def test_autocast_computes_in_the_same_precision_again():
    net, inputs, loss = transformer()
    check_bits(net, inputs, loss, budget="80%",
               call=lambda f: lambda *a: torch.autocast("cpu", torch.bfloat16)(f)(*a).float())


def test_a_dynamic_batch_is_planned_once_and_right_for_other_sizes():
    net, inputs, loss = mlp()
    step = planned(net, dynamic=True)
    for batch in (256, 100, 333):
        x = (torch.randn(batch, 64),)
        assert bit_equal(iteration(net, x, loss), iteration(net, x, loss, step)) == []
    assert len(step._rematplan.plans) == 1 and step._rematplan.plans[0].runs_again


def test_every_graph_of_a_broken_network_has_a_plan():
    plans = check_bits(*transformer(breaks=True, layers=5), budget="80%")
    assert len(plans) == 2 and all(plan.status != "stock" for plan in plans)


def test_several_graphs_share_a_budget_in_bytes_and_say_so():
    net, inputs, loss = transformer(breaks=True, layers=5)
    step = planned(net, budget="500MB")
    with pytest.warns(PlanWarning, match="several graphs: .* bytes are left for this one"):
        found = iteration(net, inputs, loss, step)
    assert bit_equal(iteration(net, inputs, loss), found) == []
    first, second = step._rematplan.plans
    assert second.budget_bytes == 500_000_000 - first.saved_bytes - first.fixed_bytes


def test_a_plan_that_is_made_meanwhile_or_a_compiler_that_forgets_takes_nothing_of_a_budget_in_bytes():
    net, inputs, loss = mlp()
    step = planned(net, budget="1000KB")
    iteration(net, inputs, loss, step)
    rematplan.plan(net, (torch.randn(128, 64),), loss=loss, budget="90%", cost="flops", seconds=SECONDS, backend="eager")
    iteration(net, inputs, loss, step)
    assert len(step._rematplan.plans) == 1, "what was compiled is still there"
    torch._dynamo.reset()
    iteration(net, inputs, loss, step)
    assert [plan.budget_bytes for plan in step._rematplan.plans] == [1_000_000, 1_000_000]


class Several(nn.Module):
    """Several inputs of any kind, several outputs, one of them a view of an input."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x, scale, pair):
        h = torch.tanh(self.a(x) * scale)
        h = torch.tanh(self.a(self.b(h))) + pair[0].unsqueeze(-1)
        return {"out": self.b(h), "norm": h.square().sum(-1)}, x.view(-1)


def test_any_inputs_and_outputs_are_allowed():
    net = Several()
    inputs = (torch.randn(64, 16), 0.5, (torch.randn(64), 3))
    check_bits(net, inputs, lambda y: F.mse_loss(y[0]["out"], torch.ones(64, 16)) + y[0]["norm"].mean() + y[1].sum(), budget="90%")


def test_inputs_that_want_gradients_get_them():
    net, (x,), loss = mlp()
    step = planned(net)
    gradients = []
    for call in (net, step):
        leaf = x.clone().requires_grad_()
        loss(call(leaf)).backward()
        gradients.append(leaf.grad)
    assert torch.equal(*gradients)


def test_training_for_some_steps_follows_plain_training():
    net, inputs, loss = residual()
    twin = copy.deepcopy(net)
    losses = []
    for module, call in ((net, planned(net, budget="75%")), (twin, twin)):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            value = loss(call(*inputs))
            value.backward()
            optimizer.step()
            losses.append(value.item())
    assert losses[:5] == losses[5:]


def test_evaluation_and_no_grad_need_no_plan():
    net, inputs, _ = mlp()
    step = planned(net)
    with torch.no_grad():
        assert torch.equal(step(*inputs), net(*inputs))
    assert step._rematplan.plans == []


# Compiled.

@pytest.mark.parametrize("apply", ["schedule", "sets"])
def test_compiled_training_is_plain_training_but_for_rounding_and_stays_within_the_budget(apply):
    net, inputs, loss = mlp(width=128, depth=8, batch=1024)
    step = rematplan.compile(lambda x: loss(net(x)), budget="60%", cost="flops", seconds=SECONDS, apply=apply)
    expected = iteration(net, inputs, loss)
    assert worst(expected, iteration(net, inputs, lambda value: value, step)) < 1e-5
    (plan,) = step._rematplan.plans
    assert plan.status == "planned", plan.reason

    def run():
        net.zero_grad(set_to_none=True)
        step(*inputs).backward()

    executed = rematplan.executed(run, samples=1).peak_bytes + plan.fixed_bytes + inputs[0].nbytes
    assert executed <= plan.budget_bytes, (executed, plan.peak_bytes, plan.budget_bytes)
    text = rematplan.explain(step, run=run)
    assert "repetitions of" in text and "executed: peak" in text


def peaks_of(net, step, *inputs, beside=()):
    """The plan of a step that gives the loss, and the bytes that an iteration takes, with parameters, inputs and what else is there."""
    def run():
        net.zero_grad(set_to_none=True)
        step(*inputs).backward()

    run()
    (plan,) = step._rematplan.plans
    assert plan.status == "planned" and plan.runs_again, plan
    return plan, rematplan.executed(run, samples=1).peak_bytes + plan.fixed_bytes + sum(x.nbytes for x in (*inputs, *beside))


@pytest.mark.parametrize(("channels_last", "budget"), [(True, "60%"), (True, "40%"), (False, "60%")])
def test_a_compiled_network_with_skips_and_pooling_takes_the_peak_that_was_planned(channels_last, budget):
    """Pooling's offsets, repeated normalisations, freed buffers and another order are where inductor would keep more than the plan
    says, and channels-last convolutions take copies, of which the plan counts the most that there can be: of weights and
    images, not of what is concatenated or runs again. How many there are is the machine's choice, as is the convolutions' scratch memory
    (1 to 3 % less than planned were seen). Without them the two are the same but for 4 bytes."""
    net, x, labels = networks._UNet(8, 2), torch.randn(2, 3, 64, 64), torch.zeros(2, 64, 64, dtype=torch.int64)
    step = rematplan.compile(lambda x: F.cross_entropy(net(x), labels), budget=budget, cost="flops", seconds=SECONDS,
                             options={"layout_optimization": channels_last})
    plan, executed = peaks_of(net, step, x, beside=[labels])
    assert plan.channels_last == channels_last
    assert executed <= plan.budget_bytes, (executed, plan.peak_bytes, plan.budget_bytes)
    assert executed >= plan.peak_bytes * (0.9 if channels_last else 0.99), (executed, plan.peak_bytes, plan.budget_bytes)


def test_a_compiled_network_of_volumes_which_inductor_does_not_turn_takes_the_peak_that_was_planned():
    net = nn.Sequential(*(part for _ in range(4) for part in (nn.Conv3d(8, 8, 3, padding=1), nn.ReLU())))
    step = rematplan.compile(lambda x: net(x).square().mean(), budget="2000KB", cost="flops", seconds=SECONDS)
    plan, executed = peaks_of(net, step, torch.randn(4, 8, 12, 12, 12))
    assert not plan.channels_last and executed <= plan.budget_bytes, (executed, plan.peak_bytes, plan.budget_bytes)


class _Turned(torch.nn.Module):
    """Layers that turn pairs by angles of their place, as rotary embeddings do."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        angles = torch.arange(x.shape[1])[:, None] * torch.arange(1, 5) * 0.1
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        for layer in self.layers:
            a, b = layer(x).unflatten(-1, (4, 8)).chunk(2, dim=-1)
            x = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(2)
        return x


def test_a_table_of_costly_functions_that_is_read_many_times_is_a_tensor_and_a_value_read_twice_is_none():
    def made(net, x):
        plan = rematplan.plan(net, (x,), loss=lambda y: y.square().mean(), budget="100%", cost="flops", seconds=SECONDS, backend="eager")
        return sorted(re.sub(r"_\d+$", "", entry["name"]) for entry in plan.graph.instance["operators"])

    turned = made(_Turned(), torch.randn(4, 16, 32))
    assert turned.count("cos") == turned.count("sin") == 1, turned
    doubled = made(nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.SiLU(), nn.Linear(32, 32)), torch.randn(64, 32))
    assert "sigmoid" not in doubled and "exp" not in doubled, doubled


class _Gated(torch.nn.Module):
    """Layers whose backward pass joins two gradients: a product is taken apart, and one half gates the other."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.ModuleList(torch.nn.Linear(64, 512, bias=False) for _ in range(6))
        self.down = torch.nn.ModuleList(torch.nn.Linear(256, 64, bias=False) for _ in range(6))

    def forward(self, x):
        for up, down in zip(self.up, self.down):
            gate, value = up(x).chunk(2, dim=-1)
            x = x + down(F.silu(gate) * value)
        return x


@pytest.mark.parametrize("apply", ["schedule", "sets"])
def test_what_a_compiled_network_joins_is_not_there_from_its_first_part_on(apply):
    net, x = _Gated(), torch.randn(2048, 64)
    step = rematplan.compile(lambda x: net(x).square().mean(), budget="40%", cost="flops", seconds=SECONDS, apply=apply)
    plan, executed = peaks_of(net, step, x)
    assert executed <= plan.budget_bytes, (executed, plan.peak_bytes, plan.budget_bytes)


def test_what_is_done_long_before_it_is_read_does_not_pull_its_readers_forward(monkeypatch):
    """Which tokens an embedding's gradient leaves out may be found at once. Inductor would put the gradient in the same place, and
    all that it needs, but the gradients of weights, which would wait and keep their operands."""
    solve, moved = planner.solve, []

    def early(instance, *rest):
        solution, kept = solve(instance, *rest), {entry["id"] for entry in instance["tensors"] if entry["kind"] == "input"}
        operators = {entry["id"]: entry for entry in instance["operators"]}
        cut = next(place for place, operator in enumerate(solution.operators) if operators[operator]["op_type"] == "cut") + 1
        after = solution.operators[cut:]
        moved.extend(operator for operator in after if kept.issuperset(inputs := operators[operator]["inputs"]) and inputs)
        return replace(solution, operators=[*solution.operators[:cut], *moved, *(o for o in after if o not in moved)])

    monkeypatch.setattr(planner, "solve", early)
    net, (tokens,), loss = transformer(batch=8, vocabulary=4097)
    step = rematplan.compile(lambda x: loss(net(x)), budget="90%", cost="flops", seconds=SECONDS)
    plan, executed = peaks_of(net, step, tokens)
    assert moved
    assert executed <= plan.budget_bytes * 1.01, (executed, plan.peak_bytes, plan.budget_bytes)


def test_compiled_dropout_repeats_its_numbers_from_the_seed():
    """With dropout of everything but a seed, an iteration is the same every time it is seeded the same."""
    net, inputs, loss = transformer(dropout=0.3)
    step = rematplan.compile(net, budget="75%", cost="flops", seconds=SECONDS)
    stock = torch.compile(copy.deepcopy(net))
    found = iteration(net, inputs, loss, step)
    assert step._rematplan.plans[0].runs_again, step._rematplan.plans[0]
    expected = iteration(stock._orig_mod, inputs, loss, stock)
    assert worst(expected, found) < 1e-5


class _Average(nn.Module):
    """Scales by a buffer, a copy of which the backward pass reads, and then writes to it."""

    def __init__(self):
        super().__init__()
        self.first, self.rest = nn.Linear(64, 64), mlp(depth=4)[0]
        self.register_buffer("scale", torch.full((64,), 1.5))

    def forward(self, x):
        h = torch.tanh(self.first(x)) * self.scale.clone()
        with torch.no_grad():
            self.scale.mul_(0.5).add_(h.mean(0))
        return self.rest(h)


@pytest.mark.parametrize(("apply", "budget"), [("schedule", "85%"), ("sets", "90%"), ("schedule", "5%")])
def test_what_the_backward_pass_reads_of_an_overwritten_buffer_is_kept(apply, budget):
    net, inputs, loss = _Average(), (torch.randn(256, 64),), lambda y: y.square().mean()
    step = rematplan.compile(net, budget=budget, cost="flops", seconds=SECONDS, apply=apply)
    with warnings.catch_warnings():  # 5 % are too little: PyTorch's own partitioner
        warnings.simplefilter("ignore", PlanWarning)
        found = iteration(net, inputs, loss, step)
    assert worst(iteration(net, inputs, loss), found) < 1e-5
    assert step._rematplan.plans[0].status == ("stock" if budget == "5%" else "planned")


@torch.library.custom_op("rematplan_tests::noise", mutates_args=())
def noise(x: torch.Tensor) -> torch.Tensor:
    return torch.rand_like(x)


noise.register_fake(torch.empty_like)


class _Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) * noise(x.detach())
        return x


def test_operators_of_the_user_are_not_repeated():
    (plan,) = check_bits(_Noisy(), (torch.randn(256, 64),), lambda y: y.square().mean(), budget="80%")
    assert not any("noise" in name for name in plan.again)


class _Branches(nn.Module):
    """Draws in another order than the one in which a schedule would like to run the branches."""

    def __init__(self, own):
        super().__init__()
        self.first, self.last, self.own = nn.ModuleList(nn.Linear(64, 512) for _ in range(4)), nn.Linear(512, 16), own

    def forward(self, x):
        p, q, r, s = (torch.tanh(layer(x)) for layer in self.first)
        q, p, s, r = (t * noise(t.detach()) if self.own else F.dropout(t, 0.3) for t in (q, p, s, r))
        return self.last(p) + self.last(q) * self.last(r) * self.last(s)


@pytest.mark.parametrize("own", [False, True])
def test_a_plan_draws_random_numbers_in_the_order_of_the_network(own):
    for budget in ("90%", "80%", "70%"):
        torch._dynamo.reset()
        check_bits(_Branches(own), (torch.randn(256, 64),), lambda y: y.square().mean(), budget=budget)


class _DrawsForBackward(torch.autograd.Function):
    """Rounds gradients at random, by numbers that it draws in the forward pass."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(torch.rand_like(x))
        return x * 1

    @staticmethod
    def backward(context, gradient):
        return gradient * context.saved_tensors[0]


class _Rounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(5))

    def forward(self, x):
        for layer in self.layers:
            x = F.dropout(_DrawsForBackward.apply(torch.tanh(layer(x))), 0.3)
        return x


def test_numbers_for_the_backward_pass_are_drawn_in_the_forward_pass():
    check_bits(_Rounded(), (torch.randn(256, 64),), lambda y: y.square().mean(), budget="90%")


class _Attending(nn.Module):
    """Attention of one operator, with tanh between."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.layers, self.dropout = nn.ModuleList(nn.Linear(32, 96) for _ in range(5)), dropout

    def forward(self, x):
        for layer in self.layers:
            q, k, v = layer(torch.tanh(x)).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
            x = x + F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout).transpose(1, 2).flatten(2)
        return x


@pytest.mark.parametrize("apply", ["schedule", "sets"])
def test_attention_without_dropout_runs_again(apply):
    (plan,) = check_bits(_Attending(), (torch.randn(4, 32, 32),), lambda y: y.square().mean(), budget="70%", apply=apply)
    assert any("attention" in name for name in plan.again), plan.again


class _TwoGraphs(nn.Module):
    """The first one has a plan, and the second one, which is compiled before the first's backward pass, has none."""

    def __init__(self):
        super().__init__()
        self.body, self.head = mlp(depth=4)[0], nn.Linear(64, 2048)

    def forward(self, x):
        x = self.body(x)
        torch._dynamo.graph_break()
        return self.head(x[:2])


def test_each_backward_pass_is_compiled_by_the_plan_of_its_forward_pass_and_evaluation_by_none(monkeypatch):
    from torch._inductor import compile_fx, config

    real, reused = compile_fx.compile_fx_inner, []

    def noted(*arguments, **keywords):
        kind = "evaluation" if keywords.get("is_inference") else "backward" if keywords.get("is_backward") else "forward"
        reused.append((kind, config.allow_buffer_reuse))
        return real(*arguments, **keywords)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", noted)
    net, x = _TwoGraphs(), torch.randn(256, 64)
    step = rematplan.compile(net, budget="80%", cost="flops", seconds=SECONDS)
    with pytest.warns(PlanWarning, match="no plan for graph 2"):
        iteration(net, (x,), lambda y: y.square().mean(), step)
    assert [plan.status for plan in step._rematplan.plans] == ["planned", "stock"]
    assert reused == [("forward", False), ("forward", True), ("backward", True), ("backward", False)]
    with torch.no_grad():
        rematplan.compile(net, budget="80%", cost="flops", seconds=SECONDS)(x)
        step(x)
    assert {kind for kind, _ in reused[4:]} == {"evaluation"} and all(reuse for _, reuse in reused[4:])


def test_a_module_that_is_compiled_twice_keeps_both_plans_and_can_be_copied_and_saved():
    net, inputs, loss = mlp()
    steps = [planned(net, budget=budget) for budget in ("90%", "80%")]
    for step in steps:
        torch._dynamo.reset()
        iteration(net, inputs, loss, step)
    assert "_rematplan" not in vars(net)
    first, second = (plans_of(step) for step in steps)
    assert len(first) == len(second) == 1 and first[0].budget_bytes > second[0].budget_bytes
    copy.deepcopy(net)
    torch.save(net, io.BytesIO())


class _Written(nn.Module):
    """Reads a buffer and an input, and then writes to both."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(5))
        self.register_buffer("scale", torch.ones(64))

    def forward(self, x, state):
        for layer in self.layers:
            x = torch.tanh(layer(x)) + self.scale + state
        with torch.no_grad():
            self.scale.mul_(0.9).add_(x.mean(0), alpha=0.1)
            state.mul_(0.5).add_(x.mean(0))
        return x


def test_inputs_and_buffers_may_be_read_and_then_written():
    net, x, states = _Written(), torch.randn(256, 64), [torch.ones(64), torch.ones(64)]
    step = planned(net, budget="80%")
    expected, found = (iteration(net, (x, state), lambda y: y.square().mean(), call) for state, call in zip(states, (None, step)))
    assert bit_equal(expected, found) == [] and torch.equal(*states)
    assert step._rematplan.plans[0].status == "planned"


class _Checkpointed(nn.Module):
    """Blocks with dropout that recompute themselves."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 64), nn.GELU()) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


@pytest.mark.parametrize("apply", ["schedule", "sets"])
def test_plans_take_the_place_of_the_checkpoints_of_the_user(apply):
    check_bits(_Checkpointed(), (torch.randn(256, 64),), lambda y: y.square().mean(), budget="85%", apply=apply)


def test_the_stock_partitioner_knows_nothing_of_a_set_that_could_not_be_applied(monkeypatch):
    real, tags = partition.min_cut_rematerialization_partition, []

    def failing_once(module, *arguments, **keywords):
        tags.append({node.meta["recompute"] for node in module.graph.nodes if "recompute" in node.meta})
        if len(tags) == 1:
            raise RuntimeError("no cut")
        return real(module, *arguments, **keywords)

    monkeypatch.setattr(partition, "min_cut_rematerialization_partition", failing_once)
    net, inputs, loss = mlp()
    with pytest.warns(PlanWarning, match="internal error, RuntimeError: no cut"):
        found = iteration(net, inputs, loss, planned(net, apply="sets"))
    assert bit_equal(iteration(net, inputs, loss), found) == []
    assert tags[0] and not tags[1]


# Plans and refusals.

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
            {"operators": "abc"}, {"operators": [[1]]}, {"operators": good["operators"][::-1]}, {"operators": good["operators"] * 2},
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
    with pytest.warns(PlanWarning, match="PyTorch's own partitioner takes it: no plan within"):
        found = iteration(net, inputs, loss, step)
    assert bit_equal(iteration(net, inputs, loss), found) == []
    assert "PyTorch's own partitioner" in rematplan.explain(step)


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
        with pytest.warns(PlanWarning, match="nothing is planned.*captured no graph"):
            step(x).sum().backward()
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
    net = _Average()
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
                         ({"budget": "0.5"}, "bad budget"), ({"backend": "tpu"}, "unknown backend"),
                         *(({"seconds": seconds}, "needs time") for seconds in (0, float("inf"), 1e9, "5"))):
        with pytest.raises(PlanError, match=words):
            planned(mlp()[0], **wrong)


def test_a_graph_that_communicates_is_refused_with_the_reason():
    graph = torch.fx.Graph()
    x = graph.placeholder("primals_1")
    gathered = graph.call_function(torch.ops._c10d_functional.all_gather_into_tensor.default, (x, 2, "0"))
    graph.output((gathered,))
    with pytest.raises(rematplan.Refused, match=r"communicates \(_c10d_functional::all_gather_into_tensor\).*FSDP"):
        Joint(torch.fx.GraphModule({}, graph), 1, ())


def test_measured_costs_make_a_plan_too():
    check_bits(*mlp(depth=4), budget="80%", cost="measured")


def test_data_parallel_training_plans_each_of_its_graphs(tmp_path):
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        net, inputs, loss = transformer(d=128, layers=4, batch=8)  # a bucket is a megabyte at least
        parallel = nn.parallel.DistributedDataParallel(copy.deepcopy(net), bucket_cap_mb=1)
        step = planned(parallel, budget="90%")
        with warnings.catch_warnings():  # the last graph is nearly all parameters: no plan for it
            warnings.simplefilter("ignore", PlanWarning)
            found = iteration(parallel, inputs, loss, step)
        expected = {("module." + n if n != "loss" else n): t for n, t in iteration(net, inputs, loss).items()}
        assert bit_equal(expected, found) == []
        plans = step._rematplan.plans
        assert len(plans) > 1 and any(plan.runs_again for plan in plans)
    finally:
        distributed.destroy_process_group()


class _Masked(nn.Module):
    """Attention that is given a mask by name, as Hugging Face's models do."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 96) for _ in range(3))

    def forward(self, x, mask):
        for layer in self.layers:
            q, k, v = layer(x).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
            x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        return x


def test_attention_with_a_mask_is_planned():
    net, x, mask = _Masked(), torch.randn(2, 16, 32), torch.zeros(16, 16).masked_fill(torch.ones(16, 16).triu(1).bool(), -1e4)
    plan = rematplan.plan(net, (x, mask), loss=lambda y: y.square().mean(), budget="100%", seconds=SECONDS)
    assert plan.graph.status == "kept" and "attention" in str(plan.graph.instance["operators"])
