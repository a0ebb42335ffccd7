"""The command line: files, formats, errors."""

import gzip
import itertools
import json
import os
import re

import pytest
import zstandard

from remat_profiler import instance
from remat_profiler.cli import main, parse_shape
from remat_profiler.costs import measure
from remat_profiler.errors import ProfilerError
from remat_profiler.harvest.networks import HARVESTED
from remat_profiler.job import in_words
from remat_profiler.suites import SUITES, suite

GOOD = {"--model": "toy:conv-bn-relu", "--batch": "2", "--shape": "3x8x8", "--device": "model:v100"}


def run(output, **changes):
    options = GOOD | {f"--{key.replace('_', '-')}": value for key, value in changes.items()}
    return main(["trace", *[word for pair in options.items() for word in pair], "-o", str(output)])


def test_trace_writes_a_complete_instance_and_a_summary(tmp_path, capsys):
    assert run(tmp_path / "tiny.json") == 0
    made = json.loads((tmp_path / "tiny.json").read_text())
    assert made["format"] == "remat-instance" and made["version"] == 1 and made["name"] == "tiny"
    provenance = made["provenance"]
    assert provenance["model"] == "toy:conv-bn-relu" and provenance["batch_size"] == 2
    assert provenance["input_shapes"] == [[2, 3, 8, 8], [2]] and provenance["dtype"] == "float32"
    assert provenance["sizes"] == {"kind": "exact"} and str(tmp_path) not in json.dumps(made)
    assert provenance["command"] == "remat-profiler trace --model toy:conv-bn-relu --batch 2 --shape 3x8x8 --device model:v100"
    text = capsys.readouterr().out
    assert "16 operators" in text and "peak" in text and "modelled" in text


def test_sizes_are_in_the_unit_that_fits():
    assert [in_words(size) for size in (600, 2**20 - 1, 3 << 19, 5 << 30)] == ["600 B", "1023.999 KiB", "1.500 MiB", "5.000 GiB"]


@pytest.mark.parametrize(("slow", "interruptions", "words"), [
    (1, 0, None),
    (9, 0, r"unsteady times: their interquartile range is \d+% of them; trace again"),
    (1, 4, r"unsteady times: other processes interrupted \d+ runs \d+ times; trace again"),
])
def test_trace_says_where_measured_times_are_those_of_a_loaded_machine(tmp_path, capsys, monkeypatch, slow, interruptions, words):
    """Every second sample is slower, or other processes come in between: then all samples may be slow alike."""
    taken, count = itertools.cycle((1000, 1000 * slow)), itertools.count(step=interruptions)
    monkeypatch.setattr(measure, "duration", lambda call, device: next(taken))
    monkeypatch.setattr(measure, "_interruptions", lambda: next(count))
    assert run(tmp_path / "tiny.json", device="cpu") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "unsteady" in line]
    assert len(lines) == (words is not None)
    assert words is None or re.search(words, lines[0])


def test_the_three_formats_hold_the_same_and_compress(tmp_path):
    for suffix in instance.SUFFIXES:
        assert run(tmp_path / f"tiny{suffix}") == 0
    plain = (tmp_path / "tiny.json").read_bytes()
    assert gzip.decompress((tmp_path / "tiny.json.gz").read_bytes()) == plain
    assert zstandard.ZstdDecompressor().decompress((tmp_path / "tiny.json.zst").read_bytes()) == plain
    assert instance.read(tmp_path / "tiny.json.zst") == json.loads(plain)


def test_the_same_command_writes_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        assert run(tmp_path / folder / "tiny.json.zst") == 0
        assert run(tmp_path / folder / "tiny.json.gz") == 0
    for name in ("tiny.json.zst", "tiny.json.gz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("changes,expected", [
    ({"model": "nope:resnet18"}, "unknown model 'nope:resnet18'"),
    ({"model": "torchvision:resnet19"}, "'torchvision' has no 'resnet19'"),
    ({"model": "resnet18"}, "expected FAMILY:NAME"),
    ({"shape": "3x8x"}, "bad shape '3x8x'"),
    ({"shape": "3x0x8"}, "bad shape '3x0x8'"),
    ({"shape": "5x8x8"}, "cannot trace the network with input 2x5x8x8"),
    ({"device": "tpu"}, "unknown device 'tpu'"),
    ({"device": "model:v9"}, "unknown GPU 'v9'"),
    ({"batch": "0"}, "must be at least 1"),
])
def test_bad_requests_are_one_line_and_exit_code_2(tmp_path, capsys, changes, expected):
    assert run(tmp_path / "tiny.json", **changes) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and expected in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name,expected", [
    ("missing/tiny.json", "does not exist"), ("tiny.txt", "must end in"), ("folder.json", "is a directory"),
])
def test_unwritable_outputs_are_refused_before_the_work(tmp_path, capsys, name, expected):
    (tmp_path / "folder.json").mkdir()
    assert run(tmp_path / name) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert run(tmp_path / "tiny.json") == 2
    assert "not writable" in capsys.readouterr().err


def test_a_full_disk_is_one_line(tmp_path, capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    (tmp_path / "tiny.json.partial").symlink_to("/dev/full")
    assert run(tmp_path / "tiny.json") == 2
    assert "cannot write" in capsys.readouterr().err
    assert not (tmp_path / "tiny.json").exists()


def test_the_list_of_models_needs_no_command(capsys):
    assert main(["--list"]) == 0
    assert "torchvision:resnet50" in capsys.readouterr().out


def test_shapes_are_parsed_strictly():
    assert parse_shape("3x224x224") == (3, 224, 224)
    with pytest.raises(ProfilerError):
        parse_shape("3,224,224")


def test_suites_name_every_instance_after_what_it_holds(capsys, tmp_path):
    assert len(suite("resnet")) == 13
    names = [name for chosen in HARVESTED for name in suite(chosen)]
    assert len(names) == len(set(names))  # the harvest keeps them in one folder
    for chosen in SUITES:
        for name, job in suite(chosen).items():
            ending = f"b{job.batch}" + ("" if job.device.startswith("model:") else f"-{job.device}")
            assert name.endswith(ending) and str(job.shape[-1]) in name and job.trace_device == "cpu"
    assert main(["suite", "nope", "-o", str(tmp_path)]) == 2
    assert "unknown suite" in capsys.readouterr().err
