"""Budgets: a number of bytes, or a share of the peak of keeping everything."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from .errors import PlanError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_FEW = 100_000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*|%)")


@dataclass(frozen=True)
class Budget:
    """Exactly one of the two is given."""

    bytes: int | None = None
    fraction: float | None = None

    @classmethod
    def parse(cls, text: str | int | Budget) -> Budget:
        """`"60%"` (or `"0.6x"`), `"8GiB"`, `"500MB"`, or a number of bytes; anything else is a `PlanError`."""
        if isinstance(text, Budget):
            return text
        if isinstance(text, int) and not isinstance(text, bool) and text > 0:
            return cls(bytes=text)
        match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
        if match and float(match[1]) > 0:
            if match[2] in ("%", "x"):
                return cls(fraction=float(match[1]) / (100 if match[2] == "%" else 1))
            size = float(match[1]) * _UNITS.get(match[2].upper(), 0)
            if 1 <= size < math.inf:
                return cls(bytes=int(size))
        raise PlanError(f"bad budget {text!r}: expected a share of the peak ('60%' or '0.6x') or a size ('8GiB', '500MB')")

    def resolve(self, plain_peak: int) -> int:
        """Bytes, where keeping everything has this peak."""
        return self.bytes if self.bytes is not None else int((self.fraction or 1.0) * plain_peak)

    def __str__(self) -> str:
        return f"{self.bytes} bytes" if self.bytes is not None else f"{(self.fraction or 1.0) * 100:g}%"


def mb(size: int) -> str:
    """Bytes in words; all of them where they are few."""
    return f"{size / 1e6:.2f} MB" if size >= _FEW else f"{f'{size / 1e6:.6f}'.rstrip('0').rstrip('.')} MB"
