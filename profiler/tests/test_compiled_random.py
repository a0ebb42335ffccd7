"""Random numbers and attention under a plan: drawn as without one, and the same when they run again."""

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rematplan

from .planning import SECONDS, check_bits, iteration, transformer, worst

pytestmark = pytest.mark.usefixtures("planner")


@pytest.mark.parametrize("apply", ["schedule", "sets"])
def test_dropout_drops_the_same_elements_when_it_runs_again(apply):
    net, inputs, loss = transformer(dropout=0.3)
    check_bits(net, inputs, loss, apply=apply, budget="85%")


def test_compiled_dropout_repeats_its_numbers_from_the_seed():
    """With dropout of everything but a seed, an iteration is the same every time it is seeded the same: that of `torch.compile`, which
    draws other numbers than plain training."""
    net, inputs, loss = transformer(dropout=0.3)
    step = rematplan.compile(net, budget="75%", cost="flops", seconds=SECONDS)
    stock = torch.compile(copy.deepcopy(net))
    found = iteration(net, inputs, loss, step)
    assert step._rematplan.plans[0].runs_again, step._rematplan.plans[0]
    expected = iteration(stock._orig_mod, inputs, loss, stock)
    assert worst(expected, found) < 1e-5
    assert worst(iteration(net, inputs, loss), found) > 1e-3


class _Turned(nn.Module):
    """Drops in place, in the other order than that of the elements."""

    def __init__(self, drop):
        super().__init__()
        self.layers, self.drop = nn.ModuleList(nn.Linear(64, 64) for _ in range(4)), drop

    def forward(self, x):
        for layer in self.layers:
            x = self.drop(torch.tanh(layer(x)).transpose(1, 2) * 1).transpose(1, 2)
        return x


@pytest.mark.parametrize("drop", [partial(F.dropout, p=0.3, inplace=True), partial(F.alpha_dropout, p=0.3, training=True, inplace=True),
                                  partial(F.dropout, p=0.3), lambda x: x * torch.bernoulli(x.detach() * 0, 0.7)])
def test_what_is_drawn_in_place_comes_in_the_order_of_memory(drop):
    check_bits(_Turned(drop), (torch.randn(8, 32, 64),), lambda y: y.square().mean(), budget="85%")


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
