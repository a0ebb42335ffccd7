"""Networks of one's own: `PATH/FILE.py:NAME`, where NAME is a function without arguments, or a class of
modules, in that file.

The file is executed. What it builds must be a `torch.nn.Module` that returns logits (see the registry for
auxiliary classifiers and tokens).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from torch import nn

from ..errors import ProfilerError


def names_a_file(model: str) -> bool:
    """Whether a model is written as a file and a name in it."""
    return model.rpartition(":")[0].endswith(".py")


def builder(model: str) -> Callable[[], nn.Module]:
    """The function that builds `PATH/FILE.py:NAME`; raises `ProfilerError` where there is none."""
    file, _, name = model.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ProfilerError(f"unknown model '{model}': there is no file {file}")
    make = getattr(_module(path, model), name, None)
    if not callable(make):
        raise ProfilerError(f"unknown model '{model}': {file} defines no function or class '{name}'")

    def build() -> nn.Module:
        built = make()
        if not isinstance(built, nn.Module):
            raise ProfilerError(f"model '{model}': {name}() returned {type(built).__name__}; expected a torch.nn.Module")
        return built

    return build


def _module(path: Path, model: str):
    """The file as a module; what it imports from its own folder is found."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by name.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ProfilerError(f"model '{model}': {path} cannot be executed: {type(error).__name__}: {error}") from error
    return module
