"""Networks of the page: what is trained, on how much data, and where its blocks are. CPUs train each in seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from .errors import PlanError


@dataclass(frozen=True)
class Network:
    """A module, inputs, a loss of its output, and the modules that per-block checkpointing wraps."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    loss: Callable[[Any], torch.Tensor]
    blocks: tuple[nn.Module, ...]


class _Block(nn.Module):
    """Of a decoder. `gated` as Llama's: RMS norms, SwiGLU and no biases; else as GPT-2's."""

    def __init__(self, width: int, heads: int, gated: bool) -> None:
        super().__init__()
        norm, hidden = (nn.RMSNorm, 8 * width // 3) if gated else (nn.LayerNorm, 4 * width)
        self.heads, self.gated = heads, gated
        self.first, self.second = norm(width), norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=not gated), nn.Linear(width, width, bias=not gated)
        self.up = nn.Linear(width, 2 * hidden if gated else hidden, bias=not gated)
        self.down = nn.Linear(hidden, width, bias=not gated)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, d))
        h = self.up(self.second(x))
        if self.gated:
            gate, h = h.chunk(2, -1)
            return x + self.down(F.silu(gate) * h)
        return x + self.down(F.gelu(h))


class _Decoder(nn.Module):
    def __init__(self, width: int, layers: int, heads: int, words: int, length: int, gated: bool) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(_Block(width, heads, gated) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _decoder(width: int, layers: int, batch: int, length: int, gated: bool = False, words: int = 2048) -> Network:
    tokens = torch.randint(0, words, (batch, length))
    module = _Decoder(width, layers, max(1, width // 64), words, length, gated)
    return Network(module, (tokens,), lambda y: F.cross_entropy(y.flatten(0, 1), tokens.flatten()), tuple(module.blocks))


def _mlp(width: int, depth: int, batch: int) -> Network:
    module = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)))
    return Network(module, (torch.randn(batch, width),), lambda y: y.square().mean(), tuple(module))


def _resnet(name: str, batch: int, size: int) -> Network:
    from torchvision import models

    module = models.get_model(name, weights=None, num_classes=100)
    labels = torch.arange(batch) % 100
    blocks = tuple(block for layer in (module.layer1, module.layer2, module.layer3, module.layer4) for block in layer)
    return Network(module, (torch.randn(batch, 3, size, size),), lambda y: F.cross_entropy(y, labels), blocks)


def _vit(batch: int, size: int) -> Network:
    from torchvision.models import VisionTransformer

    module = VisionTransformer(size, 16, 6, 6, 384, 1536, num_classes=100)
    labels = torch.arange(batch) % 100
    blocks = tuple(module.encoder.layers.children())
    return Network(module, (torch.randn(batch, 3, size, size),), lambda y: F.cross_entropy(y, labels), blocks)


class _Step(nn.Module):
    """Two convolutions of a U-Net."""

    def __init__(self, inside: int, out: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inside, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
                                  nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class _UNet(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        sizes = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(_Step(a, b) for a, b in zip([3, *sizes], sizes))
        self.up = nn.ModuleList(_Step(a + b, b) for a, b in zip(sizes[:0:-1], sizes[-2::-1]))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for index, step in enumerate(self.down):
            x = step(x if index == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        kept.pop()
        for step in self.up:
            x = step(torch.cat([F.interpolate(x, scale_factor=2.0), kept.pop()], 1))
        return self.head(x)


def _unet(batch: int, size: int) -> Network:
    module = _UNet(16, 3)
    labels = torch.zeros(batch, size, size, dtype=torch.int64)
    return Network(module, (torch.randn(batch, 3, size, size),), lambda y: F.cross_entropy(y, labels), (*module.down, *module.up))


SIZES = ("trial", "cpu", "cuda")
# By name, a builder for each size: of a test, for seconds of a CPU, and for a GPU of 80 GB.
NETWORKS: dict[str, tuple[Callable[[], Network], Callable[[], Network], Callable[[], Network]]] = {
    "mlp": (lambda: _mlp(128, 8, 1024), lambda: _mlp(512, 16, 4096), lambda: _mlp(4096, 24, 16384)),
    "resnet18": (lambda: _resnet("resnet18", 2, 64), lambda: _resnet("resnet18", 16, 112), lambda: _resnet("resnet18", 256, 224)),
    "resnet50": (lambda: _resnet("resnet50", 2, 64), lambda: _resnet("resnet50", 8, 112), lambda: _resnet("resnet50", 128, 224)),
    "unet": (lambda: _unet(1, 32), lambda: _unet(4, 128), lambda: _unet(32, 512)),
    "vit-s": (lambda: _vit(1, 64), lambda: _vit(8, 112), lambda: _vit(128, 224)),
    "gpt2": (lambda: _decoder(64, 3, 8, 64, words=256), lambda: _decoder(384, 8, 8, 256), lambda: _decoder(768, 12, 16, 1024)),
    "llama": (lambda: _decoder(64, 3, 8, 64, True, 256), lambda: _decoder(512, 8, 4, 256, True),
              lambda: _decoder(2048, 16, 4, 2048, True, 32000)),
}


def build(name: str, size: str) -> Network:
    """A network with fixed random numbers."""
    if name not in NETWORKS:
        raise PlanError(f"unknown network {name!r}: expected one of {', '.join(NETWORKS)}")
    torch.manual_seed(0)
    return NETWORKS[name][SIZES.index(size)]()
