"""The committed sets of instances: which command makes which file.

All are traced with fake CPU tensors, so that a machine with a GPU makes the same files.
"""

from __future__ import annotations

from dataclasses import replace

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


def _checkmate() -> dict[str, Job]:
    """The networks of Checkmate's evaluation, at the batch sizes of its published graphs (256 and 32; VGG-19,
    MobileNet and U-Net at a second one too, from which sizes at any batch follow), each with modelled times and with
    FLOPs, the costs under which the paper looks for the largest batch."""
    classifiers = {
        "vgg16": ("keras:vgg16", (256,)), "vgg19": ("keras:vgg19", (128, 256)),
        "mobilenet": ("keras:mobilenet", (256, 512)), "resnet50": ("torchvision:resnet50", (256,)),
    }
    segmenters = {"unet": (16, 32), "fcn8": (32,), "segnet": (32,)}
    jobs = {}
    for name, (model, batches) in classifiers.items():
        for batch in batches:
            jobs[f"{name}-224-b{batch}"] = _job(model, batch, 224)
    for name, batches in segmenters.items():
        for batch in batches:
            jobs[f"{name}-416x608-b{batch}"] = _job(f"keras:{name}", batch, 416, 608)
    return _with_abstract(jobs, "flops")


def _kusumoto() -> dict[str, Job]:
    """Table 1 of Kusumoto et al. 2019 at its batch sizes, on its device."""
    rows = {
        "pspnet": ("chainer:pspnet", 2, 713), "unet": ("unet:original", 8, 572),
        "resnet50": ("torchvision:resnet50", 96, 224), "resnet152": ("torchvision:resnet152", 48, 224),
        "vgg19": ("torchvision:vgg19", 64, 224), "densenet161": ("torchvision:densenet161", 32, 224),
        "googlenet": ("chainer:googlenet", 256, 224),
    }
    return {f"{name}-{side}-b{batch}": _job(model, batch, side, device="model:k40")
            for name, (model, batch, side) in rows.items()}


def _job(model: str, batch: int, height: int, width: int | None = None, device: str = DEVICE) -> Job:
    return Job(model, batch, (3, height, width or height), device, "cpu")


def _with_abstract(jobs: dict[str, Job], device: str) -> dict[str, Job]:
    """Each network with the costs of its device and then, as NAME-flops or NAME-unit, with counted ones."""
    both = {}
    for name, job in jobs.items():
        both |= {name: job, f"{name}-{device}": replace(job, device=device)}
    return both


SUITES = {"resnet": _resnet, "checkmate": _checkmate, "kusumoto": _kusumoto}


def suite(name: str) -> dict[str, Job]:
    """Jobs of a suite by the name of their instance."""
    if name not in SUITES:
        raise ProfilerError(f"unknown suite '{name}': expected one of {', '.join(SUITES)}")
    return SUITES[name]()
