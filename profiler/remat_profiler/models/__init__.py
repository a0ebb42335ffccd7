"""The registry of networks: `family:name`, one file per family, one line here.

A family lists its names and builds a module from one of them. It must not know of tracing or of
devices: whoever calls it sees to it that parameters are not allocated (`capture`).

A module returns logits (batch x classes ...), or a tuple of them where it has auxiliary classifiers;
then its attribute `loss_weights` says what the cross-entropy of each counts. Where its attribute
`takes_tokens` is true it reads integers instead of images. Where it reads more than that, `more_inputs` says the name,
shape (of one sample) and dtype of each further input, in order. Where `regresses` is true, labels are numbers of the output's
shape and the loss is the mean squared difference.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ..errors import ProfilerError
from . import chainer, keras, large, preact, sdxl, timm, toy, transformers, unet, vision


@dataclass(frozen=True)
class Family:
    """A group of networks that are built by the same code."""

    names: Callable[[], list[str]]
    build: Callable[[str], nn.Module]
    about: str


FAMILIES: dict[str, Family] = {
    "torchvision": Family(vision.names, vision.build, vision.ABOUT),
    "preact": Family(preact.names, preact.build, preact.ABOUT),
    "keras": Family(keras.names, keras.build, keras.ABOUT),
    "unet": Family(unet.names, unet.build, unet.ABOUT),
    "chainer": Family(chainer.names, chainer.build, chainer.ABOUT),
    "timm": Family(timm.names, timm.build, timm.ABOUT),
    "transformers": Family(transformers.names, transformers.build, transformers.ABOUT),
    "large": Family(large.names, large.build, large.ABOUT),
    "sdxl": Family(sdxl.names, sdxl.build, sdxl.ABOUT),
    "toy": Family(toy.names, toy.build, toy.ABOUT),
}


OWN = "python"


def builder(model: str) -> Callable[[], nn.Module]:
    """The function that builds `family:name`, or the one that `python:MODULE:FUNCTION` names; raises `ProfilerError`
    for an unknown one."""
    family_name, separator, name = model.partition(":")
    if family_name == OWN and ":" in name:
        return _own(model, *name.split(":", 1))
    if family_name == OWN:
        raise ProfilerError(f"model '{model}' names no function that builds the network: expected {OWN}:MODULE:FUNCTION "
                            "(with trace_module, as its `name`)")
    if not separator or family_name not in FAMILIES:
        known = ", ".join([*FAMILIES, OWN])
        raise ProfilerError(f"unknown model '{model}': expected FAMILY:NAME with FAMILY one of {known}")
    family = FAMILIES[family_name]
    if name not in family.names():
        raise ProfilerError(f"unknown model '{model}': '{family_name}' has no '{name}' (see --list)")
    return lambda: family.build(name).train()


def _own(model: str, module: str, function: str) -> Callable[[], nn.Module]:
    """A function of the user's own, from Python's path."""
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ProfilerError(f"model '{model}': {error}; expected {OWN}:MODULE:FUNCTION, with MODULE on PYTHONPATH") from error


def listing() -> str:
    """All models, for `--list`."""
    lines = [f"{OWN}: your own: {OWN}:MODULE:FUNCTION, a function without arguments that returns a torch.nn.Module"]
    for prefix, family in FAMILIES.items():
        lines.append(f"{prefix}: {family.about}")
        lines += [f"  {prefix}:{name}" for name in family.names()]
    return "\n".join(lines)
