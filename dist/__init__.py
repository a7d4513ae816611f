"""Plan -> packs in their place, with torch.distributed. Names, and torch with them, load on first use."""

from typing import TYPE_CHECKING

from packing.lazy import lazy_names

if TYPE_CHECKING:
    from .delivery import MicroBatch as MicroBatch
    from .errors import BadPayload as BadPayload
    from .errors import CannotCarry as CannotCarry
    from .errors import CannotResume as CannotResume
    from .errors import CannotWrap as CannotWrap
    from .errors import ExchangeError as ExchangeError
    from .errors import ExchangeTimeout as ExchangeTimeout
    from .errors import ForkedProcess as ForkedProcess
    from .errors import InvalidLoader as InvalidLoader
    from .errors import RankClosed as RankClosed
    from .errors import RankDisagreement as RankDisagreement
    from .errors import RankFailed as RankFailed
    from .errors import RankLost as RankLost
    from .executor import PackId as PackId
    from .loader import BalancedLoader as BalancedLoader
    from .metrics import Span as Span
    from .metrics import StepRecord as StepRecord
    from .metrics import write_parquet as write_parquet
    from .metrics import write_trace as write_trace
    from .payload import Parcel as Parcel
    from .payload import parcel as parcel
    from .payload import unpack as unpack
    from .sampler import BalancedBatchSampler as BalancedBatchSampler
    from .sampler import BalancedSampler as BalancedSampler

_NAMES = {
    **{
        name: f"dist.errors:{name}"
        for name in (
            "BadPayload",
            "CannotCarry",
            "CannotResume",
            "CannotWrap",
            "ExchangeError",
            "ExchangeTimeout",
            "ForkedProcess",
            "InvalidLoader",
            "RankClosed",
            "RankDisagreement",
            "RankFailed",
            "RankLost",
        )
    },
    "BalancedLoader": "dist.loader:BalancedLoader",
    "MicroBatch": "dist.delivery:MicroBatch",
    "PackId": "dist.executor:PackId",
    **{name: f"dist.metrics:{name}" for name in ("Span", "StepRecord", "write_parquet", "write_trace")},
    **{name: f"dist.sampler:{name}" for name in ("BalancedBatchSampler", "BalancedSampler")},
    **{name: f"dist.payload:{name}" for name in ("Parcel", "parcel", "unpack")},
}

__all__ = [*_NAMES]  # noqa: PLE0604  (names of the table above)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
