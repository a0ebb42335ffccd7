"""Modelled and measured costs."""

import dataclasses
import gc
import weakref

import pytest
import torch

from remat_profiler.costs import cost_source, devices, measure, roofline
from remat_profiler.costs.work import Work, work_of
from remat_profiler.errors import ProfilerError
from remat_profiler.job import Job, traced_with

from .conftest import document_of, trace_of

# Table 2 of Rotor's ToMS paper (2024), V100: u_f and u_b of the six linear layers, in ms.
TABLE2 = ((1.60, 3.05), (2.20, 4.48), (2.44, 5.09), (2.51, 4.93), (2.10, 4.21), (1.43, 3.34))


def modelled_ms(trace, key):
    gpu = devices.preset(key)
    return {op.name: roofline.seconds(work_of(op.node), gpu) * 1e3 for op in trace.operators}


def test_table_2_of_rotor_is_met_within_what_the_readme_states():
    times = modelled_ms(trace_of("toy:rotor-table2", 1000, (2000,)), "v100")
    total = 0.0
    for layer, (forward, backward) in enumerate(TABLE2):
        # There the first layer differentiates its input too; here it need not.
        products = times[f"{layer}.backward.mm"] * 2 + times[f"{layer}.backward.sum"]
        assert times[str(layer)] == pytest.approx(forward, rel=0.09)
        assert products == pytest.approx(backward, rel=0.06)
        total += times[str(layer)] + products
    assert total == pytest.approx(37.4, rel=0.02)


def test_resnet50_on_the_p100_is_met_within_what_the_readme_states(resnet50):
    """Sums over ResNet-50 at batch 184 as MONeT's authors measured them (ms)."""
    measured = {"convolution": 207.3, "convolution_backward": 511.6, "_native_batch_norm_legit_functional": 62.9,
                "native_batch_norm_backward": 102.9, "threshold_backward": 41.4}
    times = modelled_ms(resnet50, "p100")
    for kind, expected in measured.items():
        total = sum(times[op.name] for op in resnet50.operators if op.node.target._schema.name == f"aten::{kind}")
        assert total == pytest.approx(expected, rel=0.04), kind


def test_convolutions_of_vgg16_on_the_p100_to_which_they_were_not_fitted_are_met_within_3_percent():
    """Sums over VGG-16 at batch 176 as MONeT's authors measured them (ms)."""
    trace = trace_of("torchvision:vgg16", 176, (3, 224, 224))
    times = modelled_ms(trace, "p100")
    for kind, expected in {"convolution": 703.9, "convolution_backward": 1500.9}.items():
        total = sum(times[op.name] for op in trace.operators if op.node.target._schema.name == f"aten::{kind}")
        assert total == pytest.approx(expected, rel=0.03), kind


def test_the_roofline_is_monotonic_in_work_and_in_the_batch(resnet18):
    gpu = devices.preset("v100")
    for kind in gpu.efficiencies:
        small = Work(kind, 1e9, 1e6, 1, 64)
        for more in (dataclasses.replace(small, flops=2e9), dataclasses.replace(small, bytes=1e9),
                     dataclasses.replace(small, launches=2)):
            assert roofline.seconds(more, gpu) >= roofline.seconds(small, gpu)
    larger = modelled_ms(trace_of("torchvision:resnet18", 4, (3, 64, 64)), "v100")
    for name, time in modelled_ms(resnet18, "v100").items():
        assert 0 < time <= larger[name]


def test_every_preset_costs_every_operator_and_says_modelled(resnet18):
    for key in devices.PRESETS:
        made = document_of(resnet18, f"model:{key}")
        assert made["provenance"]["times"]["kind"] == made["provenance"]["workspaces"]["kind"] == "modelled"
        assert all(op["implementations"][0]["time"] > 0 for op in made["operators"])


def test_flops_are_counted_as_in_textbooks(resnet50):
    forward = sum(work_of(op.node).flops for op in resnet50.operators if op.phase == "forward")
    assert forward / 2 / 184 == pytest.approx(4.089e9, rel=0.001)


def test_measured_cpu_costs_have_times_spread_and_labels(small):
    made = document_of(small, "cpu")
    assert made["provenance"]["times"] == {"kind": "measured", "samples": 3, "statistic": "median"}
    for operator in made["operators"]:
        implementation = operator["implementations"][0]
        assert implementation["time"] > 0 and implementation["spread"] >= 0
    assert made["provenance"]["workspaces"] == made["provenance"]["times"]
    assert any("peak of PyTorch's allocator" in note for note in made["provenance"]["notes"])


def test_scratch_memory_of_a_cpu_operator_is_what_it_takes_besides_its_result():
    x = torch.ones(1000)

    def call():
        first = torch.add(x, x)
        return torch.mul(first, first)

    assert measure.cpu_allocations(call) == (8000, 4000)
    assert measure.cpu_allocations(lambda: torch.add(x, x)) == (4000, 4000)


def test_what_an_earlier_call_left_does_not_lower_the_peak_when_it_is_freed():
    left = []
    measure.cpu_allocations(lambda: left.append(torch.empty(500)))

    def call():
        left.clear()
        return torch.empty(1000)

    assert measure.cpu_allocations(call) == (4000, 4000)


def test_operands_of_a_measured_operator_go_with_it_and_not_while_the_next_one_is_measured(resnet18):
    made = []
    original = measure._Spec.make

    def kept(self, *arguments):
        made.append(weakref.ref(tensor := original(self, *arguments)))
        return tensor

    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measure._Spec, "make", kept)
            call = measure.call_of(next(op.node for op in resnet18.operators if op.name == "relu"), torch.device("cpu"))
        assert call().shape == made[0]().shape
        del call
        assert all(reference() is None for reference in made)
    finally:
        gc.enable()


def test_measuring_leaves_random_numbers_as_the_caller_has_them(small):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    cost_source("cpu", 1).cost(small.operators[0].node)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_tf32_is_off_while_a_gpu_is_measured_and_afterwards_as_the_caller_has_it(precision):
    def switches():
        newer = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
        return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision(), *(part.fp32_precision for part in newer)

    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        before = switches()
        with measure._without_tf32():
            assert not torch.backends.cudnn.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32
        assert switches() == before
    finally:
        torch.set_float32_matmul_precision(usual)


def test_identical_operators_are_measured_once(resnet18):
    source = measure.Measured("cpu", 1)
    calls = []
    source._measure = lambda node: calls.append(node) or roofline.Cost(1)
    for operator in resnet18.operators:
        source.cost(operator.node)
    assert len({measure._key(op.node) for op in resnet18.operators}) == len(calls) < len(resnet18.operators)


def test_measured_resnet18_runs_every_kind_of_operator(resnet18):
    source = cost_source("cpu", 1)
    assert all(source.cost(op.node).time_ns > 0 for op in resnet18.operators)


def test_the_interquartile_range_is_that_of_the_samples():
    assert measure.interquartile_range([1.0, 2.0, 3.0, 4.0, 5.0]) == 2.0
    assert measure.interquartile_range([1.0]) == 0.0


@pytest.mark.parametrize("device", ["gpu", "model:", "model:rtx", "v100", ""])
def test_unknown_devices_are_named(device):
    with pytest.raises(ProfilerError, match="unknown"):
        cost_source(device, 1)


@pytest.mark.parametrize("draw", [torch.bernoulli, torch.poisson, lambda p: torch.normal(p, p), lambda p: torch.multinomial(p, 4)])
def test_random_operators_are_measured_with_probabilities(draw):
    class Drawing(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * draw(x.detach().sigmoid())

    made = document_of(traced_with(Job("python:drawing", 4, (4,), "cpu", "cpu"), lambda: Drawing(4, 4)), "cpu", repeats=1)
    assert [op["random"] for op in made["operators"] if op.get("random")] == [True]
