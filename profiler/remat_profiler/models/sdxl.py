"""The U-Net of Stable Diffusion XL (Podell et al. 2023): noise of latents, predicted from them, a time and a text.

Widths are 320, 640 and 1280 over latents of 128x128, 64x64 and 32x32; transformers of 0, 2 and 10 blocks stand behind each
residual block of a level, 10 in the middle (Table 1 of the paper), with heads of 64 channels. The layout is that of the
published checkpoint (`stabilityai/stable-diffusion-xl-base-1.0`, `unet`), and so is the number of parameters, 2,567,463,684.
A text is 77 tokens of 2048 numbers and a pooled one of 1280; six numbers say size and crop of the image.

Departure: attention is computed operator by operator, as in the other large networks here; the loss is the plain squared
difference of the noise.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

ABOUT = "the U-Net of Stable Diffusion XL (unet: latents of 4x128x128, attention not fused)"

WIDTHS = (320, 640, 1280)
TRANSFORMERS = (0, 2, 10)
RESIDUALS = 2
HEAD, TEXT, TEXT_TOKENS, POOLED = 64, 2048, 77, 1280
EMBEDDING, SIZES, SIZE_FREQUENCIES = 1280, 6, 256
CHANNELS, GROUPS = 4, 32


def _frequencies(times: torch.Tensor, width: int) -> torch.Tensor:
    """Cosines and sines of times (any shape), `width` of them along a new last dimension."""
    half = width // 2
    speeds = torch.exp(-math.log(10_000) * torch.arange(half, dtype=torch.float32, device=times.device) / half)
    angles = times[..., None] * speeds
    return torch.cat([angles.cos(), angles.sin()], -1)


def _embedding(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, EMBEDDING), nn.SiLU(), nn.Linear(EMBEDDING, EMBEDDING))


class Residual(nn.Module):
    """Two convolutions with the time between them, and a way around."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(GROUPS, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(EMBEDDING, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(GROUPS, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor, embedding: torch.Tensor) -> torch.Tensor:
        """One block."""
        y = self.conv1(functional.silu(self.norm1(x)))
        y = y + self.time(functional.silu(embedding))[:, :, None, None]
        return self.shortcut(x) + self.conv2(functional.silu(self.norm2(y)))


class Attention(nn.Module):
    """Attention of a sequence to itself or to a text."""

    def __init__(self, width: int, source: int) -> None:
        super().__init__()
        self.heads = width // HEAD
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = nn.Linear(source, width, bias=False), nn.Linear(source, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """Attended values."""
        query, key, value = (projected.unflatten(-1, (self.heads, HEAD)).transpose(1, 2)
                             for projected in (self.query(x), self.key(source), self.value(source)))
        scores = torch.softmax(query @ key.transpose(-1, -2) * HEAD**-0.5, -1)
        return self.out((scores @ value).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Self-attention, attention to the text, and a gated MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.own = nn.LayerNorm(width), Attention(width, width)
        self.norm2, self.text = nn.LayerNorm(width), Attention(width, TEXT)
        self.norm3, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """One block."""
        normed = self.norm1(x)
        x = x + self.own(normed, normed)
        x = x + self.text(self.norm2(x), text)
        hidden, gate = self.up(self.norm3(x)).chunk(2, -1)
        return x + self.down(hidden * functional.gelu(gate))


class Transformer(nn.Module):
    """Blocks over the pixels of a map."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.norm, self.into = nn.GroupNorm(GROUPS, width, eps=1e-6), nn.Linear(width, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """The map after all blocks."""
        y = self.into(self.norm(x).flatten(2).transpose(1, 2))
        for block in self.blocks:
            y = block(y, text)
        return x + self.out(y).transpose(1, 2).unflatten(2, x.shape[2:])


class Stage(nn.Module):
    """A residual block, and a transformer behind it where the level has one."""

    def __init__(self, inputs: int, outputs: int, depth: int) -> None:
        super().__init__()
        self.residual = Residual(inputs, outputs)
        self.transformer = Transformer(outputs, depth) if depth else None

    def forward(self, x: torch.Tensor, embedding: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """One stage."""
        x = self.residual(x, embedding)
        return x if self.transformer is None else self.transformer(x, text)


class UNet(nn.Module):
    """The whole network; what is kept on the way down is joined on the way up."""

    more_inputs = {
        "time": ((), torch.float32), "text": ((TEXT_TOKENS, TEXT), torch.float32), "pooled": ((POOLED,), torch.float32),
        "sizes": ((SIZES,), torch.float32),
    }
    regresses = True

    def __init__(self) -> None:
        super().__init__()
        self.time, self.added = _embedding(WIDTHS[0]), _embedding(POOLED + SIZES * SIZE_FREQUENCIES)
        self.first = nn.Conv2d(CHANNELS, WIDTHS[0], 3, padding=1)
        kept = [WIDTHS[0]]
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        for level, (width, depth) in enumerate(zip(WIDTHS, TRANSFORMERS)):
            self.down.append(nn.ModuleList(Stage(kept[-1] if i == 0 else width, width, depth) for i in range(RESIDUALS)))
            kept += [width] * RESIDUALS
            if level + 1 < len(WIDTHS):
                self.shrink.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                kept.append(width)
        self.middle = Stage(WIDTHS[-1], WIDTHS[-1], TRANSFORMERS[-1])
        self.last_middle = Residual(WIDTHS[-1], WIDTHS[-1])
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        width = WIDTHS[-1]
        for level, (outputs, depth) in enumerate(zip(WIDTHS[::-1], TRANSFORMERS[::-1])):
            stages = nn.ModuleList()
            for _ in range(RESIDUALS + 1):
                stages.append(Stage(width + kept.pop(), outputs, depth))
                width = outputs
            self.up.append(stages)
            if level + 1 < len(WIDTHS):
                self.grow.append(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.norm, self.last = nn.GroupNorm(GROUPS, WIDTHS[0]), nn.Conv2d(WIDTHS[0], CHANNELS, 3, padding=1)

    def forward(
        self, latents: torch.Tensor, time: torch.Tensor, text: torch.Tensor, pooled: torch.Tensor, sizes: torch.Tensor
    ) -> torch.Tensor:
        """Noise in the latents."""
        added = torch.cat([pooled, _frequencies(sizes, SIZE_FREQUENCIES).flatten(1)], -1)
        embedding = self.time(_frequencies(time, WIDTHS[0])) + self.added(added)
        x = self.first(latents)
        skips = [x]
        for level, stages in enumerate(self.down):
            for stage in stages:
                x = stage(x, embedding, text)
                skips.append(x)
            if level < len(self.shrink):
                x = self.shrink[level](x)
                skips.append(x)
        x = self.last_middle(self.middle(x, embedding, text), embedding)
        for level, stages in enumerate(self.up):
            for stage in stages:
                x = stage(torch.cat([x, skips.pop()], 1), embedding, text)
            if level < len(self.grow):
                x = self.grow[level](functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(functional.silu(self.norm(x)))


def names() -> list[str]:
    """The one network."""
    return ["unet"]


def build(name: str) -> nn.Module:
    """Builds it."""
    return {"unet": UNet}[name]()
