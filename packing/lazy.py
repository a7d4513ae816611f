"""Names that load on first use, so that importing a package costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from .errors import MissingExtra

__all__ = ["lazy_names", "load"]

# top-level module of an optional dependency -> the extra of evenstep that installs it
EXTRA_OF = {
    "ortools": "ilp",
    "torch": "dist",
    "pyarrow": "experiments",
    "typer": "experiments",
    "rich": "experiments",
    "matplotlib": "experiments",
    "hypothesis": "test",
    "pytest": "test",
}


def load(path: str) -> object:
    """Return what ``"module:name"`` names. A missing optional dependency becomes `MissingExtra`."""
    module, _, name = path.partition(":")
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        raise missing_extra(module, error) from error
    return getattr(loaded, name) if name else loaded


def missing_extra(wanted: str, error: ModuleNotFoundError) -> ImportError:
    """Return the error to raise when importing ``wanted`` failed with ``error``."""
    dependency = (error.name or "").partition(".")[0]
    extra = EXTRA_OF.get(dependency)
    if extra is None:
        return error
    return MissingExtra(f'{wanted} needs {dependency}, which is not installed: pip install "evenstep[{extra}]".', extra)


def lazy_names(package: str, table: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package whose public names are the keys of ``table``."""

    def get(name: str) -> object:
        if name not in table:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = load(table[name])
        setattr(sys.modules[package], name, value)  # the next use is a plain attribute
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *table})

    return get, names
