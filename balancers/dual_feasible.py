"""Lower bounds for free counts from dual feasible functions: a capacity is refuted by weighing the loads."""

from __future__ import annotations

from packing.arrays import SUM_LIMIT, Int64
from packing.jit import kernel

__all__ = ["dual_feasible_bound"]

THRESHOLDS = 200  # tried per function
FRACTIONS = 40


def dual_feasible_bound(falling: Int64, n_bins: int, low: int, high: int) -> int:
    """Return a proven lower bound in [low, high] on the fullest of ``n_bins`` bins with free counts.

    ``low``: a bound known already; ``high``: a cost that is possible. A function f is dual feasible for the capacity C
    if values that fit in C have f-values that fit in f(C); where the f-values of all loads exceed n_bins x f(C), C is
    too small (Lueker 1983; Fekete & Schepers 2001). Bisection finds the largest capacity that one of three families
    refutes: thresholds (Martello & Toth 1990), rounded multiples (Carlier, Clautiaux & Moukrim 2007), and fractions.
    """
    if len(falling) == 0 or 2 * FRACTIONS * (high + 1) * max(n_bins, len(falling)) >= SUM_LIMIT:
        return low
    while low < high:
        capacity = (low + high) // 2
        if _refuted(falling, n_bins, capacity):
            low = capacity + 1
        else:
            high = capacity
    return low


@kernel
def _refuted(falling: Int64, n_bins: int, capacity: int) -> bool:
    """Whether some dual feasible function proves that the loads do not fit in ``n_bins`` bins of ``capacity``."""
    if falling[0] > capacity:
        return True
    n = len(falling)
    stride = max(n // THRESHOLDS, 1)
    for i in range(0, n, stride):
        k = falling[i]
        if 2 * k <= capacity and (_thresholds(falling, capacity, k) > n_bins * capacity):
            return True
        if 2 * k <= capacity and _multiples(falling, capacity, k) > n_bins * 2 * (capacity // k):
            return True
    for j in range(1, FRACTIONS):
        k = capacity // j
        if k > 0 and _multiples(falling, capacity, k) > n_bins * 2 * (capacity // k):
            return True
        if _fractions(falling, capacity, j) > n_bins * capacity * j:
            return True
    return False


@kernel
def _thresholds(falling: Int64, capacity: int, k: int) -> int:
    """Loads above capacity - k fill a bin, loads below k are nothing, others are themselves; 2 k <= capacity."""
    total = 0
    for load in falling:
        if load > capacity - k:
            total += capacity
        elif load >= k:
            total += load
        else:
            break
    return total


@kernel
def _multiples(falling: Int64, capacity: int, k: int) -> int:
    """Loads up to half the capacity are 2 floor(load / k), larger ones what they leave of 2 floor(capacity / k)."""
    total = 0
    for load in falling:
        if 2 * load > capacity:
            total += 2 * (capacity // k - (capacity - load) // k)
        elif 2 * load == capacity:
            total += capacity // k
        else:
            total += 2 * (load // k)
    return total


@kernel
def _fractions(falling: Int64, capacity: int, k: int) -> int:
    """Loads that are multiples of capacity / (k + 1) are themselves, others floor((k + 1) load / capacity) / k bins;
    everything times k."""
    total = 0
    for load in falling:
        parts, rest = divmod((k + 1) * load, capacity)
        total += k * load if rest == 0 else parts * capacity
    return total
