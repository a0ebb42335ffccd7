"""MONeT's Figure 7 as a drawing of tables."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from remat_profiler.cli import main
from remat_profiler.convolutions import figure, model, problem, table
from remat_profiler.convolutions.figure import Axis
from remat_profiler.errors import ProfilerError

from . import monet

ROOT = Path(__file__).parents[2]
DEVICES, PUBLISHED = ROOT / "instances" / "devices", ROOT / "results" / "published"
needs_files = pytest.mark.skipif(not DEVICES.is_dir(), reason="the committed tables are not beside the package")
DRAWN = {
    "figure7.svg": ["model-p100/figure7.csv"],
    "figure7-b184.svg": ["monet-p100/figure7-b184.csv", "model-p100/figure7-b184.csv"],
}


def modelled():
    return model.rows([problem.FIGURE_7[0]], "model:p100")


def test_every_algorithm_that_ran_has_one_dot_and_one_name():
    drawn = figure.svg(modelled())
    assert drawn.count("<circle") == 7 and all(f">{row.algorithm}<" in drawn for row in modelled() if row.status == "ok")
    assert "DIRECT" not in drawn and "256x64x56x56 input, 64x64x3x3 kernel, forward" in drawn


def test_a_second_table_is_joined_to_the_names_of_the_first():
    measured = [replace(row, device="Other", origin="measured", time_ns=row.time_ns and 2 * row.time_ns) for row in modelled()]
    drawn = figure.svg(modelled() + measured)
    assert drawn.count("<circle") == 14 and drawn.count(">GEMM<") == 1
    assert "Other (measured)" in drawn and "Tesla P100-PCIE-16GB (modelled)" in drawn
    assert len(re.findall(r'<line [^>]*stroke="#D55E00"', drawn)) == 7


def test_axes_have_round_ticks_and_room_for_the_largest_value():
    axis = Axis.over([3.0, 16.5], 380, 50)
    assert axis.ticks() == [0, 5, 10, 15] and axis.at(0) == 380 and 50 < axis.at(16.5) < 80
    assert Axis.over([0.0], 0, 1).at(0.0) == 0


def test_nothing_to_draw_is_refused(tmp_path, capsys):
    with pytest.raises(ProfilerError, match="no algorithm to draw"):
        figure.svg([row for row in modelled() if row.status != "ok"])
    assert main(["harvest", "figure7", str(tmp_path / "none.csv"), "-o", str(tmp_path / "a.svg")]) == 2
    assert "cannot read" in capsys.readouterr().err


@needs_files
@pytest.mark.parametrize("name", DRAWN)
def test_the_committed_drawings_are_current(name, tmp_path):
    tables = [str(DEVICES / source) for source in DRAWN[name]]
    assert main(["harvest", "figure7", *tables, "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes() == (PUBLISHED / name).read_bytes(), "run 'just published'"


@needs_files
def test_the_published_rows_are_those_of_the_profile():
    profile = monet.profile("resnet50")
    for row in table.read(DEVICES / "monet-p100" / "figure7-b184.csv"):
        milliseconds, workspace = profile[row.convolution, row.algorithm]
        if row.status == "ok":
            # The network has the convolution several times; times differ by under 2 %.
            assert row.time_ns == pytest.approx(milliseconds * 1e6, rel=0.02)
            assert row.workspace_bytes == round(workspace * 2**20)
        else:
            assert milliseconds is None
