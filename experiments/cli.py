"""The commands of `evenstep`: they parse, call and print."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from balancers import BALANCERS, Barrier, Counts
from packing import PACKERS, CannotCut, EvenstepError, InvalidParameter, Oversize, Oversized

from .cli_measuring import bench, gaps, optima, peers
from .cli_packing import even, reproduce
from .cli_ranks import chaos, exchange
from .console import check_outputs, json_bytes, output, progress_bar
from .files import write_atomically

if TYPE_CHECKING:
    from .workload import Workload

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Pack samples, balance packs across ranks, and compare what it gains.",
)


@app.command()
def compare(
    table: Annotated[
        Path | None,
        typer.Argument(
            help="Samples as .parquet, .csv or .jsonl with the columns tokens and image_tokens. Without it, samples "
            "are drawn from the figures of real sources.",
            show_default=False,
        ),
    ] = None,
    *,
    ranks: Annotated[int, typer.Option(help="Data-parallel ranks.")] = 64,
    micro_steps: Annotated[int, typer.Option(help="Micro-steps in a step.")] = 8,
    packs_per_cell: Annotated[int, typer.Option(help="Packs that a rank takes in a micro-step.")] = 1,
    barrier: Annotated[Barrier, typer.Option(help="Where ranks wait for each other.")] = Barrier.STEP,
    counts: Annotated[Counts, typer.Option(help="How many packs each cell takes.")] = Counts.EQUAL,
    capacity: Annotated[int, typer.Option(help="Tokens in a pack.")] = 8192,
    packer: Annotated[str, typer.Option(help="See: evenstep algorithms.")] = "BestFitDecreasing()",
    balancer: Annotated[
        list[str] | None,
        typer.Option(
            help="May be repeated; the first is what the others are compared with. See: evenstep algorithms. "
            "Default: RoundRobin, Zigzag, LPT, KarmarkarKarp, Auto, and Auto moving less for 1 % more.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="How many samples to draw, without TABLE. Default: 100000.", show_default=False, min=1),
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(
            help="Shares of images in chat, tiled images with questions, and text in the samples drawn. "
            "Default: 0.4,0.1,0.5.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the samples drawn and of the order of packs.", min=0)] = 0,
    oversize: Annotated[
        Oversize, typer.Option(help="What happens to samples longer than the capacity.")
    ] = Oversize.ERROR,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result here.", show_default=False)] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the ranks' loads in a typical step into this PNG file.", show_default=False),
    ] = None,
) -> None:
    """Compare balancers on packs dealt to ranks in random order: time of a step, waiting, bytes moved, planning time.

    The plans are shown as the balancers make them, even where staying home would be cheaper than moving.

    JSON: packing {samples, packs, fill, slots, image_token_cv, left_over_samples, left_over_tokens}, steps,
    left_over_packs, rows [{balancer, cost, lower_bound, gap, imbalance, waste, moved_packs, moved_bytes, step_ms,
    digest, measured {plan_us_mean, plan_us_max}} or {balancer, reason}], config {all parameters}. Cost and bound are
    microseconds of the forward pass, summed over steps like the moves; step_ms is the predicted mean time of a step,
    forward and backward. Equal seeds give equal files but for what stands under measured.
    """
    check_outputs(json_file, plot, [table] if table else ())
    with progress_bar() as progress:
        task = progress.add_task("packing and planning", total=None)
        from . import report
        from .compare import DEFAULT_BALANCERS, Compare, compare_balancers

        config = Compare(
            balancers=tuple(map(BALANCERS.parse, balancer)) if balancer else DEFAULT_BALANCERS,
            packer=PACKERS.parse(packer),
            capacity=capacity,
            oversize=oversize,
            n_ranks=ranks,
            n_micro_steps=micro_steps,
            packs_per_cell=packs_per_cell,
            barrier=barrier,
            counts=counts,
            seed=seed,
        )
        workload = _workload(table, samples, shares, seed)
        progress.update(task, total=len(config.balancers))
        try:
            result = compare_balancers(config, workload.samples, lambda: progress.advance(task))
        except (Oversized, CannotCut) as error:
            if isinstance(error, CannotCut) and config.packer.cuts:  # it cuts whatever the policy
                raise
            raise EvenstepError(f"{error} On the command line: --oversize drop, or isolate.") from error
    if json_file:
        write_atomically(json_file, json_bytes(report.as_json(result)))
    if plot:
        from .plot import draw_loads

        write_atomically(plot, draw_loads(result))
    console = output()
    console.print(report.as_table(result))
    for line in (*report.refusals(result), report.on_packing(result), report.answer(result)):
        console.print(line, highlight=False, markup=False)


for command in (bench, gaps, optima, peers, even, reproduce, exchange, chaos):
    app.command()(command)


@app.command()
def algorithms() -> None:
    """List the packers and balancers by name."""
    from .measurements import algorithms_table

    console = output()
    console.print(algorithms_table(PACKERS))
    console.print(algorithms_table(BALANCERS))


def _workload(table: Path | None, n_samples: int | None, shares: str | None, seed: int) -> "Workload":
    if table:
        if n_samples is not None or shares is not None:
            raise typer.BadParameter("--samples and --shares are for samples that are drawn, without TABLE.")
        from .tables import read_samples

        return read_samples(table)
    from .workload import SHARES, draw

    return draw(100_000 if n_samples is None else n_samples, SHARES if shares is None else _parsed_shares(shares), seed)


def _parsed_shares(text: str) -> dict[str, float]:
    from .workload import SHARES

    try:
        return dict(zip(SHARES, map(float, text.split(",")), strict=True))
    except ValueError as error:
        raise InvalidParameter(f'--shares must be three numbers, of {", ".join(SHARES)}; got "{text}".') from error
