"""The registry of networks: `family:name`, one file per family, one line here.

A family lists its names and builds a module from one of them. It must not know of tracing or of
devices: whoever calls it sees to it that parameters are not allocated (`capture`).

A module returns logits (batch x classes ...), or a tuple of them where it has auxiliary classifiers;
then its attribute `loss_weights` says what the cross-entropy of each counts. Where its attribute
`takes_tokens` is true it reads integers instead of images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ..errors import ProfilerError
from . import chainer, keras, preact, timm, toy, transformers, unet, vision


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
    "toy": Family(toy.names, toy.build, toy.ABOUT),
}


def builder(model: str) -> Callable[[], nn.Module]:
    """The function that builds `family:name`; raises `ProfilerError` for an unknown one."""
    family_name, separator, name = model.partition(":")
    if not separator or family_name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ProfilerError(f"unknown model '{model}': expected FAMILY:NAME with FAMILY one of {known}")
    family = FAMILIES[family_name]
    if name not in family.names():
        raise ProfilerError(f"unknown model '{model}': '{family_name}' has no '{name}' (see --list)")
    return lambda: family.build(name)


def listing() -> str:
    """All models, for `--list`."""
    lines = []
    for prefix, family in FAMILIES.items():
        lines.append(f"{prefix}: {family.about}")
        lines += [f"  {prefix}:{name}" for name in family.names()]
    return "\n".join(lines)
