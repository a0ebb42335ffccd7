"""Networks of one's own: a file and a name in it."""

import pytest
import torch

from remat_profiler.errors import ProfilerError
from remat_profiler.models import builder

FILE = """
from torch import nn

from blocks import block

class Net(nn.Sequential):
    def __init__(self, width=4):
        super().__init__(block(3, width), nn.Flatten(), nn.Linear(width * 64, 10))

def wide():
    return Net(width=8)

def nothing():
    return 3
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "blocks.py").write_text("from torch import nn\n\ndef block(i, o):\n    return nn.Conv2d(i, o, 3, padding=1)\n")
    path = tmp_path / "my_net.py"
    path.write_text(FILE)
    return path


def test_a_class_and_a_function_build_networks_and_neighbouring_files_are_found(file):
    for name, width in (("Net", 4), ("wide", 8)):
        network = builder(f"{file}:{name}")()
        assert network(torch.zeros(2, 3, 8, 8)).shape == (2, 10)
        assert network[0].out_channels == width


@pytest.mark.parametrize(
    ("name", "words"), [("missing", "defines no function or class 'missing'"), ("nothing", "expected a torch.nn.Module")]
)
def test_what_builds_no_network_is_named(file, name, words):
    with pytest.raises(ProfilerError, match=words):
        builder(f"{file}:{name}")()


def test_a_file_that_is_not_there_or_cannot_be_executed_is_named(tmp_path):
    with pytest.raises(ProfilerError, match="there is no file"):
        builder(f"{tmp_path}/absent.py:Net")
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    with pytest.raises(ProfilerError, match="ZeroDivisionError"):
        builder(f"{broken}:Net")
