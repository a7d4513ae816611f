"""Samples -> packs. Names load on first use; see `PACKERS` for the algorithms by name."""

from typing import TYPE_CHECKING

from .lazy import lazy_names
from .registry import Registry

if TYPE_CHECKING:
    from .base import Packer as Packer
    from .baselines import Padded as Padded
    from .best_fit import BestFit as BestFit
    from .best_fit import BestFitDecreasing as BestFitDecreasing
    from .bounds import fewest_packs as fewest_packs
    from .buffered import Buffered as Buffered
    from .buffered import BufferedState as BufferedState
    from .column_generation import ColumnGeneration as ColumnGeneration
    from .column_generation import column_generation_bound as column_generation_bound
    from .concatenate import Concatenate as Concatenate
    from .errors import CannotCut as CannotCut
    from .errors import CannotServe as CannotServe
    from .errors import EvenstepError as EvenstepError
    from .errors import InvalidGroups as InvalidGroups
    from .errors import InvalidLimits as InvalidLimits
    from .errors import InvalidName as InvalidName
    from .errors import InvalidParameter as InvalidParameter
    from .errors import InvalidSamples as InvalidSamples
    from .errors import MissingExtra as MissingExtra
    from .errors import Oversized as Oversized
    from .even import EvenPacking as EvenPacking
    from .even_floor import evenness_floor as evenness_floor
    from .exact import Exact as Exact
    from .exact import ExactAnswer as ExactAnswer
    from .exact import ExactStatus as ExactStatus
    from .first_fit import FirstFit as FirstFit
    from .first_fit import FirstFitDecreasing as FirstFitDecreasing
    from .layout import Layout as Layout
    from .layout import count_supervised as count_supervised
    from .layout import loss_weights as loss_weights
    from .mixture import Drawn as Drawn
    from .mixture import Mixture as Mixture
    from .mixture import MixtureState as MixtureState
    from .next_fit import NextFit as NextFit
    from .next_fit import NextFitDecreasing as NextFitDecreasing
    from .nonnegative_least_squares import NonNegativeLeastSquares as NonNegativeLeastSquares
    from .packs import Packing as Packing
    from .policies import LeftOver as LeftOver
    from .policies import LeftOverRow as LeftOverRow
    from .policies import Pieces as Pieces
    from .policies import Reason as Reason
    from .portfolio import Portfolio as Portfolio
    from .samples import Limits as Limits
    from .samples import LimitsLike as LimitsLike
    from .samples import Oversize as Oversize
    from .samples import Samples as Samples
    from .samples import SamplesLike as SamplesLike
    from .shortest_pack_first import ShortestPackFirst as ShortestPackFirst
    from .spans import Spans as Spans
    from .vector import VectorBestFitDecreasing as VectorBestFitDecreasing
    from .vector import VectorDotProduct as VectorDotProduct
    from .vector import VectorFirstFit as VectorFirstFit
    from .vector import VectorFirstFitDecreasing as VectorFirstFitDecreasing
    from .worst_fit import WorstFit as WorstFit
    from .worst_fit import WorstFitDecreasing as WorstFitDecreasing

_PACKERS = {
    "NextFit": "packing.next_fit:NextFit",
    "NextFitDecreasing": "packing.next_fit:NextFitDecreasing",
    "FirstFit": "packing.first_fit:FirstFit",
    "FirstFitDecreasing": "packing.first_fit:FirstFitDecreasing",
    "BestFit": "packing.best_fit:BestFit",
    "BestFitDecreasing": "packing.best_fit:BestFitDecreasing",
    "WorstFit": "packing.worst_fit:WorstFit",
    "WorstFitDecreasing": "packing.worst_fit:WorstFitDecreasing",
    "ShortestPackFirst": "packing.shortest_pack_first:ShortestPackFirst",
    "NonNegativeLeastSquares": "packing.nonnegative_least_squares:NonNegativeLeastSquares",
    "ColumnGeneration": "packing.column_generation:ColumnGeneration",
    "Exact": "packing.exact:Exact",
    "EvenPacking": "packing.even:EvenPacking",
    "VectorFirstFit": "packing.vector:VectorFirstFit",
    "VectorFirstFitDecreasing": "packing.vector:VectorFirstFitDecreasing",
    "VectorBestFitDecreasing": "packing.vector:VectorBestFitDecreasing",
    "VectorDotProduct": "packing.vector:VectorDotProduct",
    "Portfolio": "packing.portfolio:Portfolio",
    "Concatenate": "packing.concatenate:Concatenate",
    "Padded": "packing.baselines:Padded",
}
_OTHERS = {
    "Packer": "packing.base:Packer",
    "Packing": "packing.packs:Packing",
    **{name: f"packing.exact:{name}" for name in ("ExactAnswer", "ExactStatus")},
    "column_generation_bound": "packing.column_generation:column_generation_bound",
    "evenness_floor": "packing.even_floor:evenness_floor",
    "fewest_packs": "packing.bounds:fewest_packs",
    **{name: f"packing.buffered:{name}" for name in ("Buffered", "BufferedState")},
    **{name: f"packing.layout:{name}" for name in ("Layout", "count_supervised", "loss_weights")},
    **{name: f"packing.mixture:{name}" for name in ("Drawn", "Mixture", "MixtureState")},
    **{name: f"packing.policies:{name}" for name in ("LeftOver", "LeftOverRow", "Pieces", "Reason")},
    **{name: f"packing.samples:{name}" for name in ("Limits", "LimitsLike", "Oversize", "Samples", "SamplesLike")},
    "Spans": "packing.spans:Spans",
    **{
        name: f"packing.errors:{name}"
        for name in (
            "CannotCut",
            "CannotServe",
            "EvenstepError",
            "InvalidGroups",
            "InvalidLimits",
            "InvalidName",
            "InvalidParameter",
            "InvalidSamples",
            "MissingExtra",
            "Oversized",
        )
    },
}

PACKERS: "Registry[Packer]" = Registry("packer", "packing:Packer", "evenstep.packers", _PACKERS)

__all__ = ["PACKERS", *_PACKERS, *_OTHERS]  # noqa: PLE0604  (names of the tables above)
__getattr__, __dir__ = lazy_names(__name__, {**_PACKERS, **_OTHERS})
