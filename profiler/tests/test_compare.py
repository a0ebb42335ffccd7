"""The page of published figures: current, and right in its arithmetic."""

import csv
from pathlib import Path

import pytest

from remat_profiler import compare, instance
from remat_profiler.cli import main
from remat_profiler.suites import suite

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results" / "published"

TINY = {
    "format": "remat-instance", "version": 1, "name": "tiny",
    "provenance": {"model": "tiny", "notes": ["other", "joint graph before folding: 7 nodes, 9 values "
                                                       "(FastSA's count: without detach and tuple access)"]},
    "fixed_bytes": {"parameters": 10},
    "tensors": [{"id": 0, "name": "x", "bytes": 40, "kind": "input"},
                {"id": 1, "name": "a", "bytes": 30, "kind": "activation"},
                {"id": 2, "name": "b", "bytes": 20, "kind": "output"}],
    "operators": [
        {"id": 0, "name": "f", "op_type": "f", "phase": "forward", "inputs": [0], "outputs": [1],
         "implementations": [{"name": "default", "time": 1}]},
        {"id": 1, "name": "g", "op_type": "g", "phase": "loss", "inputs": [1], "outputs": [2],
         "implementations": [{"name": "default", "time": 1}, {"name": "large", "time": 1, "workspace_bytes": 100}]},
    ],
    "order": [0, 1],
}


def folders(tmp_path, prefer="", unit="GB"):
    instance.write(TINY, tmp_path / "tiny.json.zst")
    (tmp_path / "store-all.csv").write_text(
        f'paper,where,network,instance,prefer,printed,unit,remark\np,t,"n, 1",tiny,{prefer},0.0000002,{unit},because\n')
    (tmp_path / "graphs.csv").write_text(
        "paper,where,instance,quantity,printed\np,t,tiny,nodes,8\np,t,tiny,values,9\np,t,tiny,forward operators,2\n")
    return compare.page(tmp_path, tmp_path, "this")


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published figures are not beside the package")
def test_the_committed_page_is_current():
    made = compare.page(PUBLISHED, ROOT / "instances", "just published")
    assert made == (PUBLISHED / "comparison.md").read_text(encoding="utf-8"), "run 'just published'"


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published figures are not beside the package")
def test_every_network_of_a_paper_with_figures_is_compared():
    with (PUBLISHED / "graphs.csv").open(encoding="utf-8", newline="") as file:
        graphs = {(row["instance"], row["quantity"]) for row in csv.DictReader(file)}
    with (PUBLISHED / "store-all.csv").open(encoding="utf-8", newline="") as file:
        peaks = {row["instance"] for row in csv.DictReader(file)}
    for name in suite("fastsa"):
        if not name.endswith("-unit"):
            assert {(f"fastsa/{name}", "nodes"), (f"fastsa/{name}", "values")} <= graphs
    for folder in ("kusumoto", "monet"):
        for name in suite(folder):
            # MONeT prints nothing of 3D-UNet but its batch.
            assert name.startswith("unet3d") or (f"{folder}/{name}", "forward operators") in graphs
            assert name.startswith("unet3d") or f"{folder}/{name}" in peaks


def test_deviations_are_relative_to_what_is_printed(tmp_path):
    # 10 fixed, 40, 30 and 20: 100 bytes are half of what is printed.
    assert "| p, t | n, 1 | 0.0000002 GB | 0.00 GB | -50.0 % | because |" in folders(tmp_path)


def test_a_preferred_implementation_takes_the_place_of_the_default(tmp_path):
    assert "| +0.0 % |" in folders(tmp_path, prefer="large")


def test_graphs_are_counted_as_the_papers_count(tmp_path):
    line = "| p, t | tiny | nodes 8 / 7; values 9 / 9; forward operators 2 / 1 | 2 | 3 |"
    assert line in folders(tmp_path)


def test_what_is_missing_is_one_line(tmp_path, capsys):
    assert main(["compare", "--published", str(tmp_path), "--instances", str(tmp_path)]) == 2
    assert "cannot read" in capsys.readouterr().err
    folders(tmp_path)
    (tmp_path / "tiny.json.zst").unlink()
    assert main(["compare", "--published", str(tmp_path), "--instances", str(tmp_path)]) == 2
    assert "tiny.json.zst" in capsys.readouterr().err
