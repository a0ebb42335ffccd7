"""Networks of Kusumoto's evaluation that were Chainer's own: GoogLeNet of 2014 and PSPNet on ResNet-101.

`googlenet` has local response normalisation instead of torchvision's batch norm, one rectifier
behind each concatenation, and two auxiliary classifiers. `pspnet` (Zhao et al. 2017, in ChainerCV's form): a
dilated ResNet-101 with three convolutions in its stem, pyramid pooling in 6, 3, 2 and 1 bins, 19
classes of Cityscapes, and an auxiliary classifier on its fourth stage, without which the number of
nodes that the paper prints (385) is not met. Networks with auxiliary classifiers return a tuple of
logits; `loss_weights` says what each one's loss counts.
"""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models.resnet import Bottleneck

ABOUT = "networks of Kusumoto's evaluation in Chainer's form, with auxiliary classifiers (pspnet: 713x713)"

CITYSCAPES_CLASSES = 19
IMAGENET_CLASSES = 1000
# Table 1 of Szegedy et al. 2014: 1x1, 3x3 reduced, 3x3, 5x5 reduced, 5x5, pooling projection.
INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64), "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64), "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128),
}


class Inception(nn.Module):
    """Four branches, concatenated and rectified."""

    def __init__(self, inputs: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        one, reduced3, three, reduced5, five, pooled = widths
        self.conv1 = nn.Conv2d(inputs, one, 1)
        self.conv3 = nn.Sequential(
            nn.Conv2d(inputs, reduced3, 1), nn.ReLU(inplace=True), nn.Conv2d(reduced3, three, 3, padding=1)
        )
        self.conv5 = nn.Sequential(
            nn.Conv2d(inputs, reduced5, 1), nn.ReLU(inplace=True), nn.Conv2d(reduced5, five, 5, padding=2)
        )
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(inputs, pooled, 1))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One module."""
        return self.relu(torch.cat([self.conv1(x), self.conv3(x), self.conv5(x), self.pooled(x)], 1))


def _auxiliary(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.AvgPool2d(5, 3), nn.Conv2d(inputs, 128, 1), nn.ReLU(inplace=True), nn.Flatten(),
        nn.Linear(128 * 4 * 4, 1024), nn.ReLU(inplace=True), nn.Linear(1024, IMAGENET_CLASSES),
    )


class GoogLeNet(nn.Module):
    """GoogLeNet for 224x224 images."""

    loss_weights = (1.0, 0.3, 0.3)

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True), nn.LocalResponseNorm(5),
            nn.Conv2d(64, 64, 1), nn.ReLU(inplace=True), nn.Conv2d(64, 192, 3, padding=1), nn.ReLU(inplace=True),
            nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2, ceil_mode=True),
        )
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        channels = 192
        self.inceptions = nn.ModuleDict()
        for name, widths in INCEPTIONS.items():
            self.inceptions[name] = Inception(channels, widths)
            channels = widths[0] + widths[2] + widths[4] + widths[5]
        self.auxiliaries = nn.ModuleDict({"4a": _auxiliary(512), "4d": _auxiliary(528)})
        self.head = nn.Sequential(
            nn.AvgPool2d(7, 1), nn.Dropout(0.4), nn.Flatten(), nn.Linear(channels, IMAGENET_CLASSES)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Logits, then those of the two auxiliary classifiers."""
        x = self.stem(x)
        extra = []
        for name, inception in self.inceptions.items():
            x = inception(self.pool(x) if name in ("4a", "5a") else x)
            if name in self.auxiliaries:
                extra.append(self.auxiliaries[name](x))
        return self.head(x), *extra


def _unit(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm, rectifier."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
    )


def _stage(inputs: int, width: int, blocks: int, stride: int, dilation: int) -> nn.Sequential:
    """Bottlenecks, the first of which projects its input; dilation takes the place of stride."""
    outputs = width * Bottleneck.expansion
    projection = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
    layers = [Bottleneck(inputs, width, stride, projection, dilation=dilation)]
    layers += [Bottleneck(outputs, width, dilation=dilation) for _ in range(blocks - 1)]
    return nn.Sequential(*layers)


class Pyramid(nn.Module):
    """Average pooling into 6, 3, 2 and 1 bins, a convolution on each, everything resized and joined."""

    BINS = (6, 3, 2, 1)

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.units = nn.ModuleList(_unit(channels, channels // len(self.BINS), 1) for _ in self.BINS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input and its four summaries."""
        size = x.shape[2:]
        joined = [x]
        for bins, unit in zip(self.BINS, self.units):
            window = (size[0] // bins, size[1] // bins)
            joined.append(_resized(unit(nn.functional.avg_pool2d(x, window)), size))
        return torch.cat(joined, 1)


def _resized(x: torch.Tensor, size: torch.Size) -> torch.Tensor:
    return nn.functional.interpolate(x, size=size, mode="bilinear", align_corners=True)


class PspNet(nn.Module):
    """PSPNet on a dilated ResNet-101."""

    loss_weights = (1.0, 0.4)

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_unit(3, 64, 3, 2), _unit(64, 64, 3), _unit(64, 128, 3), nn.MaxPool2d(3, 2, 1))
        self.res2 = _stage(128, 64, 3, 1, 1)
        self.res3 = _stage(256, 128, 4, 2, 1)
        self.res4 = _stage(512, 256, 23, 1, 2)
        self.res5 = _stage(1024, 512, 3, 1, 4)
        self.pyramid = Pyramid(2048)
        self.head = nn.Sequential(_unit(4096, 512, 3), nn.Dropout(0.1), nn.Conv2d(512, CITYSCAPES_CLASSES, 1))
        self.auxiliary = nn.Sequential(_unit(1024, 256, 3), nn.Dropout(0.1), nn.Conv2d(256, CITYSCAPES_CLASSES, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits at full resolution, then those of the auxiliary classifier."""
        size = x.shape[2:]
        fourth = self.res4(self.res3(self.res2(self.stem(x))))
        logits = self.head(self.pyramid(self.res5(fourth)))
        return _resized(logits, size), _resized(self.auxiliary(fourth), size)


_BUILDERS = {"googlenet": GoogLeNet, "pspnet": PspNet}


def names() -> list[str]:
    """Names of the networks."""
    return list(_BUILDERS)


def build(name: str) -> nn.Module:
    """Builds one."""
    return _BUILDERS[name]()
