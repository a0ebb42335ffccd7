"""Files that are whole or as they were: written beside their place, then moved to it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .errors import ProfilerError


def write(path: Path, content: str | bytes, unfinished: str = "partial") -> None:
    """A text in UTF-8, or bytes. Where several may write at a time, each has a word of its own for its `unfinished` file.

    Raises `ProfilerError` where that cannot be written.
    """
    partial = path.with_name(f"{path.name}.{unfinished}")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ProfilerError(f"cannot write '{path}': {error.strerror}") from error


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """A table as CSV, with a header.

    Raises `ProfilerError` where it cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write(path, text.getvalue())
