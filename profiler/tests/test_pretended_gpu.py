"""The lines that only a GPU reaches, on a pretended one: torch.cuda replaced by stand-ins, tensors that
are asked for on `cuda` made on the CPU, cuDNN by the stand-in library. It shows that the code holds
together, not that the numbers mean anything."""

import time
import types

import pytest
import torch

import rematplan
from remat_profiler import check, instance, job
from remat_profiler.cli import main
from remat_profiler.convolutions import FORWARD, cudnn, problem, table
from remat_profiler.replay.machine import Stamps
from rematplan import costs, partition
from rematplan.costs import Workspaces, handed_out
from rematplan.graph import Unit

from .test_cudnn import CONVOLUTION, fake  # noqa: F401  (a fixture)
from .test_harvest import write_jobs


class _Event:
    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


@pytest.fixture
def gpu(monkeypatch, fake):  # noqa: F811
    monkeypatch.setenv(cudnn.LIBRARY_VARIABLE, str(fake))
    there = {"gpu": True}
    traced = job.traced

    def traced_without(request):
        there["gpu"] = False
        try:
            return traced(request)
        finally:
            there["gpu"] = True

    monkeypatch.setattr(job, "traced", traced_without)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 90999)
    properties = types.SimpleNamespace(name="Pretended GPU", total_memory=2**34)
    stands = {
        "is_available": lambda: there["gpu"], "Event": _Event, "synchronize": lambda *_: None, "empty_cache": lambda: None,
        "current_stream": lambda: types.SimpleNamespace(cuda_stream=0), "reset_peak_memory_stats": lambda *_: None,
        "max_memory_allocated": lambda *_: 4096, "memory_allocated": lambda *_: 1024, "get_device_name": lambda *_: "Pretended GPU",
        "get_device_properties": lambda _device: properties, "current_device": lambda: 0,
        "get_rng_state": lambda _device: None, "set_rng_state": lambda _state, _device: None,
    }
    for name, stand in stands.items():
        monkeypatch.setattr(torch.cuda, name, stand)
    for name in ("empty", "empty_strided", "randn", "randint", "zeros", "full", "rand", "arange"):
        original = getattr(torch, name)

        def on_cpu(*arguments, _original=original, device=None, **options):
            return _original(*arguments, device="cpu" if device is not None and torch.device(device).type == "cuda" else device, **options)

        monkeypatch.setattr(torch, name, on_cpu)
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def test_convolutions_are_harvested_with_and_without_tf32(gpu, tmp_path, capsys):
    problem.write_list([CONVOLUTION], tmp_path / "list.csv")
    command = ["harvest", "convolutions", "--device", "cuda", "--from", str(tmp_path / "list.csv"), "--repeats", "3",
               "--dtypes", "float16", "-o", str(tmp_path / "cudnn.csv")]
    assert main(command) == 0, capsys.readouterr().out
    rows = table.read(tmp_path / "cudnn.csv")
    expected = {"torch:default", *cudnn.ALGORITHMS[FORWARD]}
    for math in ("fp32", "tf32", "fp16"):
        assert {row.algorithm for row in rows if row.math == math} == expected
    assert {row.device for row in rows} == {"Pretended GPU"} and "cudnn" in rows[0].software
    default = next(row for row in rows if row.algorithm == "torch:default")
    assert default.status == "ok" and default.workspace_bytes == 3072
    maths = [row.math for row in rows if row.convolution.dtype == "float32"]
    assert maths == sorted(maths), "all of fp32 before any TF32"
    assert "crashed" not in {row.status for row in rows}


def test_networks_are_measured_and_joined(gpu, tmp_path):
    out, tf32 = tmp_path / "out", (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32)
    assert main(["harvest", "networks", "--device", "cuda", "--list", str(write_jobs(tmp_path / "jobs")), "--split",
                 "--repeats", "2", "-o", str(out)]) == 0
    assert not (out / "failures.json").exists()
    assert (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32) == tf32
    made = instance.read(out / "tiny-split.json.gz")
    assert check.problems(made) == [] and made["provenance"]["device"]["name"] == "Pretended GPU"
    assert "TF32 is off for convolutions and matrix products" in made["provenance"]["notes"]
    assert {i.get("workspace_bytes") for o in made["operators"] for i in o["implementations"]} == {3072}
    assert "relu:from-mask" in {i["name"] for o in made["operators"] for i in o["implementations"]}
    instance.write(made, tmp_path / "made.json")
    problem.write_list(problem.collect([tmp_path / "made.json"])[3:], tmp_path / "list.csv")
    assert main(["harvest", "convolutions", "--device", "cuda", "--from", str(tmp_path / "list.csv"), "--repeats", "2",
                 "-o", str(tmp_path / "cudnn.csv")]) == 0
    assert main(["join", str(tmp_path / "made.json"), "--convolutions", str(tmp_path / "cudnn.csv"),
                 "-o", str(tmp_path / "joined.json")]) == 0
    names = {i["name"] for o in instance.read(tmp_path / "joined.json")["operators"] for i in o["implementations"]}
    assert {"cudnn:GEMM", "cudnn:ALGO_3"} <= names and "torch:default" not in names


def test_steps_are_stamped_with_events(gpu):
    stamps = Stamps(torch.device("cuda"))
    for _ in range(3):
        stamps.mark()
        time.sleep(0.002)
    first, second = stamps.durations()
    assert 2_000_000 <= first < 2_000_000_000 and 2_000_000 <= second < 2_000_000_000


@pytest.mark.parametrize(("size", "on_a_gpu"), [
    (0, 0), (4, 512), (513, 1024), (3 << 20, 3 << 20), ((10 << 20) - 4, 10 << 20), ((11 << 20) + 4, 12 << 20),
    ((11 << 20) - 4, 11 << 20), (12 << 20, 12 << 20)])
def test_a_gpus_allocator_hands_out_the_rest_of_a_segment_that_it_does_not_split(size, on_a_gpu):
    assert handed_out(size, "cuda") == on_a_gpu and handed_out(size, "cpu") == size


def test_peaks_and_scratch_memory_are_those_of_the_allocator(gpu, monkeypatch, tmp_path):
    monkeypatch.setenv("REMATPLAN_CACHE", str(tmp_path))
    assert rematplan.executed(lambda: None, samples=1).peak_bytes == 3072
    graph = torch.fx.Graph()
    x, weight = (graph.placeholder(name) for name in ("primals_1", "primals_2"))
    node = graph.call_function(torch.ops.aten.convolution.default, (x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1))
    for made, shape in ((x, (1, 2, 4, 4)), (weight, (3, 2, 3, 3)), (node, (1, 3, 2, 2))):
        made.meta["val"] = torch.zeros(shape)
    unit = Unit(0, node, True, (), (), (), True)
    assert Workspaces(torch.device("cuda")).bytes(unit) == 3072
    monkeypatch.setattr(Workspaces, "_measure", lambda *_: 7)
    assert Workspaces(torch.device("cuda")).bytes(unit) == 3072, "kept on disk"
    assert Workspaces(torch.device("cpu")).bytes(unit) == 7, "another device"
    with torch.backends.cudnn.flags(deterministic=True):
        assert Workspaces(torch.device("cuda")).bytes(unit) == 7, "other algorithms"
    monkeypatch.setattr(Workspaces, "_measure", lambda *_: 8)
    with torch.backends.mkldnn.flags(enabled=not torch.backends.mkldnn.enabled):
        assert Workspaces(torch.device("cpu")).bytes(unit) == 8, "another library"


@pytest.mark.parametrize(("name", "innermost"), [("convolution", 1), ("attention", 3)])
def test_of_channels_last_images_only_convolutions_are_turned(name, innermost, monkeypatch):
    """Attention on a GPU refuses operands whose last axis is not contiguous."""
    strides = []
    monkeypatch.setattr(costs, "call_of", lambda node, device: lambda: strides.append(node.args[0].meta["val"].stride()))
    graph = torch.fx.Graph()
    x = graph.placeholder("primals_1")
    x.meta["val"] = torch.zeros(2, 3, 4, 5)

    def operator(x): ...

    operator.__name__ = operator.__qualname__ = name
    Workspaces(torch.device("cpu"), channels_last=True)._measure(graph.call_function(operator, (x,)))
    assert {stride.index(1) for stride in strides} == {innermost}


def test_a_plan_for_a_gpu_leaves_room_for_rests_of_blocks_unless_everything_fits():
    assert [partition._without_rests(1000, peak, torch.device(kind)) for peak, kind in ((2000, "cuda"), (1000, "cuda"), (2000, "cpu"))] == [
        990, 1000, 1000]
