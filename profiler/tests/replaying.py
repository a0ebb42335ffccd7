"""What the tests of the replay share: small networks of each kind, and schedules by the methods of `bench`.

Schedules come from the binary: $REMAT_BENCH, or target/{release,debug}/bench of the checkout (`just
test-profiler` builds it first). Where there is none the tests that need it are skipped, and say so.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

from remat_profiler import check, instance
from remat_profiler.alternatives.attach import attach
from remat_profiler.costs import cost_source
from remat_profiler.instance import Header, document
from remat_profiler.job import Job, traced
from remat_profiler.replay import job

CHECKOUT = Path(__file__).resolve().parents[2]

# One of each kind; together they have every alternative of the modelled instances.
JOBS = {
    "chain": Job("toy:chain", 4, (3, 16, 16), "model:v100", "cpu", alternatives=True,
                 split_convolution_backward=True, split_batch_norm=True),
    "residual": Job("toy:residual", 4, (3, 16, 16), "model:v100", "cpu", alternatives=True),
    "unet-skip": Job("toy:unet-skip", 2, (3, 16, 16), "model:v100", "cpu", alternatives=True),
    "dropout": Job("toy:dropout-mlp", 8, (16,), "model:v100", "cpu", alternatives=True),
    "transformer": Job("toy:transformer", 2, (8,), "model:v100", "cpu"),
}
SETTINGS = job.Settings(repeats=1)


def document_of(name, wanted):
    """An instance whose memory is all storages: no modelled workspaces, which a CPU does not take."""
    trace, costs = traced(wanted), cost_source(wanted.device, 1)
    made = document(Header(name, wanted.model, wanted.batch, wanted.shape, wanted.command), trace, costs)
    if wanted.alternatives or wanted.gist:
        attach(made, trace, costs, wanted.alternatives, wanted.gist)
    for operator in made["operators"]:
        for implementation in operator["implementations"]:
            implementation.pop("workspace_bytes", None)
    assert check.problems(made) == []
    return made


def bench_binary():
    """The harness, or None."""
    named = os.environ.get("REMAT_BENCH")
    if named:
        assert Path(named).is_file(), f"REMAT_BENCH names no file: {named}"
        return Path(named)
    target = Path(os.environ.get("CARGO_TARGET_DIR", CHECKOUT / "target"))
    return next((path for kind in ("release", "debug") if (path := target / kind / "bench").is_file()), None)


def required_bench():
    """The harness; skips the test aloud where it is not built."""
    binary = bench_binary()
    if binary is None:
        pytest.skip("no bench binary: build it with `cargo build -p bench`, or name it in REMAT_BENCH")
    return binary


def methods(binary):
    """Every method of the registry."""
    listed = subprocess.run([binary, "methods"], capture_output=True, text=True, check=True).stdout
    return [line.partition(":")[0] for line in listed.splitlines() if line[:1].isalpha()]


def run_suite(binary, folder, instances, budgets):
    """Every method on every instance, in a library of its own; the folder of schedules."""
    library = folder / "instances"
    (library / "suites").mkdir(parents=True)
    (library / "nets").mkdir()
    for name, made in instances.items():
        instance.write(made, library / "nets" / f"{name}.json")
    lines = ['name = "replay"', 'title = "replay"', 'analysis = "none"', 'instances = ["nets/*"]',
             f"budgets = {json.dumps(budgets)}", "[limits]", "time_seconds = 2", "threads = 1"]
    lines += [f'[[methods]]\nid = "{method}"' for method in methods(binary)]
    (library / "suites" / "replay.toml").write_text("\n".join(lines) + "\n")
    done = subprocess.run([binary, "run", "--suite", "replay", "--out", "out", "--no-plots"], cwd=folder,
                          capture_output=True, text=True, check=False)
    assert (folder / "out" / "records.csv").is_file(), done.stderr
    return folder / "out"


def bench_of(made, settings=SETTINGS):
    """A network ready to replay schedules of its instance."""
    torch.set_num_threads(1)
    return job.bench(made, settings)
