"""Whether what is handed back to a stream is a state at all."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import InvalidParameter

__all__ = ["check_state"]


def check_state(state: object, own: Mapping[str, object]) -> None:
    """Raise `InvalidParameter` unless ``state`` is a mapping with the keys of ``own``, a state of the same kind."""
    found = state.keys() if isinstance(state, Mapping) else None
    if found != own.keys():
        got = repr(state) if found is None else ", ".join(map(str, found)) or "nothing"
        raise InvalidParameter(f"a state has {', '.join(own)}; got {got}. Pass what state_dict() gave.")
