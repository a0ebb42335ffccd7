"""The code of the guide and of the tutorial runs as it stands there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .replaying import required_bench

PROFILER = Path(__file__).resolve().parents[1]
GUIDE = PROFILER.parent / "docs" / "guide" / "training.md"
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REPLAY = re.compile(r"^(?:    )?PYTHONPATH=profiler:\. python -m remat_profiler (replay .*)$", re.MULTILINE)
_SOLVE = re.compile(r"^(?:    |# )bench (solve .*)$", re.MULTILINE)


def blocks(page):
    return _PYTHON.findall(page.read_text(encoding="utf-8"))


def run(script, folder):
    environment = os.environ | {"PYTHONPATH": str(PROFILER), "REMAT_BENCH": str(required_bench()),
                                "REMATPLAN_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def replaying(text):
    """A script with a call of `remat_profiler replay` in it."""
    return f"import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'remat_profiler', *{text!r}.split()], check=True)\n"


def solving(text):
    """A script with the calls of `bench solve` of a page in it."""
    return f"import os, subprocess\nsubprocess.run([os.environ['REMAT_BENCH'], *{text!r}.split()], check=True)\n"


@pytest.mark.skipif(not GUIDE.is_file(), reason="the guide is not beside the package")
def test_the_script_of_the_guide_trains_plainly_and_within_its_budget(tmp_path):
    (script,) = [block for block in blocks(GUIDE) if block.startswith('"""')]
    printed = run(script, tmp_path)
    losses = re.search(r"loss after 10 steps: (\S+) plainly, (\S+) within the budget", printed)
    assert float(losses[1]) == pytest.approx(float(losses[2]), abs=2e-3)
    assert "repetitions of" in printed, "something runs again: the budget is not met by keeping everything"


def test_the_tutorial_traces_solves_replays_and_trains(tmp_path):
    page = PROFILER / "TUTORIAL.md"
    text = page.read_text(encoding="utf-8")
    network, made, trained, other = blocks(page)
    (tmp_path / "mymodule.py").write_text(network)
    first, second = _SOLVE.findall(text)
    (replay,) = _REPLAY.findall(text)
    given, applied = other.split(f"# bench {second}\n")
    printed = run(made + solving(first) + replaying(replay) + trained + given + solving(second) + applied, tmp_path)
    assert "operators" in printed and (tmp_path / "other-schedule.json").is_file()
    assert json.loads((tmp_path / "record.json").read_text())["equality"]["equal"]


@pytest.mark.skipif(not GUIDE.is_file(), reason="the guide is not beside the package")
def test_the_guide_replays_as_the_tutorial_does():
    assert _REPLAY.findall(GUIDE.read_text(encoding="utf-8")) == _REPLAY.findall((PROFILER / "TUTORIAL.md").read_text(encoding="utf-8"))
