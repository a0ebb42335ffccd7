"""Pre-activation bottleneck ResNets (He et al., Identity Mappings in Deep Residual Networks, 2016).

`resnet200` is their ImageNet network. `resnet1001-he` is their CIFAR network: three stages of
111 bottlenecks, (1001 - 2) / 9 = 111, whose blocks put out 64, 128 and 256 channels.

`resnet1001` is the network on which Rotor reports (Figure 7): the same three stages without any
reduction in the stem, but four times as wide, 256, 512 and 1024 channels out, which is what the
definition in the checkpointing examples of pytorch_memonger (Goyal 2018, cited by Rotor) has. Only
that width reproduces Rotor's 225 GiB and 1.18 images/s at 224x224 and batch 8 (see README), and its
list of modules (3 in the stem, 333 blocks, bn, relu, pool) has exactly 339 entries.
Ours differs from it where it cannot be meant: each block has three batch norms of its own (there the
second is used twice), and the final pooling is global for any input size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

ABOUT = "pre-activation bottleneck ResNets (He et al. 2016); resnet1001 is Rotor's, resnet1001-he is 4x narrower"

EXPANSION = 4


@dataclass(frozen=True)
class Layout:
    """Inner widths and number of blocks of each stage, and the kind of stem."""

    widths: tuple[int, ...]
    blocks: tuple[int, ...]
    imagenet_stem: bool


LAYOUTS = {
    "resnet200": Layout((64, 128, 256, 512), (3, 24, 36, 3), True),
    "resnet1001": Layout((64, 128, 256), (111, 111, 111), False),
    "resnet1001-he": Layout((16, 32, 64), (111, 111, 111), False),
}


class Bottleneck(nn.Module):
    """BN-ReLU-conv1x1, BN-ReLU-conv3x3, BN-ReLU-conv1x1, plus the identity or a projection."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.bn1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.relu3 = nn.ReLU(inplace=True)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.projection = None
        if stride != 1 or inputs != outputs:
            self.projection = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block; the projection reads the pre-activated input, as in He et al.'s code."""
        preactivated = self.relu1(self.bn1(x))
        shortcut = x if self.projection is None else self.projection(preactivated)
        out = self.conv1(preactivated)
        out = self.conv2(self.relu2(self.bn2(out)))
        out = self.conv3(self.relu3(self.bn3(out)))
        return out + shortcut


class PreActResNet(nn.Module):
    """Stem, stages of bottlenecks, BN-ReLU, global average pooling, linear classifier."""

    def __init__(self, layout: Layout, classes: int = 1000) -> None:
        super().__init__()
        channels = 64 if layout.imagenet_stem else 16
        if layout.imagenet_stem:
            self.conv1 = nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False)
        else:
            self.conv1 = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if layout.imagenet_stem else nn.Identity()
        for stage, (width, blocks) in enumerate(zip(layout.widths, layout.blocks), start=1):
            stride = 1 if stage == 1 else 2
            layer = nn.Sequential()
            for block in range(blocks):
                layer.append(Bottleneck(channels, width, stride if block == 0 else 1))
                channels = width * EXPANSION
            self.add_module(f"layer{stage}", layer)
        self.stages = len(layout.widths)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu2 = nn.ReLU(inplace=True)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of a batch of images."""
        x = self.maxpool(self.relu1(self.bn1(self.conv1(x))))
        for stage in range(1, self.stages + 1):
            x = getattr(self, f"layer{stage}")(x)
        x = self.avgpool(self.relu2(self.bn2(x)))
        return self.fc(torch.flatten(x, 1))


def names() -> list[str]:
    """Names of the layouts."""
    return list(LAYOUTS)


def build(name: str) -> nn.Module:
    """Builds one."""
    return PreActResNet(LAYOUTS[name])
