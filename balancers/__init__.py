"""Loads -> plan. Names load on first use; see `BALANCERS` for the algorithms by name."""

from typing import TYPE_CHECKING

from packing.lazy import lazy_names
from packing.registry import Registry

if TYPE_CHECKING:
    from .auto import Auto as Auto
    from .base import Balancer as Balancer
    from .baselines import Random as Random
    from .baselines import RoundRobin as RoundRobin
    from .baselines import StayHome as StayHome
    from .complete_karmarkar_karp import CompleteKarmarkarKarp as CompleteKarmarkarKarp
    from .constraints import Cap as Cap
    from .constraints import Constraint as Constraint
    from .constraints import Pinned as Pinned
    from .constraints import Together as Together
    from .cost import Linear as Linear
    from .cost import stages as stages
    from .errors import Infeasible as Infeasible
    from .errors import InvalidGrid as InvalidGrid
    from .errors import InvalidPlan as InvalidPlan
    from .errors import InvalidProblem as InvalidProblem
    from .errors import NoPlanFound as NoPlanFound
    from .fitting import Fit as Fit
    from .fitting import fit as fit
    from .grid import Barrier as Barrier
    from .grid import Counts as Counts
    from .grid import Grid as Grid
    from .grid import GridLike as GridLike
    from .hill_climb import HillClimb as HillClimb
    from .hill_climb import Relax as Relax
    from .ilp import ILP as ILP
    from .iterated import Iterated as Iterated
    from .karmarkar_karp import KarmarkarKarp as KarmarkarKarp
    from .list_scheduling import ListScheduling as ListScheduling
    from .lpt import LPT as LPT
    from .micro_batching import micro_batches as micro_batches
    from .micro_batching import partition as partition
    from .minimum_bin_slack import MinimumBinSlack as MinimumBinSlack
    from .movement import LeastMovement as LeastMovement
    from .movement import WorthMoving as WorthMoving
    from .movement import movement_front as movement_front
    from .multifit import Multifit as Multifit
    from .peel import Peel as Peel
    from .plan import Assignment as Assignment
    from .plan import Plan as Plan
    from .plan import Status as Status
    from .portfolio import Portfolio as Portfolio
    from .problem import Problem as Problem
    from .prove import Prove as Prove
    from .refine import Refine as Refine
    from .rotate import Rotate as Rotate
    from .slack import SlackLPT as SlackLPT
    from .zigzag import Zigzag as Zigzag

_BALANCERS = {
    "StayHome": "balancers.baselines:StayHome",
    "RoundRobin": "balancers.baselines:RoundRobin",
    "Random": "balancers.baselines:Random",
    "Zigzag": "balancers.zigzag:Zigzag",
    "LPT": "balancers.lpt:LPT",
    "SlackLPT": "balancers.slack:SlackLPT",
    "KarmarkarKarp": "balancers.karmarkar_karp:KarmarkarKarp",
    "CompleteKarmarkarKarp": "balancers.complete_karmarkar_karp:CompleteKarmarkarKarp",
    "Multifit": "balancers.multifit:Multifit",
    "MinimumBinSlack": "balancers.minimum_bin_slack:MinimumBinSlack",
    "ListScheduling": "balancers.list_scheduling:ListScheduling",
    "Refine": "balancers.refine:Refine",
    "HillClimb": "balancers.hill_climb:HillClimb",
    "Relax": "balancers.hill_climb:Relax",
    "Iterated": "balancers.iterated:Iterated",
    "ILP": "balancers.ilp:ILP",
    "Prove": "balancers.prove:Prove",
    "Portfolio": "balancers.portfolio:Portfolio",
    "Peel": "balancers.peel:Peel",
    "LeastMovement": "balancers.movement:LeastMovement",
    "WorthMoving": "balancers.movement:WorthMoving",
    "Rotate": "balancers.rotate:Rotate",
    "Auto": "balancers.auto:Auto",
}
_OTHERS = {
    "Balancer": "balancers.base:Balancer",
    "Linear": "balancers.cost:Linear",
    **{name: f"balancers.micro_batching:{name}" for name in ("micro_batches", "partition")},
    "stages": "balancers.cost:stages",
    "Fit": "balancers.fitting:Fit",
    "fit": "balancers.fitting:fit",
    "movement_front": "balancers.movement:movement_front",
    "Problem": "balancers.problem:Problem",
    **{name: f"balancers.plan:{name}" for name in ("Assignment", "Plan", "Status")},
    **{name: f"balancers.grid:{name}" for name in ("Barrier", "Counts", "Grid", "GridLike")},
    **{name: f"balancers.constraints:{name}" for name in ("Cap", "Constraint", "Pinned", "Together")},
    **{
        name: f"balancers.errors:{name}"
        for name in ("Infeasible", "InvalidGrid", "InvalidPlan", "InvalidProblem", "NoPlanFound")
    },
}

BALANCERS: "Registry[Balancer]" = Registry("balancer", "balancers:Balancer", "evenstep.balancers", _BALANCERS)

__all__ = ["BALANCERS", *_BALANCERS, *_OTHERS]  # noqa: PLE0604  (names of the tables above)
__getattr__, __dir__ = lazy_names(__name__, {**_BALANCERS, **_OTHERS})
