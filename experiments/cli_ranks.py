"""The commands of `evenstep` that start rank processes."""

import os
from typing import Annotated

import typer

from balancers import BALANCERS

from .console import JsonFile, json_bytes, output, progress_bar
from .files import ensure_writable, write_atomically

__all__ = ["chaos", "exchange"]


def exchange(
    *,
    ranks: Annotated[
        int, typer.Option(help="Processes on this machine; under torchrun those it started.", min=2, max=64)
    ] = 2,
    steps: Annotated[int, typer.Option(help="Steps of each way, after 5 to warm up.", min=10)] = 50,
    packs_per_cell: Annotated[int, typer.Option(help="Packs that a rank loads per step.", min=1, max=10_000)] = 8,
    mb: Annotated[float, typer.Option(help="Megabytes of a rank's packs in a step.", min=0.001, max=1000)] = 20.0,
    spread: Annotated[
        float, typer.Option(help="Of the loads, as sigma of a lognormal; 0: all alike, nothing moves.", min=0, max=4)
    ] = 1.0,
    compute_ms: Annotated[float, typer.Option(help="What a training step sleeps.", min=0, max=60_000)] = 200.0,
    balancer: Annotated[str, typer.Option(help="See: evenstep algorithms.")] = "LPT()",
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json_file: JsonFile = None,
) -> None:
    """Move packs between gloo ranks while a training loop sleeps: step time, waiting, bytes; overlapped or not.

    Each step ends in an all-reduce of the training loop on its own group. Also:
    torchrun --nproc-per-node 2 -m experiments exchange

    JSON: rows [{name, step_ms, exposed_ms, plan_ms, exchange_ms, meet_ms, moved_mb, mb_per_s, imbalance_before,
    imbalance_after, rss_growth_mb, threads_growth, files_growth}], of rank 0.
    """
    if json_file:
        ensure_writable(json_file)
    from .exchange import Exchange, exchange_here, spawn_exchange
    from .measurements import exchange_table

    started = int(os.environ.get("WORLD_SIZE", "0"))  # by torchrun
    if started == 1:
        raise typer.BadParameter("torchrun started one process, and packs move between two: --nproc-per-node 2.")
    config = Exchange(
        ranks=started or ranks,
        steps=steps,
        packs_per_cell=packs_per_cell,
        mb=mb,
        spread=spread,
        compute_ms=compute_ms,
        balancer=BALANCERS.parse(balancer),
        seed=seed,
    )
    with progress_bar() as progress:
        task = progress.add_task("exchanging", total=None)

        def tick(name: str, step: int) -> None:
            progress.update(task, description=f"{name}: step {step}")

        if started:
            import torch.distributed as td

            td.init_process_group("gloo")
            rows, first = exchange_here(config, tick), td.get_rank() == 0
            td.destroy_process_group()
        else:
            rows, first = spawn_exchange(config, tick), True
    if not first:
        return
    if json_file:
        write_atomically(json_file, json_bytes({"rows": [row._asdict() for row in rows]}))
    output().print(exchange_table(rows))


def chaos(
    *,
    times: Annotated[int, typer.Option(help="Trials; faults take turns.", min=1)] = 100,
    ranks: Annotated[int, typer.Option(help="Processes on this machine.", min=2, max=64)] = 3,
    timeout: Annotated[float, typer.Option(help="Seconds that a rank waits for another.", min=0.1, max=60)] = 2.0,
    seed: Annotated[int, typer.Option(help="Of victims and moments.", min=0)] = 0,
) -> None:
    """Kill a rank, or the one that holds the store, let it sleep, raise, or plan something else: do all others end?

    With and without forked DataLoader workers. Exit code 1 if any trial hung, took too long or delivered wrong data.
    """
    from .chaos import Chaos, run_trials, summary
    from .measurements import chaos_table

    with progress_bar() as progress:
        trials = run_trials(Chaos(times=times, ranks=ranks, timeout_s=timeout, seed=seed))
        done = [*progress.track(trials, total=times, description="chaos")]
    output().print(chaos_table(summary(done)))
    problems = [f"trial {i} ({trial.fault}): {trial.problem}" for i, trial in enumerate(done) if trial.problem]
    for line in problems:
        output().print(line, highlight=False, markup=False)
    if problems:
        raise typer.Exit(1)
