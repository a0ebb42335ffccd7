"""Every implementation that an instance can offer runs, and comes to the framework's gradients."""

import pytest
import torch
from torch import nn

from remat_profiler.alternatives.attach import attach
from remat_profiler.costs import cost_source
from remat_profiler.instance import Header, document
from remat_profiler.job import Job, traced_with
from remat_profiler.replay import job, reference
from remat_profiler.replay.machine import Account, Machine
from remat_profiler.replay.once import store_all
from remat_profiler.replay.plan import plan
from remat_profiler.replay.preferring import families


def network():
    """What each alternative wants: ReLU before a convolution and before a pool, hardtanh, batch norm, dropout.

    Large enough that Gist encodes: its smallest tensor has 64 KiB."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 1, stride=2), nn.ReLU6(),
        nn.Dropout(0.25), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )


def made_of(build, wanted):
    trace, costs = traced_with(wanted, build), cost_source(wanted.device, 1)
    made = document(Header("all", wanted.model, wanted.batch, wanted.shape, wanted.command), trace, costs)
    attach(made, trace, costs, wanted.alternatives, wanted.gist)
    return made


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "split"])
def bench(request):
    torch.set_num_threads(1)
    wanted = Job("python:tests:network", 4, (3, 32, 32), "model:v100", "cpu", alternatives=True, gist=True,
                 split_convolution_backward=request.param, split_batch_norm=request.param)
    return job.bench(made_of(network, wanted), job.Settings(repeats=1), network)


def run(bench, schedule):
    chosen = plan(bench.instance, schedule)
    machine, account = Machine(chosen, bench.trace, bench.module, bench.device), Account()
    outcome = bench.outcome(lambda: machine.run(bench.inputs, account))
    return reference.compare(bench.expected, outcome, job.tolerance_of(chosen)), account, machine


FAMILIES = [
    ["relu:saving-mask", "relu:from-mask"], ["relu:in-place"], ["relu:saving-mask-in-place", "relu:from-mask"],
    ["relu:from-input"], ["hardtanh:in-place", "hardtanh:from-output"], ["hardtanh:saving-mask", "hardtanh:from-mask"],
    ["max-pool:kernel-index", "max-pool:from-kernel-index"], ["batch-norm:from-output"], ["dropout:in-place"],
    ["gist:binarize"], ["gist:ssdc"], ["gist:dpr-fp16"],
]


@pytest.mark.parametrize("preferred", FAMILIES, ids=lambda names: names[0].replace(":", "-"))
def test_an_alternative_comes_to_the_frameworks_gradients(bench, preferred):
    schedule = store_all(bench.instance, preferred)
    used = {step["implementation"] for step in schedule["steps"] if "implementation" in step}
    assert used >= set(preferred), (used, "the network offers them all")
    compared, account, _ = run(bench, schedule)
    assert compared.equal, (compared.beyond[:3], compared.missing[:3])
    exact = used <= {"default", "relu:saving-mask", "relu:from-mask", "relu:in-place", "relu:saving-mask-in-place",
                     "relu:from-input", "hardtanh:saving-mask", "hardtanh:from-mask", "max-pool:kernel-index",
                     "max-pool:from-kernel-index", "gist:binarize", "gist:ssdc", "dropout:in-place"}
    split = any("normalise" in op["op_type"] for op in bench.instance["operators"])
    if exact and not split:
        assert not compared.within, (compared.within[:3], "to the bit")
    if preferred == ["gist:dpr-fp16"]:
        assert compared.worst.relative > 1e-6, "it is lossy: a difference must be seen"
    # The sizes of compressed rows depend on the data; all others are the instance's.
    assert all(name.endswith(".csr") for name in account.odd_sizes), account.odd_sizes


def test_families_are_what_is_chosen_together(bench):
    found = families(bench.instance)
    assert set() == {tuple(names) for names in FAMILIES if len(names) == 1 and "gist" not in names[0]} - set(found), found
    assert ("relu:saving-mask", "relu:from-mask") in found and ("relu:saving-mask-in-place", "relu:from-mask") in found
    assert all(len(family) == len(set(family)) for family in found)


def test_a_mask_that_is_wrong_is_seen(bench, monkeypatch):
    from remat_profiler.alternatives import activations

    monkeypatch.setattr(activations, "from_mask", lambda grad, mask: grad)
    compared, _, _ = run(bench, store_all(bench.instance, ["relu:saving-mask", "relu:from-mask"]))
    assert not compared.equal


def test_an_algorithm_of_cudnn_runs_the_frameworks_choice_and_says_so(bench):
    instance = bench.instance
    operator = next(op for op in instance["operators"] if op["op_type"] == "aten.convolution")
    operator["implementations"].append({"name": "cudnn:FFT", "time": 1})
    schedule = store_all(instance, ["cudnn:FFT"])
    compared, _, machine = run(bench, schedule)
    operator["implementations"].pop()
    assert compared.equal and any("PyTorch lets nobody name the algorithm" in note for note in machine.notes)
