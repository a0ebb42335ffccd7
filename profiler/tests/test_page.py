"""The page of compiled training is made from its rows alone, and its measurement goes on where it stopped."""

import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
import torch

from remat_profiler import turns
from rematplan import page
from rematplan.compared import Bench, Conditions, Row, every_other, methods
from rematplan.networks import NETWORKS, SIZES, Network


def rows():
    return [
        Row("mlp", "eager", "", "a CPU", 120_000_000, 20, 10, 2.0, 0.1),
        Row("mlp", "torch.compile", "", "a CPU", 100_000_000, 10, 10, 1.0, 0.1),
        Row("mlp", "checkpoint-blocks", "compiled", "a CPU", 60_000_000, 15, 10, 1.5, 0.1),
        Row("mlp", "compile-budget-ilp", "0.5", error="ModuleNotFoundError: no scipy | none"),
        Row("mlp", "rematplan", "60%", "a CPU", 59_990_000, 12, 10, 1.2, 0.05, 60_000_000, 58_000_000, 0.1,
            rival="checkpoint-blocks compiled", against=0.81, against_noise=0.02),
        Row("mlp", "rematplan", "50%", "a CPU", 60_500_000, 12, 10, 1.2, 0.05, 50_000_000, 49_000_000, 0.1,
            rival="checkpoint-blocks compiled", against=0.79, against_noise=0.02),
        Row("mlp", "rematplan", "30%", "a CPU", budget_bytes=36_000_000, error="PlanError: no plan within 36000000 bytes"),
        Row("mlp", "rematplan-arena", "60%", error="the process ended by SIGKILL"),
    ]


def test_rows_come_back_from_the_file_as_they_were(tmp_path):
    page.write(tmp_path / "compiled.csv", rows())
    assert page.read(tmp_path / "compiled.csv") == rows()
    assert page.read(tmp_path / "nothing.csv") == []


def test_the_page_says_what_is_over_its_budget_and_how_ours_compares():
    text = page.page(rows(), "cpu")
    assert "| rematplan | 60% | 60.0 | 58.0 | 60.0 | 1.20 ± 0.05 | 0e+00 | 0.81 ± 0.02, checkpoint-blocks compiled |" in text
    assert "| 60.5 (over) |" in text
    assert "no scipy \\| none" in text
    assert "| mlp | 120.0 | 1 of 2 (1 without a plan, 1 failed) | 60.0 | 60.0 | 0.80 (0.79 to 0.81; 2 rows) |" in text
    assert NETWORKS["mlp"][1].words in text


def test_one_thread_and_one_row_are_singular():
    text = page.page([replace(row, device="CPU, 1 threads, torch 2") for row in rows() if row.setting != "50%"], "cpu")
    assert "Measured on CPU, 1 thread, torch 2." in text and "0.81 (0.81 to 0.81; 1 row) |" in text
    assert "CPU, 11 threads" in page.page([replace(row, device="CPU, 11 threads") for row in rows()], "cpu")


def test_every_method_is_asked_for_once_for_every_network_and_the_reference_first():
    asked = list(page.wanted(["mlp", "gpt2"], None))
    assert len(set(asked)) == len(asked) == 2 * sum(map(len, methods()))
    assert asked[:3] == [("mlp", "eager", ""), ("mlp", "torch.compile", ""), ("gpt2", "eager", "")]
    assert list(page.wanted(["mlp"], ["selective-checkpoint"])) == [("mlp", "eager", ""), ("mlp", "selective-checkpoint", "compiled")]


def test_a_measurement_goes_on_where_it_was_killed(tmp_path, monkeypatch):
    asked = []

    def found(key, others, conditions, limit):
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append((key, others))
        return Row(*key, peak_bytes=7)

    monkeypatch.setattr(page, "measured", found)
    arguments = [str(tmp_path), "--networks", "mlp", "--only", "rematplan"]
    with pytest.raises(KeyboardInterrupt):
        page.main(arguments)
    assert "eager" in (tmp_path / "README.md").read_text()
    asked.clear()
    monkeypatch.setattr(page, "measured", lambda key, *rest: (asked.append((key, rest[0])), Row(*key, peak_bytes=7))[1])
    assert page.main(arguments) == 0
    eager = [Row("mlp", "eager", "", peak_bytes=7)]
    assert asked == [(("mlp", "rematplan", f"{share}%"), eager) for share in (60, 50, 40, 30)], "80% was there"
    assert page.main([*arguments, "--slice-seconds", "-1"]) == 0, "nothing is left to begin"
    assert page.main([str(tmp_path), "--networks", "gpt2", "--slice-seconds", "-1"]) == page.UNFINISHED


def test_a_row_of_ours_is_measured_again_when_a_faster_method_came_after_it(tmp_path, monkeypatch):
    def row(method, setting, peak, slower, rival=""):
        return Row("mlp", method, setting, "a CPU", peak, slower=slower, rival=rival)

    page.write(tmp_path / "compiled.csv", [
        row("eager", "", 120, 1.5), row("rematplan", "80%", 100, 1.1, "compile-budget-dp 0.5"), row("rematplan", "60%", 50, 1.1),
        row("rematplan", "50%", 100, 1.1, "compile-budget-ilp 0.5"), row("compile-budget-dp", "0.5", 99, 1.2),
        row("compile-budget-ilp", "0.5", 100, 1.0), row("rematplan-sets", "80%", 90, 0.9)])
    asked = []
    monkeypatch.setattr(page, "measured", lambda key, others, *_: (asked.append(key), row(*key[1:], 100, 1.0, "compile-budget-ilp 0.5"))[1])
    rows = page.read(tmp_path / "compiled.csv")
    assert [row.key[1:] for row in rows if page._outrun(row, rows)] == [("rematplan", "80%")]
    assert page.main([str(tmp_path), "--networks", "mlp", "--only", "rematplan", "compile-budget-dp"]) == 0
    assert asked[-1] == ("mlp", "rematplan", "80%")
    assert not any(page._outrun(row, page.read(tmp_path / "compiled.csv")) for row in page.read(tmp_path / "compiled.csv"))


def test_a_rival_that_fails_leaves_a_row_without_a_comparison(monkeypatch):
    def refuses(_rival):
        raise RuntimeError("does not compile")

    bench, layer = Bench.__new__(Bench), torch.nn.Linear(1, 1)
    bench.network, bench.conditions = Network(layer, (), torch.sum, ()), Conditions(samples=2)
    bench.reference = lambda: layer(torch.ones(1)).sum()
    monkeypatch.setattr(bench, "_chosen", refuses)
    row = Row("mlp", "rematplan", "50%")
    bench._time(row, bench.reference, Row("mlp", "compile-budget-dp", "0.5"))
    assert row.time_ns > 0 and row.slower > 0 and row.against == 0 and not row.error
    assert row.rival == "compile-budget-dp 0.5 (RuntimeError: does not compile)"
    assert page._line(row).endswith("| compile-budget-dp 0.5 (RuntimeError: does not compile) |")


def test_rows_with_errors_are_measured_again_when_asked(tmp_path, monkeypatch):
    page.write(tmp_path / "compiled.csv", [Row("mlp", "eager", "", error="gone")])
    monkeypatch.setattr(page, "measured", lambda key, *_: Row(*key, peak_bytes=7))
    assert page.main([str(tmp_path), "--networks", "mlp", "--only", "eager"]) == 0
    assert page.read(tmp_path / "compiled.csv")[0].error == "gone"
    assert page.main([str(tmp_path), "--networks", "mlp", "--only", "eager", "--retry"]) == 0
    assert page.read(tmp_path / "compiled.csv") == [replace(Row("mlp", "eager", ""), peak_bytes=7)]


@pytest.mark.parametrize("words, body", [("not done after 1 s", "sleep 60"), ("ended by SIGKILL", "kill -9 $$"),
                                         ("ended with code 3: out of luck", "echo out of luck >&2; exit 3"),
                                         ("code 1: RuntimeError: bad", "printf 'RuntimeError: bad\\nmore of it\\n' >&2; exit 1")])
def test_a_row_whose_process_ends_without_it_says_so(tmp_path, monkeypatch, words, body):
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{body}\n")
    os.chmod(script, 0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    row = page.measured(("mlp", "eager", ""), (), Conditions(), 1.0)
    assert words in row.error and row.key == ("mlp", "eager", "")


def test_a_measurement_that_is_told_to_end_takes_its_row_along(tmp_path):
    script, note = tmp_path / "python", tmp_path / "pid"
    script.write_text(f"#!/bin/sh\necho $$ > {note}\nexec sleep 300\n")
    os.chmod(script, 0o755)
    code = f"import sys; from rematplan import page; sys.executable = {str(script)!r}; page.main([{str(tmp_path)!r}])"
    driver = subprocess.Popen([sys.executable, "-c", code])
    while not (note.exists() and note.read_text().strip()):
        assert driver.poll() is None
        time.sleep(0.1)
    driver.terminate()
    assert driver.wait(60) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_give_a_loss_and_name_blocks_at_the_size_of_a_trial(name):
    made = NETWORKS[name][SIZES.index("trial")].build()
    made.loss(made.module(*made.inputs)).backward()
    inside = set(made.module.modules())
    assert made.blocks and all(block in inside for block in made.blocks)
    assert all(p.grad is not None for p in made.module.parameters())


def test_selective_checkpointing_decides_alike_in_both_passes():
    import torch

    class Context:
        def __init__(self, again):
            self.is_recompute = again

    policy, product = every_other(), torch.ops.aten.mm.default
    passes = [[policy(Context(again), product).name for _ in range(4)] for again in (False, True)]
    assert passes[0] == passes[1] == ["MUST_SAVE", "PREFER_RECOMPUTE"] * 2


def test_rows_are_prepared_at_once_and_take_turns(tmp_path, monkeypatch):
    seen, together = [], threading.Barrier(3)

    def one(key, others, *_):
        together.wait(60)
        seen.append(os.environ[turns.VARIABLE])
        return Row(*key, peak_bytes=7 + len(others))

    monkeypatch.setattr(page, "measured", one)
    options = [str(tmp_path), "--networks", "mlp", "gpt2", "llama", "--only", "eager", "rematplan:60%", "--jobs", "3"]
    assert page.main(options) == 0
    rows = page.read(tmp_path / "compiled.csv")
    assert [row.words for row in rows] == ["eager"] * 3 + ["rematplan 60%"] * 3
    assert [row.peak_bytes for row in rows] == [7] * 3 + [8] * 3, "those of one round do not know each other"
    assert len(seen) == 6 and len(set(seen)) == 2 and turns.VARIABLE not in os.environ


def test_no_rows_at_once_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        page.main([str(tmp_path), "--jobs", "0"])
    assert "--jobs 0: at least one row at once" in capsys.readouterr().err


def test_who_measures_waits_for_those_who_prepare_and_has_the_device_to_the_end(tmp_path):
    code = "import sys; from remat_profiler import turns; getattr(turns, sys.argv[1])(); print('here', flush=True); sys.stdin.read()"

    def start(kind):
        return subprocess.Popen([sys.executable, "-c", code, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, turns.VARIABLE: str(tmp_path / "lock")})

    first, second = start("prepare"), start("prepare")
    assert first.stdout.readline() == second.stdout.readline() == "here\n", "both at once"
    third = start("measure")
    first.communicate("")
    assert not select.select([third.stdout], [], [], 0.5)[0], "one still prepares"
    second.communicate("")
    assert third.stdout.readline() == "here\n"
    fourth = start("prepare")
    assert not select.select([fourth.stdout], [], [], 0.5)[0]
    third.kill()
    assert fourth.stdout.readline() == "here\n"
    third.communicate(), fourth.communicate("")


def test_a_folder_that_cannot_be_read_or_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "compiled.csv").write_text("a,b\n1,2\n")
    for out, words in (("file", "cannot write"), ("none/below", "does not exist"), ("other", "is no table of measured rows")):
        assert page.main([str(tmp_path / out), "--page-only"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("error: ") and words in said and said.count("\n") == 1, said
    assert not (tmp_path / "none").exists()
