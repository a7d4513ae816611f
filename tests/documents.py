"""Blocks of Python in the documents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def block(document: str, heading: str) -> str:
    """Return the first block of Python below a heading that has these words in it."""
    found = re.search(rf"^#+ [^\n]*{heading}.*?^```python\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.M)
    assert found is not None, f"{document} has no block of Python below {heading!r}"
    return found[1]


def run(document: str, heading: str, **given: Any) -> dict[str, Any]:
    """Run a block with ``given`` names; return all names that it leaves."""
    exec(block(document, heading), given)
    return given
