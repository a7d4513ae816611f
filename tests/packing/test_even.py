"""Even packs: the contract, and evenness where it can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing import (
    BestFitDecreasing,
    Buffered,
    CannotServe,
    EvenPacking,
    InvalidParameter,
    Limits,
    NextFit,
    Oversize,
    Packing,
    Portfolio,
    Samples,
    evenness_floor,
)
from packing.even_construction import RECIPES, Ordered, Recipe, by_recipe, construct
from packing.even_profiles import ladder, partners
from packing.replay import Condition, answers_under
from packing.resplit import even_out

IMAGES = EvenPacking(("image_tokens",))


def samples_of(pairs: list[tuple[int, int]]) -> Samples:
    """(text tokens, image tokens) of each sample."""
    return Samples([a + b for a, b in pairs], {"image_tokens": [b for _, b in pairs]})


def image_cv(packing: Packing) -> float:
    held = packing.sums()["image_tokens"]
    return float(held.std() / max(held.mean(), 1e-9))


def workload(n: int, seed: int = 0) -> Samples:
    """Half text, half samples with a few tiles of 256 tokens: at most 8,192 tokens."""
    rng = np.random.default_rng(seed)
    image = 256 * rng.integers(1, 9, n) * (rng.random(n) < 0.5)
    return Samples(image + rng.integers(10, 3_000, n), {"image_tokens": image})


pairs = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 8)), max_size=40)


@settings(max_examples=40)
@given(pairs=pairs, profile=st.sampled_from(["flat", "partners", "ladder"]), rounds=st.integers(0, 3))
def test_each_sample_is_in_one_pack_within_the_capacity(
    pairs: list[tuple[int, int]], profile: str, rounds: int
) -> None:
    samples = samples_of(pairs)
    targets = ("image_tokens", "tokens_squared")
    for packer in (
        EvenPacking(("image_tokens",), rounds=rounds, profile=profile),
        EvenPacking(targets, rounds=rounds, profile=profile),
    ):
        packing = packer.pack(samples, 20)
        assert sorted(packing.sample.tolist()) == list(range(len(pairs)))
        assert packing.tokens.max(initial=0) <= 20
        assert packing.offsets.tolist() == packer.pack(samples, 20).offsets.tolist()
        assert packing.sample.tolist() == packer.pack(samples, 20).sample.tolist()


@settings(max_examples=60)
@given(
    pairs=pairs,
    budget=st.integers(8, 20),
    max_samples=st.none() | st.integers(1, 5),
    profile=st.sampled_from(["flat", "partners"]),
)
def test_every_limit_is_kept_and_no_pack_is_added(
    pairs: list[tuple[int, int]], budget: int, max_samples: int | None, profile: str
) -> None:
    samples, limits = samples_of(pairs), Limits(20, (("image_tokens", budget),), max_samples=max_samples)
    packing = EvenPacking(("tokens_squared",), profile=profile).pack(samples, limits)
    assert sorted(packing.sample.tolist()) == list(range(len(pairs)))
    assert packing.tokens.max(initial=0) <= 20
    assert packing.sums()["image_tokens"].max(initial=0) <= budget
    assert np.diff(packing.offsets).max(initial=0) <= (max_samples or len(pairs))
    assert len(packing) == len(Portfolio().pack(samples, limits))


@pytest.mark.parametrize("limits", [Limits(8192, (("video", 3),)), Limits(8192, (("image_tokens", 8192),), 1_000)])
def test_limits_that_no_pack_comes_near_change_nothing(limits: Limits) -> None:
    samples = workload(2_000)
    samples = Samples(samples.tokens, {**samples.columns, "video": np.zeros(2_000, np.int64)})
    plain = IMAGES.pack(samples, 8192)
    assert IMAGES.pack(samples, limits).pack_of_sample.tolist() == plain.pack_of_sample.tolist()


def test_packs_are_even_under_limits_that_would_let_them_be_full() -> None:
    """Best fit leaves no token free, and so nothing to exchange; packs are built for ``fill``."""
    samples = workload(2_000)
    samples = Samples(samples.tokens, {**samples.columns, "turns": np.arange(2_000) % 5})
    limits = Limits(8192, (("turns", 14),))
    full, even = Portfolio().pack(samples, limits), IMAGES.pack(samples, limits)
    assert even.sums()["turns"].max() <= 14
    assert even.fill > 0.99
    assert image_cv(even) < 0.25 * image_cv(full)
    assert EvenPacking(("image_tokens",), fill=0.9).pack(samples, limits).fill < 0.91


def test_a_limit_that_even_packs_keep_changes_nothing() -> None:
    """Packs as built exceed it, evened out they do not."""
    samples = workload(2_000)
    free = IMAGES.pack(samples, 8192)
    most = int(free.sums()["image_tokens"].max())
    built = construct(samples.tokens.copy(), samples.columns["image_tokens"].copy(), 8192, 0.998)
    assert np.bincount(built, samples.columns["image_tokens"]).max() > most
    bound = IMAGES.pack(samples, Limits(8192, (("image_tokens", most),)))
    assert bound.sample.tolist() == free.sample.tolist()


def test_packs_of_few_samples_are_even_too() -> None:
    """Two samples a pack at most: each pair of 10 and 0 or 7 and 3 image tokens is 10."""
    samples = samples_of([(5, 10), (5, 0), (5, 7), (5, 3)] * 50)
    packing = IMAGES.pack(samples, Limits(1_000, max_samples=2))
    assert len(packing) == 100
    assert packing.sums()["image_tokens"].tolist() == [10] * 100


@pytest.mark.parametrize("limits", [Limits(100), Limits(100, (("image_tokens", 100),)), Limits(100, max_samples=3)])
@pytest.mark.parametrize("profile", ["flat", "partners", "ladder"])
def test_no_pack_is_emptied_where_two_fit_into_one(profile: str, limits: Limits) -> None:
    """289 tokens in four packs, of which new splits make three full ones: any split of text beside an image is even."""
    tokens = [26, 44, 38, 14, 26, 41, 15, 37, 48]
    samples = Samples(tokens, {"image_tokens": [0, 44, 0, 0, 0, 0, 0, 0, 0]})
    for seed in range(20):
        packing = EvenPacking(("image_tokens",), seed=seed, profile=profile).pack(samples, limits)
        assert len(packing) == len(Portfolio().pack(samples, limits)) == 4


@pytest.mark.parametrize("profile", ["flat", "partners", "ladder"])
@given(pairs=pairs, fill=st.sampled_from([1e-300, 1e-9, 0.1, 0.5, 1.0]), capacity=st.sampled_from([20, 60]))
def test_packs_as_empty_as_one_likes(pairs: list[tuple[int, int]], fill: float, capacity: int, profile: str) -> None:
    packing = EvenPacking(("image_tokens",), fill=fill, rounds=8, profile=profile).pack(samples_of(pairs), capacity)
    assert sorted(packing.sample.tolist()) == list(range(len(pairs)))
    assert packing.tokens.max(initial=0) <= capacity


@pytest.mark.parametrize("recipe", RECIPES)
@given(pairs=pairs, fill=st.sampled_from([0.5, 0.9, 1.0]))
def test_every_recipe_places_every_sample_once(
    pairs: list[tuple[int, int]], fill: float, recipe: Recipe | None
) -> None:
    tokens, image = np.array([a + b for a, b in pairs], np.int64), np.array([b for _, b in pairs], np.int64)
    pack_of = by_recipe(Ordered.of(tokens, image), 20, fill, recipe)
    assert sorted(set(pack_of.tolist())) == list(range(int(pack_of.max(initial=-1)) + 1))
    assert np.bincount(pack_of, tokens, 1).max() <= 20


def test_a_perfect_split_is_found() -> None:
    """Every pack can hold 4 of 8 tokens as images: two samples (2, 2) each, or (4, 0) with (0, 4)."""
    samples = samples_of([(4, 0)] * 50 + [(0, 4)] * 50 + [(2, 2)] * 100)
    packing = IMAGES.pack(samples, 8)
    assert packing.fill == 1.0
    assert image_cv(packing) == 0.0


def test_even_packs_are_as_full_as_best_fit_and_far_more_even() -> None:
    samples = workload(4_000)
    even, best_fit = IMAGES.pack(samples, 8192), BestFitDecreasing().pack(samples, 8192)
    floor = evenness_floor(samples.tokens, samples.columns["image_tokens"], 8192, len(even))
    assert even.fill > best_fit.fill - 0.003
    assert floor <= image_cv(even) < 0.3 * image_cv(best_fit)


def test_new_splits_never_change_the_number_of_packs_nor_raise_the_variation() -> None:
    samples = workload(1_000)
    tokens, image = samples.tokens.copy(), samples.columns["image_tokens"].copy()
    before = by_recipe(Ordered.of(tokens, image), 8192, 0.998, None)
    n_packs = int(before.max()) + 1
    sizes, caps = tokens[:, None], np.array([8192])
    for weights, amounts in (((1.0,), image[:, None]), ((1.0, 0.1), np.stack([image, tokens**2], axis=1))):
        after = even_out(sizes, amounts, before, np.zeros(n_packs, np.int64), caps, weights, 8, (0, 0))
        assert np.bincount(after, tokens).max() <= 8192
        assert int(after.max()) + 1 == n_packs
        assert np.bincount(after, image).std() < 0.9 * np.bincount(before, image).std()


def test_a_second_target_costs_the_first_little() -> None:
    """On average: one run more or less lucky moves the variation by as much."""
    samples = workload(4_000)
    alone, both = (
        [EvenPacking(targets, seed=seed).pack(samples, 8192) for seed in range(4)]
        for targets in (("image_tokens",), ("image_tokens", "tokens_squared"))
    )
    squares = [sum(packing.sum_of("tokens_squared").std() for packing in packings) for packings in (alone, both)]
    assert squares[1] < 0.75 * squares[0]
    assert sum(map(image_cv, both)) / 4 < sum(map(image_cv, alone)) / 4 + 0.004


def test_a_large_second_target_leaves_the_bits_of_the_first() -> None:
    """Squares of up to 2**48 beside counts of images."""
    rng = np.random.default_rng(0)
    samples = Samples(rng.integers(2**18, 2**21, 2_000), {"images": rng.integers(0, 9, 2_000)})
    alone, both = (EvenPacking(targets).pack(samples, 2**24) for targets in (("images",), ("images", "tokens_squared")))
    held = [packing.sums()["images"] for packing in (alone, both)]
    assert held[1].std() / held[1].mean() < held[0].std() / held[0].mean() + 0.02


def test_amounts_beyond_31_bits_are_evened_too() -> None:
    samples = Samples(np.arange(1, 2_001), {"flops": np.arange(1, 2_001) ** 3 * 2**12})
    held = [packer.pack(samples, 4_000).sums()["flops"] for packer in (BestFitDecreasing(), EvenPacking(("flops",)))]
    assert held[1].std() / held[1].mean() < 0.7 * held[0].std() / held[0].mean()


def test_others_are_evened_out_beside_one_that_dwarfs_them() -> None:
    """One pack of 401 holds twenty times as much as any other: the standard deviation is as large as the mean."""
    amounts = np.append(np.random.default_rng(0).integers(100, 1_000, 1_600), 44_000)
    sizes, before = np.append(np.full(1_600, 10), 40), np.append(np.arange(1_600) // 4, 400).astype(np.int32)
    aims = np.zeros(401, np.int64)
    after = even_out(sizes[:, None], amounts[:, None], before, aims, np.array([40]), (1.0,), 40, (0, 0))
    assert after[-1] == 400
    others = np.bincount(after, amounts)[:400]
    assert others.std() < 0.01 * others.mean()


def test_long_lists_are_split_by_a_random_choice_of_samples() -> None:
    rng = np.random.default_rng(0)
    samples = Samples(
        rng.integers(1, 30, 5_000), {"image_tokens": np.zeros(5_000, np.int64), "images": rng.integers(0, 9, 5_000)}
    )
    packing = EvenPacking(("images",), fill=0.99).pack(samples, 2_000)
    held = packing.sums()["images"]
    assert held.std() / held.mean() < 0.01


def test_calls_and_seeds_draw_anew() -> None:
    samples = workload(500)
    first, again, other = (IMAGES.pack(samples, 8192, call).sample.tolist() for call in (0, 0, 1))
    assert first == again != other
    assert EvenPacking(("image_tokens",), seed=1).pack(samples, 8192).sample.tolist() != first


def digests(packer: EvenPacking) -> str:
    stream = Buffered(packer, 8192, 300)
    parts = [packer.pack(workload(1_000), 8192), stream.push(workload(1_000)), stream.flush()]
    return " ".join(part.digest() for part in parts)


def test_threads_and_cpu_features_change_nothing() -> None:
    """At once and in a stream, one target and two; compiled for this CPU and for any."""
    packers = [IMAGES, EvenPacking(("image_tokens", "tokens_squared"), profile="partners")]
    conditions = [
        Condition("any CPU, one thread", (("NUMBA_CPU_NAME", "generic"), ("NUMBA_NUM_THREADS", "1"))),
        Condition("two threads", (("NUMBA_NUM_THREADS", "2"), ("OMP_NUM_THREADS", "2"))),
    ]
    here = [digests(packer) for packer in packers]
    assert answers_under(conditions, digests, packers) == [here] * len(conditions)


def test_partners_lack_what_an_outlier_has_too_much() -> None:
    """Sum 60 over 6 packs. The outlier of 35 has 25 above 10: two partners without anything and one of 5."""
    amounts, pack_of = np.array([35, 5, 5, 5, 5, 5]), np.arange(6, dtype=np.int32)
    assert partners(amounts, pack_of, amounts).tolist() == [35, 0, 0, 5, 10, 10]
    assert partners(np.full(6, 5), pack_of, np.full(6, 5)).tolist() == [0] * 6


def test_a_ladder_raises_an_eighth() -> None:
    amounts, pack_of = np.array([23, *[7] * 15]), np.arange(16, dtype=np.int32)
    assert ladder(amounts, pack_of, amounts).tolist() == [23, 23, *[(128 - 46) // 14] * 14]


def test_full_packs_near_the_mean_are_urgent() -> None:
    packing = BestFitDecreasing().pack(samples_of([(6, 4), (8, 2), (0, 7)]), 10)
    assert packing.tokens.tolist() == [10, 10, 7]
    urgency = EvenPacking(("image_tokens",)).urgency(packing)
    assert np.argsort(-urgency, kind="stable").tolist() == [0, 1, 2]
    assert BestFitDecreasing().urgency(packing).tolist() == [0, 0, -3]


def test_squares_beyond_int64_do_not_make_all_packs_alike() -> None:
    """512 packs of one sample of 2**27 tokens: the squares sum to 2**63. The last, of two halves, has half as much."""
    packing = NextFit().pack([2**27] * 512 + [2**26] * 2, 2**27)
    urgency = EvenPacking().urgency(packing)
    assert urgency[:512].tolist() == [-976] * 512
    assert urgency[512] == -499_512


def test_targets_are_columns_that_are_there() -> None:
    text = r'has the target "video", but the samples have no such column \(they have tokens_squared, image_tokens\)'
    with pytest.raises(CannotServe, match=text):
        EvenPacking(("video",)).pack(samples_of([(1, 1)]), 10)
    pieces = EvenPacking(("image_tokens",)).pack(
        Samples([25, 3], {"image_tokens": [0, 2]}), Limits(10, oversize=Oversize.SPLIT)
    )
    assert sorted(pieces.piece_tokens.tolist()) == [3, 5, 10, 10]
    with pytest.raises(CannotServe, match=r"counts samples in 31 bits, at most 1073741823 in a pack, not 1073741824"):
        IMAGES.pack(samples_of([(1, 1)]), Limits(10, max_samples=2**30))
    with pytest.raises(CannotServe, match="at most 134217728"):
        IMAGES.pack(samples_of([(1, 1)]), 2**27 + 1)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("targets", (), r"EvenPacking\(targets=\.\.\.\) must name at least one column; got \(\)\."),
        ("fill", 0.0, r"must be in \(0, 1\]; got 0\.0"),
        ("rounds", -1, "must be >= 0; got -1"),
        ("rounds", 2.5, r"EvenPacking\(rounds=\.\.\.\) must be an integer; got 2\.5"),
        ("rounds", 2**31, r"must be below 2\*\*31; got 2147483648"),
        ("targets", 5, r"must be a tuple of columns, such as \(\"image_tokens\",\); got 5"),
        ("weight", "x", "must be a number; got 'x'"),
        ("fill", None, "must be a number; got None"),
        ("weight", float("nan"), "must be a finite number >= 0; got nan"),
        ("weight", 1e60, r"must be at most 1000000; name the target first instead; got 1e\+60"),
        ("seed", -1, "must be in"),
        ("profile", "steep", "must be one of flat, partners, ladder; got 'steep'"),
    ],
)
def test_parameters_out_of_range_are_refused(field: str, value: object, text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        EvenPacking(**{field: value})  # type: ignore[arg-type]
