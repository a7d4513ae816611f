"""Packing rules in their plainest form, to hold the compiled ones to."""

from __future__ import annotations


def first_fit(sizes: list[int], order: list[int], capacity: int) -> list[int]:
    room: list[int] = []
    pack_of = [-1] * len(sizes)
    for i in order:
        pack = next((p for p, free in enumerate(room) if free >= sizes[i]), len(room))
        if pack == len(room):
            room.append(capacity)
        room[pack] -= sizes[i]
        pack_of[i] = pack
    return pack_of


def best_fit(sizes: list[int], order: list[int], capacity: int) -> list[int]:
    """Of equally full packs the last touched."""
    room: list[int] = []
    touched: list[int] = []
    pack_of = [-1] * len(sizes)
    for time, i in enumerate(order):
        fits = [p for p, free in enumerate(room) if free >= sizes[i]]
        pack = min(fits, key=lambda p: (room[p], -touched[p]), default=len(room))
        if pack == len(room):
            room.append(capacity)
            touched.append(time)
        room[pack] -= sizes[i]
        touched[pack] = time
        pack_of[i] = pack
    return pack_of


def worst_fit(sizes: list[int], order: list[int], capacity: int) -> list[int]:
    room: list[int] = []
    pack_of = [-1] * len(sizes)
    for i in order:
        pack = max(range(len(room)), key=lambda p: room[p], default=-1)
        if pack < 0 or room[pack] < sizes[i]:
            pack = len(room)
            room.append(capacity)
        room[pack] -= sizes[i]
        pack_of[i] = pack
    return pack_of


def next_fit(sizes: list[int], capacity: int) -> list[int]:
    pack, used, pack_of = 0, 0, []
    for size in sizes:
        if used + size > capacity:
            pack, used = pack + 1, 0
        used += size
        pack_of.append(pack)
    return pack_of


def padded(sizes: list[int], capacity: int) -> list[int]:
    pack_of: list[int] = []
    batch: list[int] = []
    pack = 0
    for size in sizes:
        if (len(batch) + 1) * max([*batch, size]) > capacity:
            pack, batch = pack + 1, []
        batch.append(size)
        pack_of.append(pack)
    return pack_of


def decreasing(sizes: list[int]) -> list[int]:
    return sorted(range(len(sizes)), key=lambda i: -sizes[i])


def fewest_packs(sizes: list[int], capacity: int) -> int:
    """The optimum, by trying every pack for every piece in turn."""

    def fill(i: int, room: tuple[int, ...], best: int) -> int:
        if len(room) >= best or i == len(sizes):
            return min(best, len(room))
        for p, free in enumerate(room):
            if free >= sizes[i]:
                best = fill(i + 1, (*room[:p], free - sizes[i], *room[p + 1 :]), best)
        return fill(i + 1, (*room, capacity - sizes[i]), best)

    return fill(0, (), len(sizes)) if sizes else 0
