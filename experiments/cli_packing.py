"""The commands of `evenstep` that are about packing alone."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from .console import JsonFile, check_outputs, json_bytes, output, progress_bar
from .files import write_atomically

__all__ = ["even", "reproduce"]

Families: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Three tables to draw from: images in chat, tiled images with questions, text. Without them, samples "
        "are drawn from the figures of real sources.",
        show_default=False,
    ),
]


def even(
    files: Families = None,
    *,
    samples: Annotated[int, typer.Option(help="How many samples of each mixture.", min=1)] = 100_000,
    seed: Annotated[
        list[int] | None, typer.Option(help="May be repeated. Default: 0.", show_default=False, min=0)
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Pack five mixtures with best fit, with even packs, at once and in a stream, and under a hard budget.

    CV: standard deviation / mean of image tokens per pack; floor: a proven lower bound on it; us: CPU time per sample,
    compiling not counted. Waste, in %, on 64 and 512 ranks over steps of eight micro-steps, packs in random order.
    One barrier per step: "dealt" without a planner, "step" with one, "two" with two steps planned at a time, "least"
    what whole tiles force upon any planner and packs. A barrier at each micro-step: "micro", with a planner.

    JSON: rows [{mixture, seed, packer, fill, cv, floor, multiple, attention_cv, us, dealt, waste, least, window_waste,
    micro_waste}].
    """
    check_outputs(json_file, tables=files or ())
    from .even import Even, even_rows
    from .measurements import even_table

    config = Even(files=tuple(files or ()), n_samples=samples, seeds=tuple(seed or (0,)))
    with progress_bar() as progress:
        rows = [*progress.track(even_rows(config), total=config.n_rows, description="packing")]
    if json_file:
        write_atomically(json_file, json_bytes({"rows": [asdict(row) for row in rows]}))
    output().print(even_table(rows, config.n_ranks))


def reproduce(
    files: Families = None,
    *,
    samples: Annotated[int, typer.Option(help="How many samples of each mixture.", min=1)] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the samples drawn and of the order of packs.", min=0)] = 0,
    budget: Annotated[int, typer.Option(help="Image tokens per pack, of a budget that is hard.", min=1)] = 3_000,
    json_file: JsonFile = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw fill against waiting into this PNG file.", show_default=False)
    ] = None,
) -> None:
    """Show what padding wastes, why packs under a hard image budget stay empty, and what even packing reaches instead.

    Alone: share of samples above the budget, which have packs of their own; fill: real tokens / tokens paid for; bound:
    the fill that a proven bound on the packs allows; CV: variation of image tokens per pack; waste: share of time that
    64 ranks wait at the end of a step of 8 micro-steps, packs in random order, as dealt and as planned by Auto.

    JSON: rows [{question, mixture, packer, budget, alone, fill, ceiling, cv, dealt_waste, planned_waste}].
    """
    check_outputs(json_file, plot, files or ())
    from .measurements import reproduced_table
    from .reproduce import Reproduce
    from .reproduce import reproduce as rows_of

    config = Reproduce(files=tuple(files or ()), n_samples=samples, seed=seed, budget=budget)
    with progress_bar() as progress:
        rows = [*progress.track(rows_of(config), description="packing", total=None)]
    if json_file:
        write_atomically(json_file, json_bytes({"rows": [asdict(row) for row in rows]}))
    if plot:
        from .reproduce_plot import draw_front

        write_atomically(plot, draw_front(rows))
    output().print(reproduced_table(rows))
