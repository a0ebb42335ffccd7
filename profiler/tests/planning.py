"""What the tests of compiled training share: small networks, and one iteration of each from the same state."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

import rematplan

SECONDS = 2


def mlp(width=64, depth=8, batch=256):
    net = nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())])
    return net, (torch.randn(batch, width),), lambda y: y.square().mean()


class Block(nn.Module):
    """A transformer's, with dropout."""

    def __init__(self, d, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        a = (q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5).softmax(-1) @ v
        x = x + F.dropout(self.out(a.transpose(1, 2).reshape(b, t, d)), self.dropout, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.n2(x)))), self.dropout, self.training)


class Transformer(nn.Module):
    """Token embedding and head share a weight where they are tied."""

    def __init__(self, d=32, layers=3, heads=2, vocabulary=64, dropout=0.0, t=16, tied=False, breaks=False):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, d), nn.Embedding(t, d)
        self.blocks, self.norm = nn.ModuleList(Block(d, heads, dropout) for _ in range(layers)), nn.LayerNorm(d)
        self.head, self.breaks = nn.Linear(d, vocabulary, bias=False), breaks
        if tied:
            self.head.weight = self.token.weight

    def forward(self, x):
        h = self.token(x) + self.place.weight[: x.shape[1]]
        half = len(self.blocks) // 2
        for block in self.blocks[:half]:
            h = block(h)
        if self.breaks:
            torch._dynamo.graph_break()
        for block in self.blocks[half:]:
            h = block(h)
        return self.head(self.norm(h))


def transformer(batch=4, t=16, **options):
    tokens = torch.randint(0, 64, (batch, t))
    return Transformer(t=t, **options), (tokens,), lambda y: F.cross_entropy(y.flatten(0, 1), tokens.flatten())


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.n, self.m = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.m(self.b(F.relu(self.n(self.a(x))))))


def residual(batch=4, channels=8, size=12):
    net = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2),
                        *(Residual(channels) for _ in range(3)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5))
    return net, (torch.randn(batch, 3, size, size),), lambda y: F.cross_entropy(y, torch.arange(y.shape[0]) % 5)


def iteration(net, inputs, loss, call=None):
    """Loss, gradients and buffers after one iteration from the present state, which is restored."""
    state = copy.deepcopy(net.state_dict())
    net.zero_grad(set_to_none=True)
    torch.manual_seed(3)
    value = loss((net if call is None else call)(*inputs))
    value.backward()
    found = {"loss": value.detach().clone()} | {n: p.grad.clone() for n, p in net.named_parameters() if p.grad is not None}
    found |= {"buffer " + n: b.clone() for n, b in net.named_buffers()}
    net.load_state_dict(state)
    net.zero_grad(set_to_none=True)
    return found


def worst(expected, found):
    """The largest difference over the largest magnitude of a gradient; keys must agree."""
    assert expected.keys() == found.keys()
    top = max((t.abs().max().item() for t in expected.values() if t.is_floating_point()), default=1.0)
    return max((expected[n].double() - found[n].double()).abs().max().item() for n in expected) / top


def bit_equal(expected, found):
    """Names of what differs at all."""
    assert expected.keys() == found.keys()
    return [name for name in expected if not torch.equal(expected[name], found[name])]


class Average(nn.Module):
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


class _Scaled(torch.autograd.Function):
    """Lets gradients through by a scale; the backward pass alone reads how much, and a product."""

    @staticmethod
    def forward(ctx, x, scale, turn):
        ctx.save_for_backward(torch.sigmoid(scale.unsqueeze(0) - x.abs()), turn @ turn)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        through, turn = ctx.saved_tensors
        return (gradient * through) @ turn, None, None


class Observed(nn.Module):
    """Writes to two buffers of which the backward pass reads what was computed before."""

    def __init__(self):
        super().__init__()
        self.first, self.rest = mlp(depth=3)[0], mlp(depth=3)[0]
        self.register_buffer("scale", torch.full((64,), 0.1))
        self.register_buffer("turn", torch.randn(64, 64) / 8)

    def forward(self, x):
        h = self.first(x)
        passed = _Scaled.apply(h, self.scale, self.turn)
        with torch.no_grad():
            self.scale.mul_(0.5).add_(h.abs().amax(0))
            self.turn.mul_(0.5)
        return self.rest(passed)
