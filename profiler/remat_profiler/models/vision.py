"""torchvision's classification networks, without weights."""

from __future__ import annotations

import torchvision
from torch import nn

ABOUT = "classification networks of torchvision (weights=None)"


def names() -> list[str]:
    """Names as torchvision lists them."""
    return torchvision.models.list_models(module=torchvision.models)


def build(name: str) -> nn.Module:
    """Builds one; auxiliary classifiers are left out, they return tuples in training."""
    options = {"aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    if options:
        options["init_weights"] = False
    return torchvision.models.get_model(name, weights=None, **options)
