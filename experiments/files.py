"""Results on disk: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from packing.errors import EvenstepError

__all__ = ["CannotWrite", "ensure_writable", "write_atomically"]


class CannotWrite(EvenstepError, OSError):
    """A path that no result can be written to."""


def ensure_writable(path: Path) -> None:
    """Raise `CannotWrite` if `write_atomically` could not write ``path``; to be asked before long work."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise CannotWrite(f"cannot write {path}: it is not a regular file.")
    try:
        _beside(path).touch()
        _beside(path).unlink()
    except OSError as error:
        raise CannotWrite(
            f"cannot write {path}: {error.strerror}. Choose a folder that exists and is yours."
        ) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``: readers see the old file or the new one, never a part."""
    path = path.resolve()  # a link stays a link
    ensure_writable(path)
    try:
        _beside(path).write_bytes(content)
        _beside(path).replace(path)
    except OSError as error:
        _beside(path).unlink(missing_ok=True)
        raise CannotWrite(f"cannot write {path}: {error.strerror}.") from error


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")
