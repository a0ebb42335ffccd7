"""torchvision's classification networks, without weights."""

from __future__ import annotations

import torchvision
from torch import nn

ABOUT = "classification networks of torchvision (weights=None); NAME_aux has its auxiliary classifiers"

# Weights of the losses where a network with auxiliary classifiers is asked for, its logits first.
AUXILIARY = {"googlenet": (1.0, 0.3, 0.3), "inception_v3": (1.0, 0.4)}


def names() -> list[str]:
    """Names as torchvision lists them."""
    return torchvision.models.list_models(module=torchvision.models) + [f"{name}_aux" for name in AUXILIARY]


def build(name: str) -> nn.Module:
    """Builds one."""
    plain = name.removesuffix("_aux")
    if plain not in AUXILIARY:
        return torchvision.models.get_model(name, weights=None)
    model = torchvision.models.get_model(plain, weights=None, aux_logits=plain != name, init_weights=False)
    if plain != name:
        model.loss_weights = AUXILIARY[plain]
    return model
