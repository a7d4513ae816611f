"""Which ranks of this machine have ended, as its kernel sees it. A rank that is slow or stopped has not.

Without this, a rank that dies while others wait for it in the store is found by their timeout alone. No clock takes
part, so no rank is ever taken for dead. Ranks of other machines are not seen: those beside one that dies tell all.
"""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

__all__ = ["LocalRanks", "address_of"]

UNKNOWN = 0


def address_of(process: int) -> tuple[int, int]:
    """Return a mark of a process of this machine, which no other process has or will have, and its number.

    The mark is UNKNOWN where there is no such process, or no way to tell. Containers see their own processes alone.
    """
    try:
        began = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
        boot, container = Path("/proc/sys/kernel/random/boot_id").read_text(), Path("/proc/self/ns/pid").readlink()
    except OSError:
        return UNKNOWN, process
    text = f"{boot} {container} {process} {began}"
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest()), process


class LocalRanks:
    """The other ranks on this machine: handles of their processes, which the kernel marks when they end."""

    def __init__(self, addresses: Sequence[tuple[int, int]] = ()) -> None:
        """``addresses``: of the process of each rank, as it knows itself."""
        self._ranks: dict[int, int] = {}  # by handle
        self._poll = select.poll()
        for rank, (mark, process) in enumerate(addresses):
            if mark == UNKNOWN or process == os.getpid():
                continue
            try:
                handle = os.pidfd_open(process)
            except (OSError, AttributeError):  # it is elsewhere, or there is no such call here
                continue
            if address_of(process) == (mark, process):  # of this machine, and not another that has its number now
                self._ranks[handle] = rank
                self._poll.register(handle, select.POLLIN)
            else:
                os.close(handle)

    def ended(self) -> list[int]:
        """Return the ranks whose processes have ended."""
        return sorted(self._ranks[handle] for handle, _ in self._poll.poll(0))

    def close(self) -> None:
        """Free the handles; again is harmless."""
        while self._ranks:
            handle, _ = self._ranks.popitem()
            self._poll.unregister(handle)
            os.close(handle)
