"""Schedules of every method of `bench`, run for real on a network of each kind.

Gradients, loss and buffers are those of the framework's own iteration, and memory during every step is what
the simulator says.
"""

import csv
import subprocess

import pytest

from remat_profiler import instance
from remat_profiler.replay import job, reference
from remat_profiler.replay.machine import Account, Machine
from remat_profiler.replay.plan import expectation, plan

from .replaying import JOBS, bench_of, document_of, methods, required_bench, run_suite


@pytest.fixture(scope="session")
def schedules(tmp_path_factory):
    """Instances, and the results of every method on them."""
    binary = required_bench()
    folder = tmp_path_factory.mktemp("methods")
    instances = {name: document_of(name, wanted) for name, wanted in JOBS.items()}
    out = run_suite(binary, folder, instances, ["0.6x", "0.8x", "1.0x"])
    with (out / "records.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return binary, folder, instances, rows


@pytest.mark.parametrize("name", JOBS)
def test_every_schedule_gives_the_frameworks_gradients_and_the_simulators_memory(schedules, name, tmp_path):
    binary, folder, instances, _ = schedules
    files = sorted((folder / "out" / "schedules" / name).glob("*.json.zst"))
    assert len(files) >= 12, [file.name for file in files]
    bench = bench_of(instances[name])
    for file in files:
        schedule = instance.parsed(file)
        chosen = plan(bench.instance, schedule)
        machine, account = Machine(chosen, bench.trace, bench.module, bench.device), Account()
        outcome = bench.outcome(lambda machine=machine, account=account: machine.run(bench.inputs, account))
        compared = reference.compare(bench.expected, outcome, job.tolerance_of(chosen))
        assert compared.equal, (file.name, compared.beyond[:3], compared.missing[:3])
        assert not account.odd_sizes, (file.name, account.odd_sizes)
        assert account.timeline == simulated(binary, folder, name, file, tmp_path), file.name
        expected = expectation(chosen)
        assert account.timeline == expected.timeline and account.peak_bytes == expected.peak_bytes


def simulated(binary, folder, name, file, tmp_path):
    """Memory during each step by the simulator of `bench`; its exit code also says that the claims hold."""
    timeline = tmp_path / "timeline.csv"
    done = subprocess.run([binary, "verify", folder / "instances" / "nets" / f"{name}.json", file, "--timeline", timeline],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with timeline.open(encoding="utf-8") as read:
        return [int(row["memory_bytes"]) for row in csv.DictReader(read)]


def test_every_method_has_a_schedule_that_was_run(schedules):
    binary, _, _, rows = schedules
    answered = {row["method"] for row in rows if row["simulated_time"]}
    # Bounds have no schedule; the oracle takes about a dozen operators; kusumoto-chen and the like at least one network.
    without = {method for method in methods(binary) if method not in answered}
    # These networks are traced without Gist's encodings, which test_replay_implementations.py runs.
    assert without <= {"checkmate-lp", "free-order-bound", "gist", "monet-lp", "oracle"}, without


def test_schedules_that_use_alternatives_are_among_them(schedules):
    _, folder, _, _ = schedules
    used = set()
    for file in (folder / "out" / "schedules").rglob("*.json.zst"):
        used |= {step["implementation"] for step in instance.parsed(file)["steps"] if "implementation" in step}
    assert {"recompute", "relu:in-place"} <= used, used
