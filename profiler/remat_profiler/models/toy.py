"""Small networks: the toy example of Rotor's paper, and what the tests need."""

from __future__ import annotations

import torch
from torch import nn

ABOUT = "small networks (rotor-table2: the six linear layers of Table 2 of Rotor's ToMS paper; one of each kind for the replay's tests)"

ROTOR_TABLE2_WIDTHS = (2000, 2500, 2800, 2900, 2800, 2500, 2000)


def _rotor_table2() -> nn.Module:
    pairs = zip(ROTOR_TABLE2_WIDTHS, ROTOR_TABLE2_WIDTHS[1:])
    return nn.Sequential(*[nn.Linear(i, o) for i, o in pairs])


def _conv_bn_relu() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )


def _dropout_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))


def _block(channels_in: int, channels_out: int) -> list[nn.Module]:
    return [nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False), nn.BatchNorm2d(channels_out), nn.ReLU()]


def _head(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]


def _chain() -> nn.Module:
    return nn.Sequential(*_block(3, 8), *_block(8, 8), nn.MaxPool2d(2), *_block(8, 16), *_head(16))


class _Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_block(channels, channels), *_block(channels, channels)[:2])
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x + self.body(x))


def _residual() -> nn.Module:
    return nn.Sequential(*_block(3, 8), _Residual(8), _Residual(8), *_head(8))


class _UNet(nn.Module):
    """One level down and up, with its skip connection; logits for every pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.above = nn.Sequential(*_block(3, 8))
        self.below = nn.Sequential(nn.MaxPool2d(2), *_block(8, 16))
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.merge = nn.Sequential(*_block(16, 8), nn.Conv2d(8, 4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.above(x)
        return self.merge(torch.cat([self.up(self.below(skip)), skip], 1))


class _TransformerBlock(nn.Module):
    """Two pre-norm blocks over embedded tokens, a causal mask, dropout; logits for the next token."""

    takes_tokens = True

    def __init__(self, width: int = 16, words: int = 32, length: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.head = nn.Linear(width, words)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, src_mask=self.mask)
        return self.head(x).transpose(1, 2)


_BUILDERS = {
    "rotor-table2": _rotor_table2,
    "conv-bn-relu": _conv_bn_relu,
    "dropout-mlp": _dropout_mlp,
    "chain": _chain,
    "residual": _residual,
    "unet-skip": _UNet,
    "transformer": _TransformerBlock,
}


def names() -> list[str]:
    """Names of the toys."""
    return list(_BUILDERS)


def build(name: str) -> nn.Module:
    """Builds one."""
    return _BUILDERS[name]()
