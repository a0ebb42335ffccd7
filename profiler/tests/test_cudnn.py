"""libcudnn through ctypes: against a stand-in that checks what it is given, and against the real
library as far as that goes without a GPU."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from remat_profiler.convolutions import BACKWARD_DATA, BACKWARD_FILTER, DIRECTIONS, FORWARD, Convolution, cudnn, table
from remat_profiler.convolutions.runners import Clock, CudnnRunner, FrameworkRunner
from remat_profiler.errors import ProfilerError
from remat_profiler.harvest.convolutions import Harvest, short_table
from remat_profiler.harvest.deadline import Deadline

SOURCE = Path(__file__).with_name("fake_cudnn.c")
CONVOLUTION = Convolution(FORWARD, (2, 6, 9, 8), (4, 3, 3, 3), (2, 1), (1, 0), (1, 2), 2, "float32")
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not there to build the stand-in for cuDNN")


# What cuDNN's headers want of CUDA's, which the wheels hold in part only.
CUDA_RUNTIME = """
#pragma once
#include <stddef.h>
#include <stdint.h>
typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef enum { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL } libraryPropertyType;
"""


def header_folder():
    """cuDNN's headers from the wheel that torch came with, if it came with headers."""
    packages = Path(torch.__file__).parents[1] / "nvidia"
    return next((str(path.parent) for path in packages.glob("*/include/cudnn.h")), None)


@pytest.fixture(scope="session")
def fake(tmp_path_factory):
    path = tmp_path_factory.mktemp("cudnn") / "libfake_cudnn.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", str(path), str(SOURCE)]
    if header_folder():
        (path.parent / "cuda_runtime_api.h").write_text(CUDA_RUNTIME)
        (path.parent / "library_types.h").write_text("")
        command += ["-DREAL_HEADERS", f"-I{path.parent}", f"-I{header_folder()}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def library(fake):
    return cudnn.Library([str(fake)])


def runner(library, repeats=3, method="runs"):
    return CudnnRunner(Clock(torch.device("cpu"), repeats), library, method)


def test_the_stand_in_declares_what_the_real_headers_declare(fake):
    if header_folder() is None:
        pytest.skip("no cuDNN headers here: the stand-in was built from its own declarations")
    assert fake.exists(), "compiling against the real headers is the check"


def test_records_have_the_layout_of_the_c_struct():
    record = cudnn.AlgorithmPerformance
    assert (record.time.offset, record.memory.offset, record.determinism.offset) == (8, 16, 24)
    assert ctypes.sizeof(record) == 48


def test_algorithms_are_as_many_as_cudnn_enumerates():
    assert [len(cudnn.ALGORITHMS[direction]) for direction in DIRECTIONS] == [8, 6, 7]


@pytest.mark.parametrize("direction,result", [(FORWARD, "y"), (BACKWARD_DATA, "x"), (BACKWARD_FILTER, "w")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_runs_reach_the_right_buffers_with_the_right_arguments(library, direction, result, dtype):
    convolution = replace(CONVOLUTION, direction=direction, dtype=dtype)
    prepared = runner(library).open(convolution, next(iter(cudnn.MATHS[dtype])))
    before = {name: tensor.clone() for name, tensor in prepared.tensors.items()}
    algorithm = "ALGO_1" if direction != FORWARD else "IMPLICIT_GEMM"
    assert prepared.measure(algorithm).status == table.OK
    assert prepared.tensors["y"].shape == convolution.output
    for name, tensor in prepared.tensors.items():
        assert torch.equal(tensor, before[name]) == (name != result)
    if dtype in ("float32", "float64"):
        written = prepared.tensors[result].flatten()
        assert written[0] == 1 and written[-1] == 2
    prepared.close()


def test_every_algorithm_gets_a_status_and_those_that_ran_their_numbers(library):
    expected = {
        FORWARD: {"DIRECT": "not-supported", "WINOGRAD": "not-supported", "FFT": "out-of-memory"},
        BACKWARD_DATA: {"FFT": "CUDNN_STATUS_EXECUTION_FAILED"}, BACKWARD_FILTER: {},
    }
    for position, direction in enumerate(DIRECTIONS):
        prepared = runner(library).open(replace(CONVOLUTION, direction=direction), "tf32")
        for number, algorithm in enumerate(cudnn.ALGORITHMS[direction]):
            result = prepared.measure(algorithm)
            assert result.status == expected[direction].get(algorithm, "ok"), algorithm
            if result.status == "ok":
                assert result.time_ns > 0 and result.samples == 3 and result.spread_ns >= 0
                assert result.workspace_bytes == 2 * 1000 * (position + 1) + number
                assert result.math_type == "DEFAULT_MATH"
                assert result.determinism == ("deterministic" if number % 2 else "non-deterministic")
        prepared.close()


def test_fp32_forbids_tf32_and_descriptors_are_destroyed(library):
    before = library._library.fake_cudnn_descriptors_alive()
    prepared = runner(library).open(CONVOLUTION, "fp32")
    assert prepared.measure("GEMM").math_type == "FMA_MATH"
    assert library._library.fake_cudnn_descriptors_alive() == before + 4
    prepared.close()
    assert library._library.fake_cudnn_descriptors_alive() == before


def test_cudnns_own_search_is_parsed_by_algorithm_not_by_position(library):
    session = cudnn.Session(library, 0)
    for direction in DIRECTIONS:
        convolution = replace(CONVOLUTION, direction=direction)
        descriptors = cudnn.Descriptors(library, convolution, "fp32")
        tensors = {name: torch.zeros(shape) for name, shape in
                   (("x", convolution.input), ("w", convolution.weight), ("y", convolution.output))}
        found = session.find(descriptors, direction, {n: t.data_ptr() for n, t in tensors.items()}, (0, 0))
        assert set(found) == set(cudnn.ALGORITHMS[direction])
        for number, name in enumerate(cudnn.ALGORITHMS[direction]):
            if found[name].status == "ok":
                assert found[name].time_ns == (number + 1) * 250_000
        assert direction != FORWARD or found["DIRECT"].status == "CUDNN_STATUS_NOT_SUPPORTED"
        descriptors.close()
    session.close()


def test_the_find_method_says_that_it_has_one_sample(library, monkeypatch):
    session_find = cudnn.Session.find

    def without_scratch(self, descriptors, direction, buffers, _workspace):
        return session_find(self, descriptors, direction, buffers, (0, 0))

    monkeypatch.setattr(cudnn.Session, "find", without_scratch)
    prepared = runner(library, method="find")
    prepared.session.workspace_bytes = lambda *_: 8
    opened = prepared.open(CONVOLUTION, "fp32")
    result = opened.measure("IMPLICIT_PRECOMP_GEMM")
    assert (result.time_ns, result.samples, result.spread_ns) == (500_000, 1, None)
    assert opened.measure("DIRECT").status == "not-supported"


def test_a_missing_symbol_is_named(fake, tmp_path):
    source = "unsigned long cudnnGetVersion(void) { return 90000; }\n"
    (tmp_path / "bare.c").write_text(source)
    bare = tmp_path / "libbare.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(bare), str(tmp_path / "bare.c")], check=True)
    with pytest.raises(ProfilerError, match="lacks .*cudnnConvolutionForward"):
        runner(cudnn.Library([str(bare)]))


def test_a_missing_library_is_said_with_what_was_tried():
    with pytest.raises(ProfilerError, match="libcudnn was not found.*nowhere.so"):
        cudnn.Library(["nowhere.so"])


def test_three_dimensional_and_double_convolutions_pass_the_checks(library):
    volume = Convolution(FORWARD, (1, 2, 5, 6, 7), (3, 2, 3, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 1), 1, "float64")
    prepared = runner(library).open(volume, "fp64")
    assert prepared.measure("IMPLICIT_GEMM").status == "ok"
    prepared.close()


@pytest.fixture
def real():
    try:
        return cudnn.Library()
    except ProfilerError as error:
        pytest.skip(f"no real libcudnn here: {error}")


def test_the_real_library_exports_every_symbol(real):
    assert real.version >= 8000 and real.missing_symbols() == []


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_the_real_library_takes_our_descriptors_and_sees_the_same_output(real, dtype):
    shapes = [CONVOLUTION, Convolution(FORWARD, (1, 2, 5, 6, 7), (3, 2, 3, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 1), 1, dtype)]
    for convolution in shapes:
        for math in cudnn.MATHS[dtype]:
            cudnn.Descriptors(real, replace(convolution, dtype=dtype), math).close()


def test_the_real_library_names_its_errors(real):
    assert real.status_name(3000) == "CUDNN_STATUS_NOT_SUPPORTED"
    with pytest.raises(cudnn.CudnnError, match="CUDNN_STATUS_BAD_PARAM"):
        real.call("cudnnSetConvolutionGroupCount", None, ctypes.c_int(1))


# The harvest on the stand-in: everything that happens on a GPU machine except the GPU.


def harvest(library, path, seconds=100.0, convolutions=(CONVOLUTION,)):
    clock = Clock(torch.device("cpu"), 3)
    made = Harvest(path, "cpu", [FrameworkRunner(clock), CudnnRunner(clock, library)])
    outcome = made.run(list(convolutions), Deadline(seconds), lambda _line: None)
    made.close()
    return outcome


ALL = [replace(CONVOLUTION, direction=direction) for direction in DIRECTIONS]


def test_a_harvest_has_a_row_for_every_algorithm_and_is_not_done_twice(library, tmp_path):
    path = tmp_path / "cudnn.csv"
    outcome = harvest(library, path, convolutions=ALL)
    assert outcome.finished and outcome.added == 8 + 6 + 7 + 3
    before = path.read_bytes()
    again = harvest(library, path, convolutions=ALL)
    assert again.finished and again.added == 0 and again.skipped == outcome.added
    assert path.read_bytes() == before
    text = short_table(table.read(path))
    assert "WINOGRAD_NONFUSED" in text and "cpu:default" in text


def test_a_harvest_without_time_stops_before_it_begins_a_row(library, tmp_path):
    outcome = harvest(library, tmp_path / "cudnn.csv", seconds=0.0)
    assert not outcome.finished and outcome.added == 0 and not outcome.lost


def test_a_line_that_was_cut_short_is_measured_again(library, tmp_path):
    path = tmp_path / "cudnn.csv"
    harvest(library, path)
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert harvest(library, path).added == 1
    assert len(table.read(path)) == 9


def test_a_crash_costs_one_row(fake, tmp_path):
    path = tmp_path / "cudnn.csv"
    code = (
        "import sys; sys.path.insert(0, sys.argv[3])\n"
        "from tests.test_cudnn import *\n"
        "print(harvest(cudnn.Library([sys.argv[1]]), Path(sys.argv[2]), convolutions=ALL))\n"
    )
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", code, str(fake), str(path), str(root)]
    crashed = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"FAKE_CUDNN_CRASH": "1"}, cwd=root)
    assert crashed.returncode < 0
    noted = json.loads((tmp_path / "cudnn.csv.inflight").read_text())
    assert noted["algorithm"] == "FFT_TILING" and noted["convolution"]["direction"] == BACKWARD_FILTER
    assert harvest(cudnn.Library([str(fake)]), path, convolutions=ALL).finished
    statuses = {(row.convolution.direction, row.algorithm): row.status for row in table.read(path)}
    assert statuses[BACKWARD_FILTER, "FFT_TILING"] == "crashed" and len(statuses) == 8 + 6 + 7 + 3
    assert not (tmp_path / "cudnn.csv.inflight").exists()


def test_a_lost_context_ends_the_process_after_its_row(library, tmp_path):
    clock = Clock(torch.device("cpu"), 3)
    broken = CudnnRunner(clock, library)
    broken.session.run = lambda *_: (_ for _ in ()).throw(RuntimeError("CUDA error: an illegal memory access"))
    made = Harvest(tmp_path / "cudnn.csv", "cpu", [broken])
    outcome = made.run([CONVOLUTION], Deadline(100), lambda _line: None)
    made.close()
    assert not outcome.finished and "illegal memory access" in outcome.lost
    (row,) = table.read(tmp_path / "cudnn.csv")
    assert (row.status, row.algorithm) == ("cuda-error", "IMPLICIT_GEMM")
