"""Networks of the page: what is trained, on how much data, and where its blocks are. CPUs train each in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


@dataclass(frozen=True)
class Sized:
    """A network at one size, in words, and how to make it."""

    words: str
    build: Callable[[], Network]


class _Block(nn.Module):
    """Of a transformer: `gpt2` (norms first, causal), `bert` (norms after each sum, both directions), or `llama` (RMS norms first,
    causal, rotary positions, SwiGLU, no biases)."""

    def __init__(self, width: int, heads: int, kind: str) -> None:
        super().__init__()
        self.heads, self.kind, gated = heads, kind, kind == "llama"
        norm, hidden = (nn.RMSNorm, 64 * -(-width // 24)) if gated else (nn.LayerNorm, 4 * width)
        self.first, self.second = norm(width), norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=not gated), nn.Linear(width, width, bias=not gated)
        self.up = nn.Linear(width, 2 * hidden if gated else hidden, bias=not gated)
        self.down = nn.Linear(hidden, width, bias=not gated)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        if self.kind == "bert":
            x = self.first(x + self._mixed(x))
            return self.second(x + self._fed(x))
        x = x + self._mixed(self.first(x))
        return x + self._fed(self.second(x))

    def _mixed(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.kind == "llama":
            q, k = _rotated(q), _rotated(k)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.kind != "bert")
        return self.out(mixed.transpose(1, 2).reshape(b, t, d))

    def _fed(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)
        if self.kind == "llama":
            gate, h = h.chunk(2, -1)
            return self.down(F.silu(gate) * h)
        return self.down(F.gelu(h))


def _rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions: pairs of channels, turned by an angle that grows with the position."""
    length, half = x.shape[-2], x.shape[-1] // 2
    speeds = 10_000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(length, device=x.device)[:, None] * speeds
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


class _Transformer(nn.Module):
    def __init__(self, kind: str, width: int, layers: int, words: int, length: int) -> None:
        super().__init__()
        norm = {"gpt2": nn.LayerNorm, "bert": nn.Identity, "llama": nn.RMSNorm}[kind]
        self.token, self.place = nn.Embedding(words, width), nn.Embedding(length, width) if kind != "llama" else None
        self.blocks = nn.ModuleList(_Block(width, max(1, width // 64), kind) for _ in range(layers))
        self.norm, self.head = norm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens)
        if self.place is not None:
            x = x + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _transformer(kind: str, layers: int, width: int, batch: int, length: int, words: int) -> Sized:
    def build() -> Network:
        tokens = torch.randint(0, words, (batch, length))
        module = _Transformer(kind, width, layers, words, length)
        return Network(module, (tokens,), lambda y: F.cross_entropy(y.flatten(0, 1), tokens.flatten()), tuple(module.blocks))

    return Sized(f"{layers} layers of width {width}, {words} words; {batch} sequences of {length}; no dropout", build)


def _mlp(width: int, depth: int, batch: int) -> Sized:
    def build() -> Network:
        module = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)))
        return Network(module, (torch.randn(batch, width),), lambda y: y.square().mean(), tuple(module))

    return Sized(f"{depth} layers of width {width} with GELU; a batch of {batch}", build)


def _classifier(module: nn.Module, blocks: Iterable[nn.Module], batch: int, size: int) -> Network:
    labels = torch.arange(batch) % 100
    return Network(module, (torch.randn(batch, 3, size, size),), lambda y: F.cross_entropy(y, labels), tuple(blocks))


def _resnet(name: str, batch: int, size: int) -> Sized:
    def build() -> Network:
        from torchvision import models

        module = models.get_model(name, weights=None, num_classes=100)
        layers = (module.layer1, module.layer2, module.layer3, module.layer4)
        return _classifier(module, (block for layer in layers for block in layer), batch, size)

    return Sized(f"torchvision's, 100 classes; {batch} images of {size} x {size}", build)


def _vit(layers: int, batch: int, size: int) -> Sized:
    def build() -> Network:
        from torchvision.models import VisionTransformer

        module = VisionTransformer(size, 16, layers, 6, 384, 1536, num_classes=100)
        return _classifier(module, module.encoder.layers.children(), batch, size)

    return Sized(f"{layers} layers of width 384, patches of 16 x 16, 100 classes; {batch} images of {size} x {size}", build)


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


def _unet(batch: int, size: int) -> Sized:
    def build() -> Network:
        module = _UNet(16, 3)
        labels = torch.zeros(batch, size, size, dtype=torch.int64)
        blocks = (*module.down, *module.up)
        return Network(module, (torch.randn(batch, 3, size, size),), lambda y: F.cross_entropy(y, labels), blocks)

    return Sized(f"four levels of 16 to 128 channels with batch norm; {batch} images of {size} x {size}", build)


SIZES = ("trial", "cpu", "cuda")
# By name, at each size: for a test, for about a second of a CPU, and for a GPU of 80 GB.
NETWORKS: dict[str, tuple[Sized, Sized, Sized]] = {
    "mlp": (_mlp(128, 8, 1024), _mlp(512, 16, 4096), _mlp(4096, 24, 4096)),
    "resnet18": (_resnet("resnet18", 2, 64), _resnet("resnet18", 32, 112), _resnet("resnet18", 256, 224)),
    "resnet50": (_resnet("resnet50", 2, 64), _resnet("resnet50", 16, 112), _resnet("resnet50", 128, 224)),
    "unet": (_unet(1, 32), _unet(4, 128), _unet(32, 512)),
    "vit-s": (_vit(2, 1, 64), _vit(12, 16, 112), _vit(12, 128, 224)),
    "bert-base": (_transformer("bert", 2, 64, 2, 32, 256), _transformer("bert", 12, 256, 8, 128, 4096),
                  _transformer("bert", 12, 768, 32, 256, 30522)),
    "gpt2": (_transformer("gpt2", 2, 64, 2, 32, 256), _transformer("gpt2", 12, 256, 8, 256, 4096),
             _transformer("gpt2", 12, 768, 8, 1024, 50257)),
    "llama": (_transformer("llama", 2, 64, 2, 32, 256), _transformer("llama", 8, 384, 4, 256, 4096),
              _transformer("llama", 12, 1024, 8, 1024, 32000)),
}


def build(name: str, size: str) -> Network:
    """A network with fixed random numbers."""
    if name not in NETWORKS:
        raise PlanError(f"unknown network {name!r}: expected one of {', '.join(NETWORKS)}")
    torch.manual_seed(0)
    return NETWORKS[name][SIZES.index(size)].build()
