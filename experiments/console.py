"""How commands print: tables on stdout, progress on stderr where that is a terminal."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.progress import Progress

from .files import ensure_writable

__all__ = ["JsonFile", "check_outputs", "json_bytes", "output", "progress_bar"]

JsonFile: TypeAlias = Annotated[Path | None, typer.Option("--json", help="Write the figures here.", show_default=False)]
"""The option of every command that measures."""

WIDTH = 110  # of the output where it goes to no terminal


def check_outputs(json_file: Path | None, plot: Path | None = None, tables: Iterable[Path] = ()) -> None:
    """Raise, before long work, unless results can be written, each to a file of its own that is no table to read."""
    written = [path.resolve() for path in (json_file, plot) if path]
    for path in written:
        ensure_writable(path)
    if len(set(written)) < len(written) or not {path.resolve() for path in tables}.isdisjoint(written):
        raise typer.BadParameter("tables, --json and --plot must be different files.")
    if plot and plot.suffix.lower() != ".png":
        raise typer.BadParameter(f'--plot writes PNG: "{plot}" should end in .png.')


def json_bytes(values: object) -> bytes:
    """Return ``values`` as a JSON file."""
    return (json.dumps(values, indent=2, allow_nan=False) + "\n").encode()


def output() -> Console:
    """Return where results go."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def progress_bar() -> Progress:
    """Return a bar that only a terminal shows."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)
