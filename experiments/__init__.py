"""Everything compared. Names load on first use; the console command is `evenstep`."""

from typing import TYPE_CHECKING

from packing.lazy import lazy_names

if TYPE_CHECKING:
    from .bench import Bench as Bench
    from .bench import Timing as Timing
    from .bench import time_algorithms as time_algorithms
    from .chaos import Chaos as Chaos
    from .chaos import Trial as Trial
    from .chaos import run_trials as run_trials
    from .compare import Compare as Compare
    from .compare import Comparison as Comparison
    from .compare import Dealt as Dealt
    from .compare import NoFullStep as NoFullStep
    from .compare import Refusal as Refusal
    from .compare import Row as Row
    from .compare import compare_balancers as compare_balancers
    from .compare import deal as deal
    from .even import Even as Even
    from .even import EvenRow as EvenRow
    from .even import even_rows as even_rows
    from .exchange import Exchange as Exchange
    from .exchange import ExchangeRow as ExchangeRow
    from .exchange import RankEnded as RankEnded
    from .exchange import exchange_here as exchange_here
    from .exchange import spawn_exchange as spawn_exchange
    from .files import CannotWrite as CannotWrite
    from .gaps import Gap as Gap
    from .gaps import Gaps as Gaps
    from .gaps import measure_gaps as measure_gaps
    from .optima import BadInstance as BadInstance
    from .optima import BinInstance as BinInstance
    from .optima import Instance as Instance
    from .optima import Packed as Packed
    from .optima import Solved as Solved
    from .optima import bin_bounds as bin_bounds
    from .optima import read_instances as read_instances
    from .optima import solve as solve
    from .optima import solve_bins as solve_bins
    from .packing_peers import PackingPeer as PackingPeer
    from .packing_peers import PackingPeerRow as PackingPeerRow
    from .packing_peers import compare_with_packing_peer as compare_with_packing_peer
    from .peers import Peer as Peer
    from .peers import PeerRow as PeerRow
    from .peers import SkippedPeer as SkippedPeer
    from .peers import compare_with_peer as compare_with_peer
    from .plot import draw_loads as draw_loads
    from .reproduce import Reproduce as Reproduce
    from .reproduce import ReproducedRow as ReproducedRow
    from .reproduce import reproduce as reproduce
    from .reproduce_plot import draw_front as draw_front
    from .tables import BadTable as BadTable
    from .tables import read_samples as read_samples
    from .workload import InvalidWorkload as InvalidWorkload
    from .workload import Workload as Workload
    from .workload import draw as draw

_NAMES = {
    **{name: f"experiments.bench:{name}" for name in ("Bench", "Timing", "time_algorithms")},
    **{name: f"experiments.chaos:{name}" for name in ("Chaos", "Trial", "run_trials")},
    **{
        name: f"experiments.compare:{name}"
        for name in ("Compare", "Comparison", "Dealt", "NoFullStep", "Refusal", "Row", "compare_balancers", "deal")
    },
    **{name: f"experiments.even:{name}" for name in ("Even", "EvenRow", "even_rows")},
    **{
        name: f"experiments.exchange:{name}"
        for name in ("Exchange", "RankEnded", "ExchangeRow", "exchange_here", "spawn_exchange")
    },
    "CannotWrite": "experiments.files:CannotWrite",
    **{name: f"experiments.gaps:{name}" for name in ("Gap", "Gaps", "measure_gaps")},
    **{
        name: f"experiments.optima:{name}"
        for name in (
            "BadInstance",
            "BinInstance",
            "Instance",
            "Packed",
            "Solved",
            "bin_bounds",
            "read_instances",
            "solve",
            "solve_bins",
        )
    },
    **{
        name: f"experiments.packing_peers:{name}"
        for name in ("PackingPeerRow", "PackingPeer", "compare_with_packing_peer")
    },
    **{name: f"experiments.peers:{name}" for name in ("PeerRow", "SkippedPeer", "Peer", "compare_with_peer")},
    "draw_loads": "experiments.plot:draw_loads",
    **{name: f"experiments.reproduce:{name}" for name in ("Reproduce", "ReproducedRow", "reproduce")},
    "draw_front": "experiments.reproduce_plot:draw_front",
    **{name: f"experiments.tables:{name}" for name in ("BadTable", "read_samples")},
    **{name: f"experiments.workload:{name}" for name in ("InvalidWorkload", "Workload", "draw")},
}

__all__ = [*_NAMES]  # noqa: PLE0604  (names of the table above)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
