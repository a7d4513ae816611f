"""Blocks of the documents do what they say; those of recipes, against stand-ins of the packages that they extend."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

from packing import BestFitDecreasing, Buffered, EvenPacking, Samples

from .documents import ROOT, run

CAPACITY = 8192


def stand_in(patch: pytest.MonkeyPatch, name: str, **members: object) -> None:
    """Let ``name`` be a module with these members."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        patch.setitem(sys.modules, ".".join(parts[:depth]), ModuleType(".".join(parts[:depth])))
    vars(sys.modules[name]).update(members)


def mixed(n: int) -> Samples:
    rng = np.random.default_rng(0)
    images = 256 * rng.integers(1, 9, n) * (rng.random(n) < 0.5)
    return Samples(images + rng.integers(10, 3_000, n), {"image_tokens": images})


def test_the_first_block_prints_what_the_readme_says(capsys: pytest.CaptureFixture[str]) -> None:
    run("README.md", "evenstep")
    printed = re.search(r"^prints `(.*?)`", (ROOT / "README.md").read_text(), re.M)
    assert printed is not None
    assert capsys.readouterr().out == f"{printed[1]}\n"


def test_energon_packs_are_even(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "megatron.energon", DefaultTaskEncoder=object)
    samples = mixed(2_000)
    waiting = [
        SimpleNamespace(tokens=range(length), image_tokens=images, number=i)
        for i, (length, images) in enumerate(zip(samples.tokens, samples.columns["image_tokens"], strict=True))
    ]
    groups = run("docs/recipes.md", "Energon")["Encoder"]().select_samples_to_pack(waiting)
    assert sorted(each.number for group in groups for each in group) == list(range(2_000))
    assert max(sum(len(each.tokens) for each in group) for group in groups) <= CAPACITY
    held = np.array([sum(each.image_tokens for each in group) for group in groups])
    best_fit = BestFitDecreasing().pack(samples, CAPACITY)
    assert len(groups) == len(best_fit)
    assert held.std() < 0.2 * best_fit.sum_of("image_tokens").std()


def test_trl_gets_rows_that_tell_the_lengths_of_their_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "datasets", Dataset=SimpleNamespace(from_dict=dict))
    stand_in(monkeypatch, "trl", SFTConfig=dict, SFTTrainer=lambda model, **given: given)
    rows = [[i] * int(length) for i, length in enumerate(mixed(300).tokens)]
    trainer = run("docs/recipes.md", "TRL", tokenized={"input_ids": rows}, model=None)["trainer"]
    packed = trainer["train_dataset"]
    for tokens, lengths in zip(packed["input_ids"], packed["seq_lengths"], strict=True):
        assert len(tokens) == sum(lengths) <= CAPACITY
        assert [len(rows[tokens[start]]) for start in np.cumsum([0, *lengths[:-1]])] == lengths
    assert sorted(length for lengths in packed["seq_lengths"] for length in lengths) == sorted(map(len, rows))


def test_verl_splits_by_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = SimpleNamespace(get_seqlen_balanced_partitions=None)
    stand_in(monkeypatch, "verl.trainer.ppo", ray_trainer=trainer)
    run("docs/recipes.md", "verl")
    split = trainer.get_seqlen_balanced_partitions
    assert split is not None
    assert sorted(split([5, 4, 3, 3, 3], k_partitions=2, equal_size=False)) == [[0, 1], [2, 3, 4]]


def test_a_stream_gives_each_sample_once_and_resumes() -> None:
    lengths, sizes = mixed(2_000), [7, 300, 500, 193, 800, 200]
    samples = [
        {"tokens": range(length), "image_tokens": images, "number": i}
        for i, (length, images) in enumerate(zip(lengths.tokens, lengths.columns["image_tokens"], strict=True))
    ]
    ends = np.cumsum(sizes)
    chunks = [samples[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    packs = run("docs/recipes.md", "A stream")["packs"]

    def stream() -> Buffered:
        return Buffered(EvenPacking(("image_tokens",)), CAPACITY, buffer_size=200)

    def numbers(found: Any) -> list[list[int]]:
        return [[each["number"] for each in pack] for pack, _ in found]

    waiting: dict[int, Any] = {}
    through = numbers(packs(chunks, stream(), waiting))
    assert sorted(i for pack in through for i in pack) == list(range(2_000))
    assert not waiting

    states: list[Any] = []

    def watched(stopped: Buffered) -> Any:
        for chunk in chunks:
            states.append((stopped.state_dict(), dict(waiting)))  # all packs of the push before have been taken
            yield chunk

    watched_stream = stream()
    assert numbers(packs(watched(watched_stream), watched_stream, waiting)) == through
    resumed = stream()
    state, waiting = states[3]
    resumed.load_state_dict(state)
    rest = numbers(packs(chunks[3:], resumed, waiting))
    assert rest == through[-len(rest) :]


def test_a_sampler_resumes_inside_an_epoch() -> None:
    samples = mixed(1_000)
    names = run("docs/recipes.md", "DataLoader", samples=samples, dataset=range(1_000), n_ranks=2, rank=1)
    resumed = list(names["loader"])
    names["sampler"].set_epoch(3)
    assert resumed == list(names["loader"])[40:]
    assert resumed


def test_attention_stays_inside_a_sample() -> None:
    def varlen(*given: Any, causal: bool) -> torch.Tensor:
        q, k, v, ends, ends_of_keys, longest, longest_key = given
        assert ends.dtype == torch.int32
        assert ends.tolist() == ends_of_keys.tolist() == [0, 5, 9, 10]  # the last place is padding
        assert longest == longest_key == 5
        parts = (each.tensor_split([5, 9]) for each in (q, k, v))
        return torch.cat([attention(q, k, v, is_causal=causal) for q, k, v in zip(*parts, strict=True)])

    packing = BestFitDecreasing().pack([5, 4, 3, 3], 10)
    q, k, v = torch.randn(3, 10, 4, generator=torch.Generator().manual_seed(0))
    tokens = [torch.full((n,), n) for n in (5, 4, 3, 3)]
    given = {"packing": packing, "tokens": tokens, "q": q, "k": k, "v": v, "flash_attn_varlen_func": varlen}
    names = run("docs/recipes.md", "Attention", **given)
    assert names["input_ids"].tolist() == [5] * 5 + [4] * 4 + [0]
    assert names["position_ids"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 0]
    torch.testing.assert_close(names["output"][5:9], attention(q[5:9], k[5:9], v[5:9], is_causal=True))
