"""Products that inductor pads on a GPU: planned without, where that saves more than it costs. On a CPU inductor is told to pad."""

import pytest
import torch
from torch._inductor import config
from torch._inductor.fx_passes import pad_mm
from torch.fx.experimental.proxy_tensor import make_fx

import rematplan
from rematplan import PlanError, costs
from rematplan.unpadded import Unpadded

from .planning import iteration, transformer, worst

SECONDS = 2


@pytest.fixture
def padding(monkeypatch):
    """As on a GPU, but always."""
    monkeypatch.setattr(pad_mm, "check_device", lambda *_: True)
    monkeypatch.setattr(pad_mm, "has_triton", lambda *_: True)
    with config.patch(force_shape_pad=True):
        yield


def language_model(vocabulary=4097):
    """Logits of 2 MB, in rows that are padded."""
    torch.manual_seed(0)
    return transformer(batch=8, t=16, vocabulary=vocabulary)


def planned(budget="100%"):
    net, inputs, loss = language_model()
    return rematplan.plan(net, inputs, loss=loss, budget=budget, cost="roofline", seconds=SECONDS)


def is_padded(plan):
    return any("constant_pad_nd" in operator["op_type"] for operator in plan.graph.instance["operators"])


def as_fast_as(monkeypatch, padded, plain):
    """Products take so long on this device, with rows that are multiples of four and without."""
    monkeypatch.setattr(costs, "_alone", lambda node, *_: plain if 4097 in tuple(node.meta["val"].shape) else padded)


@pytest.mark.usefixtures("planner", "padding")
def test_logits_whose_rows_inductor_pads_are_one_buffer_all_the_same(monkeypatch):
    as_fast_as(monkeypatch, 100, 100)
    net, inputs, loss = language_model()
    expected, logits = iteration(net, inputs, loss), 8 * 16 * 4097 * 4
    assert not is_padded(planned())
    tight = planned(2 * logits)
    assert len(tight.graph.parts) == 2 and tight.graph.peak_bytes - tight.graph.fixed_bytes < 2 * logits
    compiled = rematplan.compile(lambda *x: loss(net(*x)), budget=tight.graph.budget_bytes, seconds=SECONDS, fullgraph=True)
    assert worst(expected, iteration(net, inputs, lambda y: y, compiled)) < 1e-5
    replay = tight.replay()
    assert replay.planned.peak_bytes + tight.graph.fixed_bytes <= tight.graph.peak_bytes * 1.01 + 1e5
    assert replay.difference < 1e-5


@pytest.mark.usefixtures("planner", "padding")
def test_pads_stay_where_they_pay_and_go_where_nothing_else_fits(monkeypatch):
    as_fast_as(monkeypatch, 100, 10_000)
    narrow = 2 * 8 * 16 * 4097 * 4
    assert is_padded(planned()) and not is_padded(planned(narrow))
    monkeypatch.setattr(Unpadded, "of", lambda module: None)
    with pytest.raises(PlanError, match="no plan within"):
        planned(narrow)


def traced(call, *arguments):
    return make_fx(call, tracing_mode="fake")(*arguments)


@pytest.mark.parametrize("left, right", [((6, 7), (7, 9)), ((8, 7), (7, 8)), ((6, 8), (8, 12)), ((4, 8), (8, 9)), ((3, 6, 7), (3, 7, 9))])
def test_a_product_without_its_pads_is_the_product(left, right):
    a, b = torch.randn(left), torch.randn(right)
    more = [pad_mm.get_padded_length(size, 4) for size in (left[-2], left[-1], right[-1])]
    padded = traced(lambda x, y: (pad_mm.pad_bmm if len(left) == 3 else pad_mm.pad_mm)(x, y, *more).sin(), a, b)
    found = Unpadded.of(padded)
    assert found is not None and len(found.instead) == 1
    assert {str(node.target) for node in found.module.graph.nodes} & {"aten.constant_pad_nd.default"} == set()
    assert torch.allclose(found.module(a, b), (a @ b).sin(), atol=1e-6)
    (made, instead), = found.instead.items()
    assert made.meta["val"].shape == (*left[:-1], right[-1]) and instead in padded.graph.nodes


def test_pads_that_are_read_or_that_are_none_stay():
    a, b, bias = torch.randn(6, 7), torch.randn(7, 9), torch.randn(9)
    assert Unpadded.of(traced(lambda x, y: x @ y, a, b)) is None
    assert Unpadded.of(traced(lambda x, y: torch.constant_pad_nd(x, [0, 1]) @ torch.constant_pad_nd(y, [0, 0, 0, 1]).sin(), a, b)) is None
    assert Unpadded.of(traced(lambda x, y: torch.constant_pad_nd(x, [0, 0, 0, 2]) @ y, a, b)) is None  # all of its rows are read
    assert Unpadded.of(traced(lambda x, y: torch.constant_pad_nd(x, [0, 1], 1.0) @ torch.constant_pad_nd(y, [0, 0, 0, 1]), a, b)) is None
    assert Unpadded.of(traced(lambda z, x, y: pad_mm.pad_addmm(z, x, y, 0, 1, 3), bias, a, b)) is None  # a sum that is padded, too
    kept = Unpadded.of(traced(lambda z, x, y: pad_mm.pad_addmm(z, x, y, 2, 1, 0), bias, a, b))
    assert kept is not None and torch.allclose(kept.module(bias, a, b), torch.addmm(bias, a, b), atol=1e-6)
