"""Small networks: the toy example of Rotor's paper, and what the tests need."""

from __future__ import annotations

from torch import nn

ABOUT = "small networks (rotor-table2: the six linear layers of Table 2 of Rotor's ToMS paper)"

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


_BUILDERS = {
    "rotor-table2": _rotor_table2,
    "conv-bn-relu": _conv_bn_relu,
    "dropout-mlp": _dropout_mlp,
}


def names() -> list[str]:
    """Names of the toys."""
    return list(_BUILDERS)


def build(name: str) -> nn.Module:
    """Builds one."""
    return _BUILDERS[name]()
