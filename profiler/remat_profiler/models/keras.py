"""The networks of Checkmate's evaluation that torchvision does not have, as its Keras sources define them.

VGG-16 and VGG-19 without dropout and without adaptive pooling, MobileNet (Howard et al. 2017; rectifiers
clipped at 6), and three segmentation networks on VGG-16 with the 19 classes of Cityscapes:
U-Net and SegNet, whose decoders start at the fourth of the five levels and end at half the input's
resolution, and FCN8 (Long et al. 2015). Sizes of every layer of U-Net, FCN8 and VGG-16 agree with the training
graphs that Checkmate's authors published (tests/test_library.py).

Departures: Keras fuses a rectifier into its convolution; here it is an operator of its own. Zero
padding is part of the convolution here and a layer there. The final softmax is part of the loss.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

ABOUT = "networks of Checkmate's evaluation as its Keras sources define them (416x608 for the last three)"

SEGMENTATION_CLASSES = 19
IMAGENET_CLASSES = 1000
VGG_WIDTHS = (64, 128, 256, 512, 512)
VGG_DEPTHS = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
# Width and stride of the 13 depthwise separable blocks (Table 1 of Howard et al.).
MOBILENET_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


def _vgg_levels(depth: int) -> nn.ModuleList:
    """The five blocks of a VGG, each ending in its pooling."""
    levels, channels = nn.ModuleList(), 3
    for width, convolutions in zip(VGG_WIDTHS, VGG_DEPTHS[depth]):
        block = nn.Sequential()
        for number in range(1, convolutions + 1):
            block.add_module(f"conv{number}", nn.Conv2d(channels, width, 3, padding=1))
            block.add_module(f"relu{number}", nn.ReLU(inplace=True))
            channels = width
        block.add_module("pool", nn.MaxPool2d(2))
        levels.append(block)
    return levels


def _sequence(**layers: nn.Module | None) -> nn.Sequential:
    """Named layers in a row; what is None is left out."""
    return nn.Sequential(OrderedDict((name, layer) for name, layer in layers.items() if layer is not None))


def _vgg(depth: int) -> nn.Module:
    blocks = {f"block{number}": block for number, block in enumerate(_vgg_levels(depth), start=1)}
    return _sequence(
        **blocks, flatten=nn.Flatten(),
        fc1=nn.Linear(512 * 7 * 7, 4096), relu1=nn.ReLU(inplace=True),
        fc2=nn.Linear(4096, 4096), relu2=nn.ReLU(inplace=True), predictions=nn.Linear(4096, IMAGENET_CLASSES),
    )


def _separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """3x3 depthwise and 1x1 convolution, each with batch norm and clipped rectifier."""
    return _sequence(
        depthwise=nn.Conv2d(inputs, inputs, 3, stride, padding=1, groups=inputs, bias=False),
        depthwise_bn=nn.BatchNorm2d(inputs), depthwise_relu=nn.ReLU6(inplace=True),
        pointwise=nn.Conv2d(inputs, outputs, 1, bias=False),
        pointwise_bn=nn.BatchNorm2d(outputs), pointwise_relu=nn.ReLU6(inplace=True),
    )


def _mobilenet() -> nn.Module:
    inputs = (32, *(width for width, _ in MOBILENET_BLOCKS))
    blocks = {f"block{number}": _separable(channels, width, stride)
              for number, (channels, (width, stride)) in enumerate(zip(inputs, MOBILENET_BLOCKS), start=1)}
    return _sequence(
        conv1=nn.Conv2d(3, 32, 3, 2, padding=1, bias=False), bn1=nn.BatchNorm2d(32), relu1=nn.ReLU6(inplace=True),
        **blocks, pool=nn.AdaptiveAvgPool2d(1), dropout=nn.Dropout(1e-3),
        predictions=nn.Conv2d(inputs[-1], IMAGENET_CLASSES, 1), flatten=nn.Flatten(),
    )


def _block(inputs: int, outputs: int, rectified: bool) -> nn.Sequential:
    """Convolution, rectifier where there is one, batch norm (in this order in Keras' decoders)."""
    return _sequence(
        conv=nn.Conv2d(inputs, outputs, 3, padding=1), relu=nn.ReLU(inplace=True) if rectified else None,
        bn=nn.BatchNorm2d(outputs),
    )


class Decoder(nn.Module):
    """U-Net with `skips`, SegNet without: three times upsampling from the fourth level of VGG-16."""

    def __init__(self, skips: bool) -> None:
        super().__init__()
        self.skips = skips
        self.levels = _vgg_levels(16)[:4]
        widths = (512, 256, 128, 64)
        joined = VGG_WIDTHS[2::-1] if skips else (0, 0, 0)
        inputs = (512, *(width + skip for width, skip in zip(widths, joined)))
        self.blocks = nn.ModuleList(_block(i, o, skips) for i, o in zip(inputs, widths))
        self.upsample = nn.Upsample(scale_factor=2)
        self.classifier = nn.Conv2d(64, SEGMENTATION_CLASSES, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits for each pixel of the image at half resolution."""
        levels = []
        for level in self.levels:
            x = level(x)
            levels.append(x)
        x = self.blocks[0](x)
        for block, level in zip(self.blocks[1:], levels[2::-1]):
            x = self.upsample(x)
            x = block(torch.cat([x, level], 1) if self.skips else x)
        return self.classifier(x)


class Fcn8(nn.Module):
    """FCN8 on VGG-16: scores of the third and fourth level are added while upsampling by 2, 2 and 8."""

    def __init__(self) -> None:
        super().__init__()
        classes = SEGMENTATION_CLASSES
        self.levels = _vgg_levels(16)
        self.head = _sequence(
            conv1=nn.Conv2d(512, 4096, 7, padding=3), relu1=nn.ReLU(inplace=True), dropout1=nn.Dropout(0.5),
            conv2=nn.Conv2d(4096, 4096, 1), relu2=nn.ReLU(inplace=True), dropout2=nn.Dropout(0.5),
            score5=nn.Conv2d(4096, classes, 1),
        )
        self.score4 = nn.Conv2d(512, classes, 1)
        self.score3 = nn.Conv2d(256, classes, 1)
        self.up5 = nn.ConvTranspose2d(classes, classes, 4, 2, bias=False)
        self.up4 = nn.ConvTranspose2d(classes, classes, 4, 2, bias=False)
        self.up3 = nn.ConvTranspose2d(classes, classes, 16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits; the last upsampling leaves a border of 8 pixels, as in its source."""
        levels = []
        for level in self.levels:
            x = level(x)
            levels.append(x)
        x = _cropped_sum(self.up5(self.head(x)), self.score4(levels[3]))
        x = _cropped_sum(self.up4(x), self.score3(levels[2]))
        return self.up3(x)


def _cropped_sum(large: torch.Tensor, small: torch.Tensor) -> torch.Tensor:
    """Adds `small` to the upper left corner of `large`."""
    return large[:, :, : small.shape[2], : small.shape[3]] + small


_BUILDERS = {
    "vgg16": lambda: _vgg(16),
    "vgg19": lambda: _vgg(19),
    "mobilenet": _mobilenet,
    "unet": lambda: Decoder(skips=True),
    "segnet": lambda: Decoder(skips=False),
    "fcn8": Fcn8,
}


def names() -> list[str]:
    """Names of the networks."""
    return list(_BUILDERS)


def build(name: str) -> nn.Module:
    """Builds one."""
    return _BUILDERS[name]()
