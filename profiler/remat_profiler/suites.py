"""The committed sets of instances: which command makes which file.

All are traced with fake CPU tensors, so that a machine with a GPU makes the same files.
"""

from __future__ import annotations

from .errors import ProfilerError
from .job import Job

DEVICE = "model:v100"


def _resnet() -> dict[str, Job]:
    """Figures 6 and 7 of Rotor's ToMS paper, and torchvision's ResNets at their usual size."""
    jobs = {}
    for batch in (1, 2, 4, 8):
        jobs[f"resnet101-1000-b{batch}"] = _job("torchvision:resnet101", batch, 1000)
    for batch in (1, 2, 4, 8):
        jobs[f"resnet1001-224-b{batch}"] = _job("preact:resnet1001", batch, 224)
    for depth in (18, 34, 50, 101, 152):
        jobs[f"resnet{depth}-224-b32"] = _job(f"torchvision:resnet{depth}", 32, 224)
    return jobs


def _job(model: str, batch: int, side: int) -> Job:
    return Job(model, batch, (3, side, side), DEVICE, "cpu")


SUITES = {"resnet": _resnet}


def suite(name: str) -> dict[str, Job]:
    """Jobs of a suite by the name of their instance."""
    if name not in SUITES:
        raise ProfilerError(f"unknown suite '{name}': expected one of {', '.join(SUITES)}")
    return SUITES[name]()
