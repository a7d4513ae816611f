"""The console command: errors become one line on stderr and exit code 2."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from packing.errors import EvenstepError, MissingExtra
from packing.lazy import missing_extra

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `evenstep` with ``arguments`` (None: those of the process) and exit."""
    try:
        from .cli import app

        app(arguments, prog_name="evenstep")
    except EvenstepError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        known = missing_extra("this command", error)
        if not isinstance(known, MissingExtra):
            raise
        _fail(known)


def _fail(error: Exception) -> NoReturn:
    print("evenstep:", " ".join(str(error).split()), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
