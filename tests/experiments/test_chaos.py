"""A sample of the trials of `evenstep chaos`: every fault, with and without forked DataLoader workers."""

from __future__ import annotations

from experiments import Chaos, run_trials
from experiments.chaos import FAULTS


def test_survivors_end_in_time_with_an_error_and_no_wrong_data() -> None:
    trials = list(run_trials(Chaos(times=2 * len(FAULTS), timeout_s=2.0, seed=3)))
    assert {(trial.fault, trial.workers) for trial in trials} == {(f, w) for f in FAULTS for w in (False, True)}
    for trial in trials:
        assert trial.problem == "", trial
        assert len(trial.errors) == 2
