from __future__ import annotations

import re
from collections import Counter

import pytest

from heed.data.embedded.generated import SPLITS, split_of
from heed.data.embedded.pairs import DigitSource, Order
from heed.errors import DataError


def test_copy_repeats_the_digits_along_the_diagonal() -> None:
    for pair in DigitSource("copy", (1, 8)).sample("train", 300):
        assert re.fullmatch(r"[0-9]{1,8}", pair.source)
        assert pair.target == pair.source
        assert [(link.target, link.source) for link in pair.links or ()] == [
            ((i, i + 1), (i, i + 1)) for i in range(len(pair.source))
        ]


def test_reverse_turns_the_digits_round_along_the_anti_diagonal() -> None:
    for pair in DigitSource("reverse", (1, 8)).sample("train", 300):
        assert pair.target == "".join(reversed(pair.source))
        assert pair.links is not None
        positions = [(link.target[0], link.source[0]) for link in pair.links]
        assert positions == [(i, len(pair.source) - 1 - i) for i in range(len(pair.source))]
        for link in pair.links:
            assert pair.target[slice(*link.target)] == pair.source[slice(*link.source)] != ""


@pytest.mark.parametrize("kind", ["copy", "reverse"])
def test_splits_are_disjoint_and_the_same_for_every_kind_and_seed(kind: Order) -> None:
    for seed in (1, 2):
        source = DigitSource(kind, (2, 5), seed)
        for split in SPLITS:
            assert all(split_of(pair.source) == split for pair in source.sample(split, 300))


def test_the_shares_of_the_splits() -> None:
    shares = Counter(split_of(str(number)) for number in range(20_000))
    assert abs(shares["train"] - 18_000) < 150  # three standard deviations: 127
    assert abs(shares["valid"] - 1_000) < 100
    assert abs(shares["test"] - 1_000) < 100


def test_lengths_are_uniform() -> None:
    lengths = Counter(len(pair.source) for pair in DigitSource(length=(4, 9)).sample("train", 3000))
    assert set(lengths) == {4, 5, 6, 7, 8, 9}
    assert all(400 < count < 600 for count in lengths.values())


def test_a_sample_is_the_beginning_of_a_longer_one_and_does_not_repeat() -> None:
    pairs = DigitSource(seed=7).sample("valid", 1000)
    assert DigitSource(seed=7).sample("valid", 100) == pairs[:100]
    assert DigitSource(seed=8).sample("valid", 100) != pairs[:100]
    assert len({pair.source for pair in pairs}) == 1000


def test_short_strings_run_out_and_repeat() -> None:
    pairs = DigitSource(length=(2, 2)).sample("train", 500)
    assert len({pair.source for pair in pairs}) == sum(split_of(f"{n:02}") == "train" for n in range(100))


def test_a_split_without_strings_is_refused() -> None:
    empty = {split for split in SPLITS if not any(split_of(str(digit)) == split for digit in range(10))}
    assert empty  # ten strings do not fill three splits of which two are small
    for split in empty:
        with pytest.raises(DataError, match=rf"length \(1, 1\): split '{split}' has no strings .*; allow longer"):
            DigitSource(length=(1, 1)).sample(split, 1)
        assert {len(pair.source) for pair in DigitSource(length=(1, 3)).sample(split, 50)} <= {2, 3}


def test_every_split_has_strings_of_three_digits_and_more() -> None:
    assert {split_of(f"{number:03}") for number in range(1000)} == set(SPLITS)


def test_errors_carry_what_the_user_wrote() -> None:
    with pytest.raises(DataError, match="unknown kind 'revers' of digit strings; did you mean 'reverse'"):
        DigitSource("revers")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"length is \(5, 3\), expected \(min, max\) with 1 <= min <= max"):
        DigitSource(length=(5, 3))
    with pytest.raises(DataError, match="unknown split 'trian'; did you mean 'train'"):
        DigitSource().sample("trian", 1)  # type: ignore[arg-type]
