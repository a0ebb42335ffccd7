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


def _resnet_alternatives() -> dict[str, Job]:
    """torchvision's ResNets of `resnet` at their usual size, with everything from which MONeT chooses."""
    return {name.replace("-224", "-alternatives-224"): _with_alternatives(job)
            for name, job in _resnet().items() if name.endswith("-224-b32")}


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


def _rotor() -> dict[str, Job]:
    """The networks of Rotor's papers besides those in `resnet`, at the three image sizes of Section 5.

    The papers say only that batch sizes are powers of 2; here 32, 8 and 2, and 1 for ResNet-1001. VGG
    is named among the networks that the tool implements; GoogLeNet stands for the older inception."""
    models = {f"densenet{depth}": f"torchvision:densenet{depth}" for depth in (121, 161, 169, 201)}
    models |= {"inception-v3": "torchvision:inception_v3", "resnet200": "preact:resnet200"}
    models |= {f"resnet{depth}": f"torchvision:resnet{depth}" for depth in (18, 34, 50, 101, 152)}
    sizes = {224: 32, 500: 8, 1000: 2}
    jobs = {f"{name}-{side}-b{batch}": _job(model, batch, side)
            for name, model in models.items() for side, batch in sizes.items()}
    for name, model in (("vgg11", "vgg11"), ("vgg16", "vgg16"), ("vgg19", "vgg19"), ("googlenet", "googlenet")):
        jobs[f"{name}-224-b32"] = _job(f"torchvision:{model}", 32, 224)
    for side in (500, 1000):
        jobs[f"resnet1001-{side}-b1"] = _job("preact:resnet1001", 1, side)
    return {name: job for name, job in jobs.items() if name not in _resnet()}


def _monet() -> dict[str, Job]:
    """MONeT's networks at the batch sizes of its Figure 3 and Appendix J, on its device, with everything that
    it chooses from: algorithms of convolutions (modelled), other backward implementations, in-place rectifiers,
    convolution backward in two operators, batch norm statistics that are kept for recomputation."""
    image, segmented, volume = (3, 224, 224), (3, 416, 608), (1, 48, 80, 80)
    rows = {
        "resnet50-224-b184": ("torchvision:resnet50", 184, image),
        "vgg16-224-b176": ("torchvision:vgg16", 176, image),
        "googlenet-224-b320": ("torchvision:googlenet_aux", 320, image),
        "mobilenet-v2-224-b272": ("torchvision:mobilenet_v2", 272, image),
        "unet-416x608-b11": ("unet:monet", 11, segmented),
        "unet3d-48x80x80-b22": ("unet:3d", 22, volume),
    }
    return {name: _with_alternatives(Job(model, batch, shape, "model:p100", "cpu"))
            for name, (model, batch, shape) in rows.items()}


def _fastsa() -> dict[str, Job]:
    """The models of FastSA's Tables 3 to 5 at the batch sizes and contexts of its simulations, on its device,
    and once more with its unit costs."""
    from .models import timm, transformers

    jobs = {f"{name.removesuffix('_224').replace('_', '-')}-224-b512": _job(f"timm:{name}", 512, 224, device="model:a100")
            for name in timm.NAMES}
    for name in transformers.CONFIGURATIONS:
        batch, context = (128, 512) if name in transformers.TEXT else (8, 1024 if name == "gpt2" else 2048)
        jobs[f"{name}-{context}-b{batch}"] = Job(f"transformers:{name}", batch, (context,), "model:a100", "cpu")
    return _with_abstract({name: replace(job, graph_size=True) for name, job in jobs.items()}, "unit")


KUSUMOTO = {
    "pspnet": ("chainer:pspnet", 2, 713), "unet": ("unet:original", 8, 572),
    "resnet50": ("torchvision:resnet50", 96, 224), "resnet152": ("torchvision:resnet152", 48, 224),
    "vgg19": ("torchvision:vgg19", 64, 224), "densenet161": ("torchvision:densenet161", 32, 224),
    "googlenet": ("chainer:googlenet", 256, 224),
}


def _kusumoto() -> dict[str, Job]:
    """Table 1 of Kusumoto et al. 2019 at its batch sizes, on its device."""
    return {f"{name}-{side}-b{batch}": _job(model, batch, side, device="model:k40")
            for name, (model, batch, side) in KUSUMOTO.items()}


def _kusumoto_batches() -> dict[str, Job]:
    """The same networks at a half to four times these batch sizes, for its Figure 3; batch norm over PSPNet's smallest
    map needs two images."""
    return {f"{name}-{side}-b{batch}": _job(model, batch, side, device="model:k40")
            for name, (model, table_1, side) in KUSUMOTO.items()
            for batch in (table_1 * halves // 2 for halves in (1, 3, 4, 6, 8)) if batch > 1}


def _large() -> dict[str, Job]:
    """Networks of thousands of operators, on an A100. The batches are so large that a fifth of the peak holds parameters and
    their gradients, which no schedule can do without."""
    tokens = {"llama2-70b": (16, 2048), "llama3.1-405b": (32, 2048), "gpt3-175b": (16, 2048), "m2m100-1.2b": (32, 512)}
    jobs = {f"{name}-{length}-b{batch}": Job(f"large:{name}", batch, (length,), "model:a100", "cpu")
            for name, (batch, length) in tokens.items()}
    jobs["vit-22b-224-b256"] = _job("large:vit-22b", 256, 224, device="model:a100")
    jobs["sdxl-unet-128-b8"] = Job("sdxl:unet", 8, (4, 128, 128), "model:a100", "cpu")
    return jobs


def _job(model: str, batch: int, height: int, width: int | None = None, device: str = DEVICE) -> Job:
    return Job(model, batch, (3, height, width or height), device, "cpu")


def _with_alternatives(job: Job) -> Job:
    return replace(job, convolutions="model", alternatives=True, split_convolution_backward=True, split_batch_norm=True)


def _with_abstract(jobs: dict[str, Job], device: str) -> dict[str, Job]:
    """Each network with the costs of its device and then, as NAME-flops or NAME-unit, with counted ones."""
    both: dict[str, Job] = {}
    for name, job in jobs.items():
        both |= {name: job, f"{name}-{device}": replace(job, device=device)}
    return both


SUITES = {"resnet": _resnet, "resnet-alternatives": _resnet_alternatives, "checkmate": _checkmate, "kusumoto": _kusumoto,
          "kusumoto-batches": _kusumoto_batches, "rotor": _rotor, "monet": _monet, "fastsa": _fastsa,
          "large": _large}


def suite(name: str) -> dict[str, Job]:
    """Jobs of a suite by the name of their instance."""
    if name not in SUITES:
        raise ProfilerError(f"unknown suite '{name}': expected one of {', '.join(SUITES)}")
    return SUITES[name]()
