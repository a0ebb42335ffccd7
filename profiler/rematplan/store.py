"""What is kept on disk between runs: plans, and the speeds of devices. REMATPLAN_CACHE names another folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from pathlib import Path

from remat_profiler import whole
from remat_profiler.errors import ProfilerError


def folder(kind: str) -> Path:
    """The folder for one kind of thing, which need not be there."""
    named = os.environ.get("REMATPLAN_CACHE")
    if named:
        return Path(named) / kind
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rematplan" / kind


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def write(path: Path, value: object) -> None:
    """Whole or not at all; a folder that cannot be written keeps nothing."""
    with contextlib.suppress(OSError, ProfilerError):
        path.parent.mkdir(parents=True, exist_ok=True)
        whole.write(path, json.dumps(value), f"{os.getpid()}-{threading.get_ident()}")


def read(path: Path) -> object:
    """None where there is nothing that can be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
