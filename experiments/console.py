"""How commands print: tables on stdout, progress on stderr where that is a terminal."""

import json

from rich.console import Console
from rich.progress import Progress

__all__ = ["json_bytes", "output", "progress_bar"]

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
