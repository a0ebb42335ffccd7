"""Many replays in slices, as on a machine that is lent for minutes."""

import json

import pytest

from remat_profiler import instance as files
from remat_profiler.cli import main
from remat_profiler.replay import batch
from remat_profiler.replay.once import store_all

from .replaying import JOBS, document_of


@pytest.fixture
def folder(tmp_path):
    made = document_of("dropout", JOBS["dropout"])
    files.write(made, tmp_path / "dropout.json.gz")
    schedule = store_all(made)
    (tmp_path / "good.json").write_text(json.dumps(schedule))
    (tmp_path / "bad.json").write_text(json.dumps(schedule | {"steps": schedule["steps"][1:]}))
    rows = [("dropout.json.gz", "good.json", "records/good.json"), ("dropout.json.gz", "bad.json", "records/bad.json"),
            ("dropout.json.gz", "baseline:plain", "records/plain.json"), ("none.json", "good.json", "records/none.json")]
    (tmp_path / "list.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return tmp_path


def run(folder, *options):
    return main(["replay-batch", str(folder / "list.tsv"), "--repeat", "1", *options])


def test_each_line_becomes_a_record_and_failures_are_records_too(folder, capsys):
    assert run(folder, "--pack") == 0
    read = {path.stem: json.loads(path.read_text()) for path in (folder / "records").iterdir()}
    assert set(read) == {"good", "bad", "plain", "none"}
    assert read["good"]["equality"]["equal"] and read["plain"]["method"] == "pytorch:plain"
    assert read["plain"]["equality"]["equal"] is not False
    assert "not in memory" in read["bad"]["error"] and "cannot read instance" in read["none"]["error"]
    assert {name for name, made in read.items() if "error" in made} == {"bad", "none"}
    first = capsys.readouterr().out
    assert "all 4 records are there; 4 made" in first
    assert run(folder) == 0
    said = capsys.readouterr().out
    assert "4 records are there; 0 made" in said and "timed iterations" not in said
    assert run(folder, "--repeat", "3") == 0
    assert "2 of 4 records that are there have another number of timed iterations than 3" in capsys.readouterr().out


def test_a_slice_that_is_too_short_is_continued_by_the_next(folder, capsys, monkeypatch):
    assert run(folder, "--slice-seconds", "1") == batch.UNFINISHED
    assert "time is up: 0 of 4" in capsys.readouterr().out
    monkeypatch.setattr(batch, "RESERVE_SECONDS", 0.0)
    while run(folder, "--slice-seconds", "0.01", "--pack") == batch.UNFINISHED:
        pass
    assert len(list((folder / "records").iterdir())) == 4


def test_records_of_an_earlier_slice_come_back_from_the_archive(folder, capsys):
    assert run(folder, "--pack") == 0
    for path in (folder / "records").iterdir():
        path.unlink()
    (folder / "records").rmdir()
    assert run(folder) == 0
    assert "0 made" in capsys.readouterr().out.splitlines()[-1]


def test_a_list_that_is_none_is_refused(folder, capsys):
    (folder / "list.tsv").write_text("one\ttwo\n")
    assert run(folder) == 2
    assert "line 1: expected INSTANCE, SCHEDULE and RECORD" in capsys.readouterr().err


def test_a_failed_replay_is_of_the_instance_that_the_list_names(tmp_path):
    """Names have dots: `opt-6.7b-2048-b8` was `opt-6` in its record."""
    (tmp_path / "list.tsv").write_text("nets/opt-6.7b-2048-b8.json.zst\tnone.json\tmade.json\n")
    assert run(tmp_path) == 0
    assert json.loads((tmp_path / "made.json").read_text())["instance"] == "opt-6.7b-2048-b8"
