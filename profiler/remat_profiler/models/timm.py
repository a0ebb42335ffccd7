"""timm's image classifiers, without weights.

Attention is computed operator by operator, not by a fused kernel: FastSA's graphs (timm 0.9.1, spring of
2023) have their number of nodes only in this way, and a fused kernel leaves little to rematerialize.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from ..errors import ProfilerError

ABOUT = "image classifiers of timm in FastSA's Table 3 (no weights, attention not fused)"

# The models of FastSA's Table 3.
NAMES = (
    "convnext_tiny", "convnextv2_large", "eva02_large_patch14_224", "vit_large_patch16_224", "vit_small_patch16_224",
    "mobilenetv3_large_100", "efficientnet_b0", "deit3_base_patch16_224", "xcit_tiny_12_p16_224",
    "beit_base_patch16_224", "coatnet_2_rw_224", "vgg11", "resnet18",
)


def names() -> list[str]:
    """The models of FastSA's Table 3."""
    return list(NAMES)


def build(name: str) -> nn.Module:
    """Builds one."""
    with attention_not_fused() as timm:
        network: nn.Module = timm.create_model(name, pretrained=False)
        return network


@contextlib.contextmanager
def attention_not_fused() -> Iterator[Any]:
    """timm, told to build attention operator by operator."""
    try:
        import timm
    except ImportError as error:
        raise ProfilerError("this model needs timm (scripts/setup.sh --profiler installs it)") from error
    fused = timm.layers.use_fused_attn()
    timm.layers.set_fused_attn(False)
    try:
        yield timm
    finally:
        timm.layers.set_fused_attn(fused)
