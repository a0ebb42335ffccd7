"""The model of algorithms, against the P100 profile where it is at hand, and joining tables into instances."""

from dataclasses import replace
from statistics import mean

import pytest

from remat_profiler.cli import main
from remat_profiler.convolutions import BACKWARD_DATA, BACKWARD_FILTER, DIRECTIONS, FORWARD, cudnn, join, model, problem, table
from remat_profiler.errors import ProfilerError

from . import monet
from .conftest import document_of, trace_of

MIB = 2**20
FIGURE_7 = problem.FIGURE_7[0]


@pytest.fixture(scope="module")
def profiles():
    return {network: monet.profile(network) for network in monet.NETWORKS}


def test_every_algorithm_of_every_direction_is_modelled():
    modelled = set(model.COEFFICIENTS)
    for direction in DIRECTIONS:
        for algorithm in cudnn.ALGORITHMS[direction]:
            applies = model.applies(replace(FIGURE_7, direction=direction), algorithm)
            assert ((direction, algorithm) in modelled) == applies


def test_workspaces_of_figure_7_follow_the_formulas():
    expected = {
        "IMPLICIT_GEMM": 0, "IMPLICIT_PRECOMP_GEMM": 6 * 56 * 56, "GEMM": 4 * 256 * 64 * 9 * 56 * 56,
        "FFT": 2 * 8 * 64 * 33 * (256 * 64 + 64 * 64), "FFT_TILING": 4352 * (2 * 256 * 128 + 64 * 64),
        "WINOGRAD": 100 * 64 * 64, "WINOGRAD_NONFUSED": 144 * (256 * 14 * 14 * 128 + 64 * 64),
    }
    assert {name: model.workspace_bytes(FIGURE_7, name) for name in expected} == expected


def test_modelled_rows_have_the_columns_of_measured_ones_and_say_so(tmp_path):
    rows = model.rows(list(problem.FIGURE_7), "model:v100")
    assert len(rows) == 8 + 6 + 7 and {row.origin for row in rows} == {"modelled"}
    table.write(rows, tmp_path / "model.csv")
    assert table.read(tmp_path / "model.csv") == rows
    status = {(row.convolution.direction, row.algorithm): row.status for row in rows}
    assert status[FORWARD, "DIRECT"] == status[BACKWARD_FILTER, "WINOGRAD"] == "not-supported"
    assert sum(row.status == "ok" for row in rows) == 7 + 6 + 5
    assert all(row.time_ns > 0 for row in rows if row.status == "ok")


def test_what_does_not_fit_the_gpu_is_out_of_memory():
    huge = replace(FIGURE_7, input=(256, 64, 224, 224))
    status = {row.algorithm: row.status for row in model.rows([huge], "model:p100")}
    assert status["GEMM"] == "out-of-memory" and status["IMPLICIT_GEMM"] == "ok"


def test_a_modelled_table_needs_a_modelled_device():
    with pytest.raises(ProfilerError, match="expected model:<gpu>"):
        model.rows([FIGURE_7], "cuda")


def test_which_algorithms_run_on_the_p100_is_met_in_99_of_100_cases(profiles):
    memory = 16 * 2**30
    right = total = 0
    for rows in profiles.values():
        for (convolution, algorithm), (ms, _) in rows.items():
            runs = model.applies(convolution, algorithm) \
                and model.workspace_bytes(convolution, algorithm) + convolution.tensor_bytes <= memory
            right, total = right + (runs == (ms is not None)), total + 1
    assert (right, total) == (957, 962)


# Mean relative error of workspaces above 4 MiB on the P100, all three networks; the table of the README.
WORKSPACE_ERRORS = {
    (FORWARD, "GEMM"): 0.003, (FORWARD, "FFT"): 0.003, (FORWARD, "FFT_TILING"): 0.045, (FORWARD, "WINOGRAD"): 0.065,
    (FORWARD, "WINOGRAD_NONFUSED"): 0.002, (BACKWARD_DATA, "FFT"): 0.004, (BACKWARD_DATA, "FFT_TILING"): 0.045,
    (BACKWARD_DATA, "WINOGRAD"): 0.045, (BACKWARD_DATA, "WINOGRAD_NONFUSED"): 0.002, (BACKWARD_FILTER, "FFT"): 0.115,
    (BACKWARD_FILTER, "WINOGRAD_NONFUSED"): 0.002,
}


def test_workspaces_on_the_p100_are_met_as_the_readme_states(profiles):
    errors = {}
    for rows in profiles.values():
        for (convolution, algorithm), (ms, measured) in rows.items():
            if ms is None or not model.applies(convolution, algorithm):
                continue
            ours = model.workspace_bytes(convolution, algorithm) / MIB
            key = convolution.direction, algorithm
            if key not in WORKSPACE_ERRORS:
                assert abs(ours - measured) < 1.5, (key, convolution)
            elif measured > 4:
                errors.setdefault(key, []).append(abs(ours / measured - 1))
    assert set(errors) == set(WORKSPACE_ERRORS)
    for key, limit in WORKSPACE_ERRORS.items():
        assert mean(errors[key]) <= limit, key


# Mean relative error of times on VGG-16, to which nothing was fitted; the table of the README.
VGG_TIME_ERRORS = {
    (FORWARD, "IMPLICIT_GEMM"): 0.15, (FORWARD, "IMPLICIT_PRECOMP_GEMM"): 0.09, (FORWARD, "GEMM"): 0.08,
    (FORWARD, "FFT"): 0.25, (FORWARD, "FFT_TILING"): 0.33, (FORWARD, "WINOGRAD"): 0.09, (FORWARD, "WINOGRAD_NONFUSED"): 0.12,
    (BACKWARD_DATA, "ALGO_0"): 0.14, (BACKWARD_DATA, "ALGO_1"): 0.08, (BACKWARD_DATA, "FFT"): 0.24,
    (BACKWARD_DATA, "FFT_TILING"): 0.33, (BACKWARD_DATA, "WINOGRAD"): 0.07, (BACKWARD_DATA, "WINOGRAD_NONFUSED"): 0.21,
    (BACKWARD_FILTER, "ALGO_0"): 0.10, (BACKWARD_FILTER, "ALGO_1"): 0.15, (BACKWARD_FILTER, "FFT"): 0.12,
    (BACKWARD_FILTER, "ALGO_3"): 0.06, (BACKWARD_FILTER, "WINOGRAD_NONFUSED"): 0.18,
}


def test_times_of_vgg16_on_the_p100_are_met_as_the_readme_states(profiles):
    errors = {}
    for (convolution, algorithm), (ms, _) in profiles["vgg16"].items():
        if ms is not None and model.applies(convolution, algorithm):
            ours = model.p100_seconds(convolution, algorithm) * 1e3
            errors.setdefault((convolution.direction, algorithm), []).append(abs(ours / ms - 1))
    assert set(errors) == set(VGG_TIME_ERRORS)
    for key, limit in VGG_TIME_ERRORS.items():
        assert mean(errors[key]) <= limit, key


# Joining.


def rows_for(made, device="V100", spread=5, **changes):
    wanted = sorted({c for operator in made["operators"] for c in problem.of_operator(operator)})
    return [
        table.Row(device, "test", c, math, algorithm, "ok", (number + 1) * 1000, spread, 10, (9 - number) * 10)
        for c in wanted for math in ("fp32", "tf32") for number, algorithm in enumerate(cudnn.ALGORITHMS[c.direction][:3])
    ]


@pytest.fixture
def vgg():
    return document_of(trace_of("torchvision:vgg11", 2, (3, 32, 32)))


def test_algorithms_become_implementations_after_the_default(vgg, tmp_path):
    table.write(rows_for(vgg, vgg["provenance"]["device"]["name"]), tmp_path / "cudnn.csv")
    before = [dict(operator["implementations"][0]) for operator in vgg["operators"]]
    assert join.join(vgg, str(tmp_path / "cudnn.csv"), "model:v100") > 0
    forward = next(op for op in vgg["operators"] if op["op_type"] == "aten.convolution")
    names = [implementation["name"] for implementation in forward["implementations"]]
    assert names == ["default", "cudnn:IMPLICIT_GEMM", "cudnn:IMPLICIT_PRECOMP_GEMM", "cudnn:GEMM"]
    measured = {"kind": "measured", "samples": 10, "statistic": "median"}
    assert forward["implementations"][2] == {
        "name": names[2], "time": 2000, "workspace_bytes": 80, "spread": 5, "origin": measured}
    assert [operator["implementations"][0] for operator in vgg["operators"]] == before


def test_two_gradients_get_the_pairs_that_no_pair_beats(vgg, tmp_path):
    table.write(rows_for(vgg, vgg["provenance"]["device"]["name"]), tmp_path / "cudnn.csv")
    join.join(vgg, str(tmp_path / "cudnn.csv"), "model:v100")
    backward = [op for op in vgg["operators"] if op["op_type"] == "aten.convolution_backward"]
    pairs = backward[0]["implementations"][1:]
    assert [pair["name"] for pair in pairs] == ["cudnn:ALGO_0+ALGO_0", "cudnn:ALGO_1+ALGO_1", "cudnn:FFT+FFT"]
    assert [(pair["time"], pair["workspace_bytes"]) for pair in pairs] == [(2000, 90), (4000, 80), (6000, 70)]
    first = backward[-1]
    assert first["attributes"]["output_mask"][0] is False
    assert [i["name"] for i in first["implementations"][1:]] == ["cudnn:ALGO_0", "cudnn:ALGO_1", "cudnn:FFT"]


def test_tables_of_another_device_are_refused(vgg, tmp_path):
    table.write(rows_for(vgg, "Some GPU"), tmp_path / "cudnn.csv")
    with pytest.raises(ProfilerError, match="is of Some GPU, the instance of Tesla V100"):
        join.join(vgg, str(tmp_path / "cudnn.csv"), "model:v100")


def test_trace_joins_the_model_on_request_and_says_so(tmp_path):
    from remat_profiler import check, instance

    command = ["trace", "--model", "torchvision:resnet18", "--batch", "2", "--shape", "3x64x64", "--device", "model:p100",
               "--convolutions", "model", "-o", str(tmp_path / "made.json")]
    assert main(command) == 0
    made = instance.read(tmp_path / "made.json")
    assert check.problems(made) == [] and "--convolutions model" in made["provenance"]["command"]
    extra = [i for op in made["operators"] for i in op["implementations"] if i["name"].startswith("cudnn:")]
    assert extra and all(i["origin"] == {"kind": "modelled", "model": "cudnn-algorithms"} for i in extra)
    assert any("Pareto" in note for note in made["provenance"]["notes"])


def origins_of(made):
    return [i["origin"] for op in made["operators"] for i in op["implementations"] if "origin" in i]


def test_rows_of_a_publication_stay_published(vgg, tmp_path):
    """They were labelled as a model's once."""
    rows = rows_for(vgg, vgg["provenance"]["device"]["name"])
    told = [replace(row, origin="published", software="MONeT's profile (Shah et al. 2021), ResNet-50, layer1; cuDNN 7") for row in rows]
    table.write(told, tmp_path / "cudnn.csv")
    join.join(vgg, str(tmp_path / "cudnn.csv"), "model:v100")
    found = origins_of(vgg)
    expected = {"kind": "published", "paper": "MONeT's profile (Shah et al. 2021)", "where": "ResNet-50, layer1; cuDNN 7"}
    assert found and all(origin == expected for origin in found)


def test_a_pair_is_as_well_known_as_the_weaker_half(vgg, tmp_path):
    """Forward rows are measured; in a pair, the gradient of the input is measured and that of the weight a model's."""
    rows = [replace(row, origin="modelled") if row.convolution.direction == BACKWARD_FILTER else row
            for row in rows_for(vgg, vgg["provenance"]["device"]["name"])]
    table.write(rows, tmp_path / "cudnn.csv")
    join.join(vgg, str(tmp_path / "cudnn.csv"), "model:v100")
    for operator in vgg["operators"]:
        kind = "measured" if operator["phase"] == "forward" else "modelled"
        assert {i["origin"]["kind"] for i in operator["implementations"] if "origin" in i} <= {kind}
    assert len({origin["kind"] for origin in origins_of(vgg)}) == 2


@pytest.mark.parametrize("changes,expected", [
    ({"samples": None}, "measured row says ok without samples"), ({"origin": "guessed"}, "origin 'guessed' is not one of"),
    ({"time_ns": None}, "ok without time or workspace"),
])
def test_rows_that_do_not_say_where_they_come_from_are_refused(vgg, tmp_path, changes, expected):
    row = replace(rows_for(vgg, "Some GPU")[0], **changes)
    table.write([row], tmp_path / "cudnn.csv")
    with pytest.raises(ProfilerError, match=expected):
        table.read(tmp_path / "cudnn.csv")


@pytest.mark.parametrize("content", [b"", b"no zstandard", b"[1]", b'{"format": "remat-schedule", "version": 1}'])
def test_files_that_are_no_instances_are_one_line(tmp_path, capsys, content):
    """Only a file that could not be opened was, once; any other ended in a traceback."""
    for name in ("bad.json", "bad.json.gz", "bad.json.zst"):
        (tmp_path / name).write_bytes(content)
        assert main(["join", str(tmp_path / name), "--convolutions", "none.csv", "-o", str(tmp_path / "made.json")]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and f"{name}' is no instance of ours: " in error
        assert main(["harvest", "collect", "--from", str(tmp_path / name), "-o", str(tmp_path / "list.csv")]) == 2
        assert f"{name}' is no instance of ours: " in capsys.readouterr().err
