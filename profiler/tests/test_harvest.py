"""The harvest as it will run on a GPU machine, rehearsed on the CPU."""

import csv
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from remat_profiler import check, instance
from remat_profiler.cli import main
from remat_profiler.convolutions import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, Convolution, problem, table
from remat_profiler.errors import ProfilerError
from remat_profiler.harvest import networks, slices
from remat_profiler.harvest.deadline import Deadline
from remat_profiler.job import Job

from .conftest import document_of

ROOT = Path(__file__).parents[2]
TINY = Convolution(FORWARD, (2, 3, 8, 8), (8, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1, "float32")


def write_list(path, convolutions=(TINY,)):
    problem.write_list(convolutions, path)
    return path


def write_jobs(path, text="tiny toy:conv-bn-relu 2 3x8x8\nmlp toy:dropout-mlp 4 16  # no convolution\n"):
    path.write_text(text)
    return path


def test_the_convolutions_of_an_instance_are_those_of_its_operators(small):
    made = document_of(small)
    found = {c for operator in made["operators"] for c in problem.of_operator(operator)}
    expected = replace(TINY, input=(4, 3, 8, 8))
    assert found == {expected, replace(expected, direction=BACKWARD_FILTER)}, "the images need no gradient"


def test_a_transposed_convolution_is_the_one_that_it_transposes():
    operator = {"op_type": "aten.convolution", "attributes": {
        "input_shape": [2, 6, 5, 5], "weight_shape": [6, 4, 3, 3], "dtype": "float32", "stride": [2, 2],
        "padding": [1, 1], "dilation": [1, 1], "transposed": True, "output_padding": [1, 1], "groups": 1}}
    (forward,) = problem.of_operator(operator)
    assert forward.direction == BACKWARD_DATA
    assert forward.input == (2, 4, 10, 10) and forward.output == (2, 6, 5, 5)
    backward = operator | {"op_type": "aten.convolution_backward"}
    backward["attributes"] = operator["attributes"] | {"output_mask": [True, True, False]}
    assert [c.direction for c in problem.of_operator(backward)] == [FORWARD, BACKWARD_FILTER]


def test_a_one_dimensional_convolution_has_height_1():
    operator = {"op_type": "aten.convolution", "attributes": {
        "input_shape": [2, 6, 50], "weight_shape": [6, 3, 5], "dtype": "float32", "stride": [2], "padding": [1],
        "dilation": [1], "transposed": False, "output_padding": [0], "groups": 2}}
    (found,) = problem.of_operator(operator)
    assert found.input == (2, 6, 1, 50) and found.output == (2, 6, 1, 24) and found.groups == 2


def test_shapes_agree_with_torch(resnet18):
    for operator in document_of(resnet18)["operators"]:
        for convolution in problem.of_operator(operator):
            convolution.check()
            if convolution.direction == FORWARD:
                made = resnet18.storages[operator["outputs"][0]]
                assert convolution.output == tuple(made.value.tensor.shape)


def test_figure_7_comes_first_and_lists_are_read_as_written(tmp_path, small):
    instance.write(document_of(small), tmp_path / "small.json")
    found = problem.collect([tmp_path])
    assert tuple(found[:3]) == problem.FIGURE_7 and len(found) == 5
    assert found[0].cells()["input"] == "256x64x56x56"
    assert problem.collect([write_list(tmp_path / "list.csv", found)]) == found


def test_the_committed_list_is_complete():
    folder = ROOT / "instances" / "devices"
    if not (folder / "convolutions.csv").exists():
        pytest.skip("the committed list is not beside the package")
    harvested = [ROOT / "instances" / suite for suite in networks.HARVESTED]
    assert set(problem.collect(harvested)) == set(problem.read_list(folder / "convolutions.csv"))


@pytest.mark.parametrize("change,expected", [
    ({"input": "2x3x8"}, "not a convolution"), ({"groups": "2"}, "not a convolution"),
    ({"direction": "sideways"}, "not a convolution"), ({"weight": "8x3xax3"}, "not a convolution"),
])
def test_malformed_lists_are_refused(tmp_path, change, expected):
    path = tmp_path / "list.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, problem.FIELDS)
        writer.writeheader()
        writer.writerow(TINY.cells() | change)
    with pytest.raises(ProfilerError, match=expected):
        problem.read_list(path)


def test_the_cpu_rehearsal_says_what_it_is(tmp_path, capsys):
    path = tmp_path / "cudnn.csv"
    everything = [replace(TINY, direction=direction) for direction in (FORWARD, BACKWARD_DATA, BACKWARD_FILTER)]
    command = ["harvest", "convolutions", "--device", "cpu", "--from", str(write_list(tmp_path / "l.csv", everything)),
               "--repeats", "3", "-o", str(path)]
    assert main(command) == 0
    rows = table.read(path)
    assert [row.algorithm for row in rows] == ["cpu:default"] * 3
    assert all(row.status == "ok" and row.time_ns > 0 and row.samples == 3 and row.origin == "measured" for row in rows)
    assert {row.math for row in rows} == {"fp32"} and "cudnn" not in rows[0].software
    assert "complete" in capsys.readouterr().out
    assert main(command) == 0 and table.read(path) == rows


def test_a_gpu_that_is_not_there_is_refused(tmp_path, capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    write_list(tmp_path / "l.csv")
    assert main(["harvest", "convolutions", "--device", "cuda", "--from", str(tmp_path / "l.csv"),
                 "-o", str(tmp_path / "cudnn.csv")]) == 2
    assert "finds no CUDA device" in capsys.readouterr().err


def test_networks_are_measured_resumed_and_failures_are_kept(tmp_path):
    text = "tiny toy:conv-bn-relu 2 3x8x8\nbad toy:conv-bn-relu 2 5x8x8\n"
    jobs = networks.read_jobs(write_jobs(tmp_path / "jobs", text), "cpu", 2)
    out = tmp_path / "out"
    assert networks.harvest(jobs, out, "cpu", 100, lambda _line: None)
    made = instance.read(out / "tiny.json.gz")
    assert check.problems(made) == [] and made["provenance"]["times"]["kind"] == "measured"
    assert "3 channels" in json.loads((out / networks.FAILURES).read_text())["bad"]
    operators = (out / networks.OPERATORS).read_text()
    (out / "tiny.json.gz").unlink()
    assert networks.harvest(jobs, out, "cpu", 100, lambda _line: None)
    assert (out / networks.OPERATORS).read_text() == operators, "nothing is measured twice"
    assert instance.read(out / "tiny.json.gz") == made


def test_a_network_that_runs_out_of_time_goes_on_where_it_stopped(tmp_path, monkeypatch):
    jobs = networks.read_jobs(write_jobs(tmp_path / "jobs"), "cpu", 2)
    deadline = Deadline(100)
    asked = []
    monkeypatch.setattr(Deadline, "passed", lambda self, reserve=0.0: asked.append(0) or len(asked) > 6)
    assert not networks.harvest(jobs, tmp_path / "out", "cpu", 100, lambda _line: None)
    part = len((tmp_path / "out" / networks.OPERATORS).read_text().splitlines())
    assert 1 < part <= 6 and not list((tmp_path / "out").glob("*.json.gz"))
    monkeypatch.undo()
    assert not deadline.passed() and networks.harvest(jobs, tmp_path / "out", "cpu", 100, lambda _line: None)
    assert len(list((tmp_path / "out").glob("*.json.gz"))) == 2
    assert not (tmp_path / "out" / networks.CURRENT).exists()


def test_default_networks_are_those_of_the_harvested_suites_the_largest_last():
    jobs = networks.default_jobs("cuda", 10)
    names = list(jobs)
    assert len(jobs) > 30 and {"unet3d-48x80x80-b22", "pspnet-713-b2", "resnet1001-224-b8"} <= set(names)
    sizes = [networks._size(job) for job in jobs.values()]
    assert sizes == sorted(sizes)
    plain = all(not job.alternatives and job.convolutions is None and not job.split_batch_norm for job in jobs.values())
    assert plain and not any(name.endswith("-flops") for name in names)
    assert all(job.device == "cuda" and job.trace_device == "cpu" for job in jobs.values())


@pytest.mark.parametrize("line", ["a b", "a toy:x two 3x8", "a toy:x 2 3x8 gpu"])
def test_malformed_job_lists_name_the_line(tmp_path, line):
    with pytest.raises(ProfilerError, match="line 2: expected NAME MODEL"):
        networks.read_jobs(write_jobs(tmp_path / "jobs", f"# comment\n{line}\n"), "cpu", 1)


def run_script(tmp_path, seconds, folder="out"):
    """As on the GPU machine: a plain copy, no installation, no zstandard."""
    blocked = tmp_path / "blocked"
    blocked.mkdir(exist_ok=True)
    (blocked / "zstandard.py").write_text("raise ImportError('not on that machine')\n")
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "PYTHONPATH": str(blocked),
                   "REMAT_PROFILER_CONVOLUTIONS": str(tmp_path / "list.csv"), "HOME": os.environ.get("HOME", "/")}
    script = Path(__file__).parents[1] / "harvest.sh"
    command = [str(script), "cpu", str(tmp_path / folder), str(seconds), "--list", str(tmp_path / "jobs"), "--repeats", "2"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")


def test_the_whole_harvest_runs_resumes_and_packs(tmp_path):
    write_list(tmp_path / "list.csv")
    write_jobs(tmp_path / "jobs")
    short = run_script(tmp_path, 1)
    assert short.returncode == slices.UNFINISHED and "run the same command again" in short.stdout
    done = run_script(tmp_path, 540)  # ends long before, unless the machine is busy
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 networks measured: mlp, mlp-split, tiny, tiny-split" in done.stdout and "finished" in done.stdout
    out = tmp_path / "out"
    with tarfile.open(out / slices.ARCHIVE) as packed:
        names = set(packed.getnames())
    instances = {f"networks/{name}.json.gz" for name in ("mlp", "mlp-split", "tiny", "tiny-split")}
    assert names == {"cudnn.csv", "state.json", "networks/operators.csv"} | instances
    # Another machine: only the archive has travelled.
    (tmp_path / "second").mkdir()
    (out / slices.ARCHIVE).rename(tmp_path / "second" / slices.ARCHIVE)
    again = run_script(tmp_path, 540, "second")
    assert again.returncode == 0 and "done in an earlier slice" in again.stdout
    assert (tmp_path / "second" / "cudnn.csv").read_bytes() == (out / "cudnn.csv").read_bytes()


def test_a_child_that_dies_is_started_again_and_its_network_is_blamed(tmp_path, monkeypatch):
    plan = slices.Plan("cpu", tmp_path, [write_list(tmp_path / "l.csv")], write_jobs(tmp_path / "jobs"), 100, [], 2)
    (tmp_path / "networks").mkdir()
    codes = {"convolutions": [slices.LOST, -11, 0], "networks": [-9, 0]}
    lines = []

    def child(arguments, _limit):
        if arguments[0] == "networks" and len(codes["networks"]) == 2:
            (tmp_path / "networks" / networks.CURRENT).write_text("huge\n")
        return codes[arguments[0]].pop(0)

    monkeypatch.setattr(slices, "_child", child)
    assert slices.run(plan, lines.append)
    assert codes == {"convolutions": [], "networks": []}
    assert "ended with -9" in networks.read_failures(tmp_path / "networks")["huge"]
    assert sum("starting another one" in line for line in lines) == 3


def test_variants_have_alternatives_and_split_operators():
    jobs = networks.variants({"a": Job("toy:conv-bn-relu", 2, (3, 8, 8), "cpu")}, True, True)
    assert list(jobs) == ["a", "a-split"]
    assert jobs["a"].alternatives and jobs["a"].gist and not jobs["a"].split_batch_norm
    assert jobs["a-split"].split_batch_norm and jobs["a-split"].split_convolution_backward


def test_a_network_whose_alternatives_fail_is_measured_without_them(tmp_path, monkeypatch):
    from remat_profiler.alternatives import activations

    def broken(*_arguments):
        raise NotImplementedError("no such kernel here")

    monkeypatch.setattr(activations, "relu_saving_mask", broken)
    jobs = networks.variants(networks.read_jobs(write_jobs(tmp_path / "jobs", "tiny toy:conv-bn-relu 2 3x8x8\n"), "cpu", 2), True, False)
    lines = []
    assert networks.harvest(jobs, tmp_path / "out", "cpu", 100, lines.append)
    assert any("no such kernel here" in line for line in lines)
    made = instance.read(tmp_path / "out" / "tiny.json.gz")
    assert {i["name"] for o in made["operators"] for i in o["implementations"]} == {"default", "recompute"}


def test_a_harvested_table_joins_a_harvested_network(tmp_path, capsys):
    jobs = networks.read_jobs(write_jobs(tmp_path / "jobs", "tiny toy:conv-bn-relu 2 3x8x8\n"), "cpu", 2)
    networks.harvest(jobs, tmp_path, "cpu", 100, lambda _line: None)
    made = instance.read(tmp_path / "tiny.json.gz")
    (wanted, *_) = sorted({c for o in made["operators"] for c in problem.of_operator(o) if c.direction == FORWARD})
    device = made["provenance"]["device"]["name"]
    rows = [table.Row(device, "test", wanted, math, "GEMM", "ok", 100, 1, 5, 64) for math in ("fp32", "tf32")]
    table.write(rows, tmp_path / "cudnn.csv")
    command = ["join", str(tmp_path / "tiny.json.gz"), "--convolutions", str(tmp_path / "cudnn.csv"),
               "-o", str(tmp_path / "joined.json.gz")]
    assert main(command) == 0
    joined = instance.read(tmp_path / "joined.json.gz")
    (found,) = [i for o in joined["operators"] for i in o["implementations"] if i["name"] == "cudnn:GEMM"]
    assert found["origin"] == {"kind": "measured", "samples": 5, "statistic": "median"}
    assert joined["name"] == "joined" and "join --convolutions cudnn.csv" in joined["provenance"]["command"]
    table.write([replace(row, algorithm="cpu:default") for row in rows], tmp_path / "cudnn.csv")
    assert main(command) == 2 and "has no algorithm" in capsys.readouterr().err
