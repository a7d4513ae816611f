"""The commands of `evenstep` that measure: time, distance from bounds and optima, and what others take."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from balancers import BALANCERS
from packing import PACKERS, EvenstepError

from .console import JsonFile, json_bytes, output, progress_bar
from .files import ensure_writable, write_atomically

__all__ = ["bench", "gaps", "optima", "peers"]


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: a few seconds.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Time packers and balancers over growing sizes: growth from n/2 to n, time in sorts, and quality.

    Growth is 2 for linear time and 4 for quadratic. Sorts: the time divided by that of numpy.sort on the same integers.
    Quality: fill of packers, cost / lower bound of balancers; 1 is perfect. Compiling is not counted.

    JSON: rows [{case, algorithm, n, us, growth, sorts, quality}].
    """
    if json_file:
        ensure_writable(json_file)
    from . import bench as benches
    from .measurements import timings_table

    config = benches.QUICK if quick else benches.Bench()
    with progress_bar() as progress:
        timings = [*progress.track(benches.time_algorithms(config), total=config.n_timings, description="timing")]
    if json_file:
        write_atomically(json_file, json_bytes({"rows": [asdict(timing) for timing in timings]}))
    output().print(timings_table(timings))


def gaps(
    balancer: Annotated[
        list[str] | None,
        typer.Option(help="May be repeated. Default: LPT, KarmarkarKarp, Auto.", show_default=False),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Plan training steps over many seeds: distance from the proven bound, share proven optimal, CPU time.

    Images: best-fit packs of samples drawn from the figures of real sources, at 60,000 + 280 us per image token. Ranks
    x packs, or ranks x micro-steps x packs; equal counts. Totals: the fullest rank's load over all micro-steps above
    the mean. Sorts: the time divided by that of numpy.sort on the same integers. Compiling is not counted.

    JSON: rows [{case, balancer, n_seeds, gap_mean, gap_max, proven, totals_max, ms_mean, ms_max, sorts}].
    """
    if json_file:
        ensure_writable(json_file)
    from .gaps import Gaps, measure_gaps
    from .measurements import gaps_table

    config = Gaps(balancers=tuple(map(BALANCERS.parse, balancer))) if balancer else Gaps()
    with progress_bar() as progress:
        rows = [*progress.track(measure_gaps(config), total=config.n_rows, description="planning")]
    if json_file:
        write_atomically(json_file, json_bytes({"rows": [asdict(row) for row in rows]}))
    output().print(gaps_table(rows))


def optima(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Instances, .jsonl or .jsonl.gz: name, machines, optimum, jobs; or name, capacity, lower, upper, "
            "lengths."
        ),
    ],
    balancer: Annotated[
        list[str] | None,
        typer.Option(help="May be repeated. Default: LPT, KarmarkarKarp, Multifit, Auto.", show_default=False),
    ] = None,
    packer: Annotated[
        list[str] | None,
        typer.Option(
            help="May be repeated. Default: FirstFitDecreasing, BestFitDecreasing, ColumnGeneration.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Solve makespan (P||Cmax) and bin packing instances with known optima: share solved and proven, gap, CPU time.

    What a file holds decides who solves it: balancers or packers. The bound of bin packing is that of column
    generation.
    """
    from .measurements import bins_table, optima_table
    from .optima import BinInstance, Instance, bin_bounds, read_instances, solve, solve_bins

    balancers = [BALANCERS.parse(text) for text in balancer or ("LPT", "KarmarkarKarp", "Multifit", "Auto")]
    packers = [
        PACKERS.parse(text) for text in packer or ("FirstFitDecreasing", "BestFitDecreasing", "ColumnGeneration")
    ]
    read = [(path, read_instances(path)) for path in files]
    for given, kind, option in ((balancer, Instance, "--balancer"), (packer, BinInstance, "--packer")):
        if given and not any(isinstance(instances[0], kind) for _, instances in read):
            raise EvenstepError(f"{option} has nothing to solve: {', '.join(map(str, files))} hold no such instances.")
    plans, packings = [], []
    with progress_bar() as progress:
        for path, instances in progress.track(read, description="solving"):
            family = path.name.partition(".")[0].removeprefix("makespan-").removeprefix("binpacking-")
            makespan = [each for each in instances if isinstance(each, Instance)]
            bins = [each for each in instances if isinstance(each, BinInstance)]
            if makespan:
                plans += [solve(each, family, makespan) for each in balancers]
            if bins:
                bounds = bin_bounds(bins)
                packings += [solve_bins(each, family, bins, bounds) for each in packers]
    if plans:
        output().print(optima_table(plans))
    if packings:
        output().print(bins_table(packings))


def peers(
    json_file: JsonFile = None,
) -> None:
    """Compare with other packages, where installed: their time and cost divided by ours on the same loads or lengths.

    Each is compared with the balancer that computes the same, and with Auto. Above 1, theirs takes or costs more.
    Loads are uniform and lognormal, on ranks x packs per rank, with free counts. Packing packages are compared on
    lognormal lengths in packs of 8,192. Compiling is not counted.

    JSON: rows [{package, algorithm, case, ours, peer_us, ours_us, time_ratio, cost_ratio, auto_time_ratio,
    auto_cost_ratio} or {package, algorithm, case, reason}], packing [the same with packs_ratio for the last three].
    """
    if json_file:
        ensure_writable(json_file)
    from .measurements import packing_peers_table, peers_table
    from .packing_peers import PACKING_PEERS, compare_with_packing_peer
    from .peers import PEERS, compare_with_peer

    with progress_bar() as progress:
        rows = [row for peer in progress.track(PEERS, description="peers") for row in compare_with_peer(peer)]
        packing = [
            row
            for peer in progress.track(PACKING_PEERS, description="packing peers")
            for row in compare_with_packing_peer(peer)
        ]
    if json_file:
        write_atomically(json_file, json_bytes({"rows": [*map(asdict, rows)], "packing": [*map(asdict, packing)]}))
    console = output()
    console.print(peers_table(rows))
    console.print(packing_peers_table(packing))
