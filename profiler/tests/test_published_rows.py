"""The rows of MONeT's Figure 7 that come from its authors' profile."""

from pathlib import Path

import pytest

from remat_profiler.convolutions import table

from . import monet

DEVICES = Path(__file__).parents[2] / "instances" / "devices"


@pytest.mark.skipif(not DEVICES.is_dir(), reason="the committed tables are not beside the package")
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
