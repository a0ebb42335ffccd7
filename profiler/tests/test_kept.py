"""What is kept on disk between runs: the same whatever the caller's settings are, and found anew where it is damaged."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from rematplan import costs, store

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REMATPLAN_CACHE", str(tmp_path))
    monkeypatch.setattr(costs, "_TRIALS", {"cpu": costs._Trial(4, 1, 64)})
    return tmp_path


def test_a_devices_speed_is_that_of_single_precision_whatever_the_caller_computes_in(monkeypatch):
    computed = []
    monkeypatch.setattr(costs, "_median", lambda call, *_: computed.append(call().dtype) or 1)
    torch.set_default_dtype(torch.float64)
    try:
        costs.speed_of(CPU)
    finally:
        torch.set_default_dtype(torch.float32)
    assert computed == [torch.float32] * 3


GOOD = {"flops": 1.0, "convolved": 2, "bytes": 3.0}


@pytest.mark.parametrize("damaged", [
    "\0", "[]", "[" * 100_000, '{"speed": []}', '{"speed": {"flops": 1}}',
    *(json.dumps({"speed": GOOD | {"flops": wrong}}) for wrong in (0, -1.0, "a", None, True, math.nan, math.inf)),
    json.dumps({"speed": GOOD | {"more": 1.0}})])
def test_a_damaged_speed_is_measured_again(cache, damaged):
    measured = costs.speed_of(CPU)
    (file,) = (cache / "speeds").iterdir()
    file.write_text(damaged)
    again = costs.speed_of(CPU)
    assert all(0 < speed < math.inf for speed in asdict(again).values())
    assert json.loads(file.read_text())["speed"] == asdict(again)
    file.write_text(json.dumps({"speed": GOOD}))
    assert costs.speed_of(CPU) == costs.Speed(**GOOD) != measured


def test_scratch_memory_that_is_no_size_is_measured_again():
    file = costs.Workspaces(CPU)._file
    store.write(file, {"a": 1, "b": -5, "c": True, "d": 1.5, "e": "1", "f": 0})
    assert costs.Workspaces(CPU)._known == {"a": 1, "f": 0}


def test_who_names_the_folder_needs_no_home(monkeypatch, tmp_path):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert store.folder("plans") == tmp_path / "plans"
    monkeypatch.delenv("REMATPLAN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.folder("plans") == tmp_path / "xdg" / "rematplan" / "plans"
