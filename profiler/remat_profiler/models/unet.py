"""Three U-Nets: the original, MONeT's and the three-dimensional one.

`original` (Ronneberger et al. 2015; in Kusumoto's evaluation at 572x572): unpadded 3x3 convolutions with rectifiers,
2x2 up-convolutions with rectifiers, cropped skip connections, dropout at the end of the
contracting path, two classes. `monet` (at 416x608): padded convolutions with bias and batch norm;
upsampling is an adaptive average pooling to the larger size, as in its authors' code; one class.
`3d` (Cicek et al. 2016, in Wolny's implementation, on which MONeT reports): batch norm, convolution
without bias, rectifier, twice per level; nearest-neighbour upsampling; widths of
`3DUnet_confocal_boundary` (32 feature maps, one channel in and out).

Departure: one class trains with a logistic loss there and with a cross-entropy here, which is
meaningless for one class but has tensors of the same sizes.
"""

from __future__ import annotations

import torch
from torch import nn

ABOUT = "U-Nets: original (Ronneberger et al., 572x572), monet (416x608), 3d (Wolny's 3D-UNet, 1x48x80x80)"

WIDTHS = (64, 128, 256, 512, 1024)
MONET_WIDTHS = (64, 128, 256, 512, 512)
VOLUME_WIDTHS = (32, 64, 128, 256)


def _plain(inputs: int, outputs: int) -> nn.Sequential:
    """Two unpadded convolutions with rectifiers."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3), nn.ReLU(inplace=True), nn.Conv2d(outputs, outputs, 3), nn.ReLU(inplace=True)
    )


class Original(nn.Module):
    """U-Net of 2015; the output is smaller than the input (388x388 for 572x572)."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(_plain(i, o) for i, o in zip((3, *WIDTHS), WIDTHS))
        self.dropout4 = nn.Dropout(0.5)
        self.dropout5 = nn.Dropout(0.5)
        self.pool = nn.MaxPool2d(2)
        descending = list(zip(WIDTHS[::-1], WIDTHS[-2::-1]))
        self.upward = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose2d(i, o, 2, 2), nn.ReLU(inplace=True)) for i, o in descending
        )
        self.up = nn.ModuleList(_plain(i, o) for i, o in descending)
        self.classifier = nn.Conv2d(WIDTHS[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits for each pixel in the middle of the image."""
        skips = []
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level else x)
            x = self.dropout4(x) if level == 3 else self.dropout5(x) if level == 4 else x
            skips.append(x)
        for upward, block, skip in zip(self.upward, self.up, skips[-2::-1]):
            x = upward(x)
            top, left = (skip.shape[2] - x.shape[2]) // 2, (skip.shape[3] - x.shape[3]) // 2
            cropped = skip[:, :, top : top + x.shape[2], left : left + x.shape[3]]
            x = block(torch.cat([cropped, x], 1))
        return self.classifier(x)


def _normalised(inputs: int, middle: int, outputs: int) -> nn.Sequential:
    """Two padded convolutions with batch norm and rectifier."""
    return nn.Sequential(
        nn.Conv2d(inputs, middle, 3, padding=1), nn.BatchNorm2d(middle), nn.ReLU(inplace=True),
        nn.Conv2d(middle, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
    )


class Monet(nn.Module):
    """MONeT's U-Net."""

    def __init__(self) -> None:
        super().__init__()
        widths = MONET_WIDTHS
        self.down = nn.ModuleList(_normalised(i, o, o) for i, o in zip((3, *widths), widths))
        self.pool = nn.MaxPool2d(2)
        joined = [2 * width for width in widths[-2::-1]]
        outputs = (*widths[-3::-1], widths[0])
        self.up = nn.ModuleList(_normalised(i, i // 2, o) for i, o in zip(joined, outputs))
        self.classifier = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of one class for each pixel."""
        skips = []
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level else x)
            skips.append(x)
        for block, skip in zip(self.up, skips[-2::-1]):
            x = nn.functional.adaptive_avg_pool2d(x, skip.shape[2:])
            x = block(torch.cat([skip, x], 1))
        return self.classifier(x)


def _volume(inputs: int, middle: int, outputs: int) -> nn.Sequential:
    """Twice batch norm, convolution, rectifier."""
    return nn.Sequential(
        nn.BatchNorm3d(inputs), nn.Conv3d(inputs, middle, 3, padding=1, bias=False), nn.ReLU(inplace=True),
        nn.BatchNorm3d(middle), nn.Conv3d(middle, outputs, 3, padding=1, bias=False), nn.ReLU(inplace=True),
    )


class Volume(nn.Module):
    """3D-UNet."""

    def __init__(self) -> None:
        super().__init__()
        widths = VOLUME_WIDTHS
        encoders = ((1, *widths[:-1]), (widths[0] // 2, *(width // 2 for width in widths[1:])), widths)
        self.down = nn.ModuleList(_volume(i, max(i, m), o) for i, m, o in zip(*encoders))
        self.pool = nn.MaxPool3d(2)
        pairs = zip(widths[::-1], widths[-2::-1])
        self.up = nn.ModuleList(_volume(below + skip, skip, skip) for below, skip in pairs)
        self.classifier = nn.Conv3d(widths[0], 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of one class for each voxel."""
        skips = []
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level else x)
            skips.append(x)
        for block, skip in zip(self.up, skips[-2::-1]):
            x = nn.functional.interpolate(x, size=skip.shape[2:])
            x = block(torch.cat([skip, x], 1))
        return self.classifier(x)


_BUILDERS = {"original": Original, "monet": Monet, "3d": Volume}


def names() -> list[str]:
    """Names of the networks."""
    return list(_BUILDERS)


def build(name: str) -> nn.Module:
    """Builds one."""
    return _BUILDERS[name]()
