"""PyTorch's own ways: their records, and that `sequential` is what checkpoint_sequential does."""

import json
import subprocess

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from remat_profiler import instance as files
from remat_profiler.capture import training_loss
from remat_profiler.costs import cost_source
from remat_profiler.errors import ProfilerError
from remat_profiler.instance import Header, document
from remat_profiler.job import Job, traced_with
from remat_profiler.replay import baselines, job, plan
from remat_profiler.replay.machine import Account, Machine
from remat_profiler.replay.plan import Compute

from .replaying import JOBS, SETTINGS, bench_of, document_of, required_bench

BLOCKS, WIDTHS = 7, (24, 40, 32, 48, 16, 40, 24, 32)


def network():
    """As many blocks as the chain view has stages below the loss, each of another size."""
    return nn.Sequential(*[nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in zip(WIDTHS, WIDTHS[1:])])


@pytest.fixture(scope="module")
def bench():
    torch.set_num_threads(1)
    wanted = Job("python:tests:network", 256, (WIDTHS[0],), "model:v100", "cpu")
    made = document(Header("mlp", wanted.model, wanted.batch, wanted.shape, wanted.command), traced_with(wanted, network),
                    cost_source(wanted.device, 1))
    return job.bench(made, SETTINGS, network)


class Watch(TorchDispatchMode):
    """Counts the products of each weight in forward direction, and knows which storages are alive."""

    def __init__(self, module):
        super().__init__()
        weights = [block[0].weight for block in module]
        self.block_of = {weight.untyped_storage().data_ptr(): index for index, weight in enumerate(weights)}
        self.runs = [0] * len(weights)
        self.made = {}

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        if function is torch.ops.aten.addmm.default:
            self.runs[self.block_of[arguments[2].untyped_storage().data_ptr()]] += 1
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self.made[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        return made

    def alive(self, module, inputs):
        """Bytes of storages that the iteration made and that are still there."""
        others = {tensor.untyped_storage()._cdata for tensor in [*module.parameters(), *inputs]}
        return sum(size for key, (reference, size) in self.made.items() if key not in others and not reference.expired())


@pytest.mark.parametrize("segments", range(2, BLOCKS + 1))
def test_sequential_is_what_checkpoint_sequential_does(bench, segments, tmp_path):
    binary = required_bench()
    files.write(bench.instance, tmp_path / "mlp.json")
    command = [binary, "solve", tmp_path / "mlp.json", "--method", f"sequential[segments={segments}]", "-o", tmp_path / "s.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    chosen = plan.plan(bench.instance, json.loads((tmp_path / "s.json").read_text()))
    runs = plan.expectation(chosen).runs
    products = [op["id"] for op in bench.instance["operators"] if op["op_type"] == "aten.addmm"]
    ours = [runs[id] for id in products]

    bench.fresh()
    watch = Watch(bench.module)
    module = baselines.checkpointed(bench.module, segments)
    with watch:
        loss = training_loss(module, *bench.inputs)
        kept = watch.alive(bench.module, bench.inputs)
        loss.backward()
    assert watch.runs == ours, "each block runs as often"
    assert ours.count(2) == BLOCKS // segments * (segments - 1)
    assert kept == ours_between(bench, chosen), "and the same bytes are kept from the forward to the backward pass"


def ours_between(bench, chosen):
    """Storages of the schedule after the last step of the forward pass and what it frees, inputs left out."""
    operators = {op["id"]: op for op in bench.instance["operators"]}
    first = next(i for i, step in enumerate(chosen.steps)
                 if isinstance(step, Compute) and operators[step.operator]["phase"] == "backward")
    machine, account = Machine(chosen, bench.trace, bench.module, bench.device), Account()
    machine.run(bench.inputs, account)
    made = bench.instance["operators"][chosen.steps[first].operator]["outputs"]
    outputs = sum(bench.instance["tensors"][id]["bytes"] for id in made)
    return account.timeline[first] - outputs - bench.resident_bytes


@pytest.mark.parametrize("text", ["plain", "checkpoint-sequential[segments=3]"])
def test_a_baseline_is_measured_and_equal(bench, text):
    record = baselines.measured(bench, text)
    assert record["equality"]["equal"] and record["method"] == f"pytorch:{text}"
    assert record["memory"]["allocated_peak_bytes"] > record["memory"]["before_bytes"] and record["time_ns"]["median"] > 0


def test_checkpointing_takes_less_memory_than_plain(bench):
    plain, segmented = (baselines.measured(bench, text)["memory"]["allocated_peak_bytes"]
                        for text in ("plain", "checkpoint-sequential[segments=3]"))
    assert segmented < plain


def test_statistics_that_pytorch_updates_twice_show():
    made = bench_of(document_of("chain", JOBS["chain"]))
    record = baselines.measured(made, "checkpoint-sequential[segments=4]")
    assert not record["equality"]["equal"] and "once more" in record["notes"][0]
    assert all(entry["name"].startswith("buffer ") for entry in record["equality"]["different"])


def test_torch_compile_with_a_budget_is_measured(bench):
    record = baselines.measured(bench, "compile[budget=0.3,backend=aot_eager_decomp_partition]")
    assert record["equality"]["equal"], record["equality"]
    assert torch._functorch.config.activation_memory_budget == 1.0


@pytest.mark.parametrize("text,expected", [
    ("nothing", "unknown baseline"), ("plain[a=1]", "has no option 'a'"), ("checkpoint-sequential[segments=9]", "expected 1 to 7"),
    ("compile[budget=2,backend=eager]", "fraction from 0 to 1"),
])
def test_baselines_that_make_no_sense_are_refused(bench, text, expected):
    with pytest.raises(ProfilerError, match=expected):
        baselines.measured(bench, text)


def test_a_network_that_is_no_sequence_has_no_checkpoint_sequential():
    made = bench_of(document_of("unet-skip", JOBS["unet-skip"]))
    with pytest.raises(ProfilerError, match="needs an nn.Sequential"):
        baselines.measured(made, "checkpoint-sequential[segments=2]")
