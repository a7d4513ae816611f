"""How commands print: tables on stdout, progress on stderr where that is a terminal."""

import json
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.progress import Progress

__all__ = ["JsonFile", "json_bytes", "output", "progress_bar"]

JsonFile: TypeAlias = Annotated[Path | None, typer.Option("--json", help="Write the figures here.", show_default=False)]
"""The option of every command that measures."""

WIDTH = 110  # of the output where it goes to no terminal


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
