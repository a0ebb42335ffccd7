"""Compiled training with a plan comes to what plain training comes to, within the budget."""

import copy
import re
import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import rematplan
from rematplan import PlanWarning, networks, partition, planner

from .planning import SECONDS, Average, Observed, bit_equal, check_bits, iteration, mlp, planned, residual, transformer, worst

pytestmark = pytest.mark.usefixtures("planner")


@pytest.mark.parametrize("apply", ["schedule", "sets"])
@pytest.mark.parametrize("network", [mlp, transformer, residual])
def test_gradients_and_buffers_are_those_of_plain_training_to_the_bit(network, apply):
    check_bits(*network(), apply=apply, budget="80%")


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


class Related(nn.Module):
    """Relates all pairs of features, which inductor leaves to a library with much scratch memory."""

    def __init__(self):
        super().__init__()
        self.body, self.head = mlp()[0], nn.Bilinear(64, 64, 4)

    def forward(self, x):
        return self.head(self.body(x), x)


@pytest.mark.parametrize("backend", ["inductor", "eager"])
def test_scratch_memory_of_every_library_call_counts(backend):
    """A plan for 2.3 MB had taken 18.8."""
    net, x = Related(), torch.randn(1024, 64)
    step = rematplan.compile(lambda x: net(x).square().mean(), budget="95%", seconds=SECONDS, backend=backend)

    def once():
        net.zero_grad(set_to_none=True)
        step(x).backward()

    taken = rematplan.executed(once, samples=1, before=lambda: net.zero_grad(set_to_none=True)).peak_bytes
    plan, = step._rematplan.plans
    assert plan.plain_peak_bytes > 10e6 and taken + plan.fixed_bytes + x.nbytes <= 1.001 * plan.budget_bytes


def test_measuring_scratch_memory_draws_no_numbers_of_the_callers(tmp_path, monkeypatch):
    monkeypatch.setenv("REMATPLAN_CACHE", str(tmp_path))
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    torch.manual_seed(0)
    expected = net(torch.ones(4, 8))
    torch.manual_seed(0)
    assert torch.equal(planned(net, budget="100%")(torch.ones(4, 8)), expected)


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


@pytest.mark.parametrize(("apply", "budget"), [("schedule", "85%"), ("sets", "90%"), ("schedule", "5%")])
def test_what_the_backward_pass_reads_of_an_overwritten_buffer_is_kept(apply, budget):
    net, inputs, loss = Average(), (torch.randn(256, 64),), lambda y: y.square().mean()
    step = rematplan.compile(net, budget=budget, cost="flops", seconds=SECONDS, apply=apply)
    with warnings.catch_warnings():  # 5 % are too little: PyTorch's own partitioner
        warnings.simplefilter("ignore", PlanWarning)
        found = iteration(net, inputs, loss, step)
    assert worst(iteration(net, inputs, loss), found) < 1e-5
    assert step._rematplan.plans[0].status == ("stock" if budget == "5%" else "planned")


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(("apply", "budget"), [("schedule", "85%"), ("sets", "95%"), ("schedule", "5%")])
def test_what_the_backward_pass_alone_reads_of_an_overwritten_buffer_is_found_before(backend, apply, budget):
    net, inputs, loss = Observed(), (torch.randn(256, 64),), lambda y: y.square().mean()
    step = planned(net, budget=budget, apply=apply, backend=backend)
    with warnings.catch_warnings():  # 5 % are too little: PyTorch's own partitioner
        warnings.simplefilter("ignore", PlanWarning)
        found = iteration(net, inputs, loss, step)
    assert worst(iteration(net, inputs, loss), found) < 1e-5
    assert step._rematplan.plans[0].status == ("stock" if budget == "5%" else "planned")


class _Inverting(nn.Module):
    """Solves a linear system, which checks for errors as an effect."""

    def __init__(self):
        super().__init__()
        self.body = mlp(depth=2)[0]

    def forward(self, x):
        h = self.body(x)
        return torch.linalg.solve(h.T @ h + torch.eye(64), h.T)


@pytest.mark.parametrize("apply", ["schedule", "sets"])
def test_a_graph_with_effects_goes_to_pytorchs_partitioner(apply):
    """Inductor had failed in an assertion of its own, and sets in eager mode, too."""
    net, inputs, loss = _Inverting(), (torch.randn(256, 64),), lambda y: y.square().mean()
    backend = "inductor" if apply == "schedule" else "eager"
    step = planned(net, apply=apply, backend=backend)
    with pytest.warns(PlanWarning, match="_linalg_check_errors.*has an effect besides its result"):
        found = iteration(net, inputs, loss, step)
    assert worst(iteration(net, inputs, loss), found) < 1e-4


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
