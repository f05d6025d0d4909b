"""People's own pairs as splits: nothing is lost without being counted, what is held out training never sees."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.config import FilesData
from heed.data.examples import Pair
from heed.data.splits.pairs import open_pairs
from heed.data.splits.splits import hold_out
from heed.errors import DataError
from heed.tasks import check_config
from heed.tasks.translation.task import Translation

relaxed = settings(deadline=None, max_examples=100)
pairs_of = st.lists(st.builds(Pair, st.sampled_from("abcdefghij"), st.sampled_from("xyz")), max_size=30)


def write(folder, name, pairs):
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def numbered(count, word="w"):
    return [(f"{word}{n}", f"t{n}") for n in range(count)]


def opened(**fields):
    splits = open_pairs(FilesData(**fields))
    return splits.examples, splits.counts, splits.remarks


# --- hold_out


@relaxed
@given(pairs_of, st.integers(0, 40))
def test_holding_out_loses_nothing_and_keeps_the_order(pairs, wanted):
    stay, out = hold_out(pairs, wanted)
    assert len(stay) + len(out) == len(pairs)
    for part in (stay, out):
        chosen = {pair.source for pair in part}
        assert part == [pair for pair in pairs if pair.source in chosen]


@relaxed
@given(pairs_of, st.integers(0, 40))
def test_pairs_with_the_same_source_stay_together(pairs, wanted):
    stay, out = hold_out(pairs, wanted)
    assert not {pair.source for pair in stay} & {pair.source for pair in out}


@relaxed
@given(pairs_of, st.integers(0, 40), st.randoms())
def test_what_is_held_out_does_not_depend_on_the_order(pairs, wanted, rng):
    shuffled = rng.sample(pairs, len(pairs))
    assert {p.source for p in hold_out(pairs, wanted)[1]} == {p.source for p in hold_out(shuffled, wanted)[1]}


@relaxed
@given(pairs_of, st.integers(0, 40))
def test_no_more_is_held_out_than_one_source_above_what_is_wanted(pairs, wanted):
    out = hold_out(pairs, wanted)[1]
    most = max((sum(p.source == pair.source for p in pairs) for pair in pairs), default=0)
    assert min(wanted, len(pairs)) <= len(out) < wanted + max(most, 1)


def test_more_data_keeps_what_was_held_out_in_kind():
    """A pair's place in the order of hashes is its own: of a larger corpus a pair is held out no earlier."""
    pairs = [Pair(f"s{n}", "t") for n in range(400)]
    small = {p.source for p in hold_out(pairs[:200], 20)[1]}
    large = {p.source for p in hold_out(pairs, 20)[1]}
    assert large & {p.source for p in pairs[:200]} <= small


# --- splits


@pytest.mark.parametrize(("count", "expected"), [(5, 1), (100, 20), (1_000, 200), (6_000, 300), (30_000, 1_000)])
def test_how_much_is_held_out_by_default(tmp_path, count, expected):
    pairs, counts, remarks = opened(train=[write(tmp_path, "a.tsv", numbered(count))])
    assert len(pairs["valid"]) == expected == counts["valid"].kept
    assert len(pairs["train"]) == count - expected == counts["train"].kept
    held = f"{expected:,} pair{'' if expected == 1 else 's'} held out for validation by a hash"
    assert any(held in remark for remark in remarks)


def test_validation_as_a_number_and_as_files(tmp_path):
    train, valid = write(tmp_path, "a.tsv", numbered(50)), write(tmp_path, "v.tsv", numbered(7, "v"))
    pairs, counts, _ = opened(train=[train], valid=11)
    assert (len(pairs["train"]), len(pairs["valid"])) == (39, 11)
    assert str(counts["train"]) == "39 of 50 pairs kept, 11 left out: held out for validation"
    pairs, counts, remarks = opened(train=[train], valid=[valid], test=[valid])
    assert [len(pairs[split]) for split in ("train", "valid", "test")] == [50, 7, 7]
    assert (counts["train"].filtered, remarks) == ({}, [])


def test_blank_sides_are_counted_by_rule_in_every_split(tmp_path):
    odd = [("", "t"), ("s", "  "), ("\t"[:0], "\u3000"), ("s", "t"), (" ", "t")]
    files = {
        split: write(tmp_path, f"{split}.tsv", [*odd, *numbered(9, split)]) for split in ("train", "valid", "test")
    }
    pairs, counts, _ = opened(**{split: [file] for split, file in files.items()})
    for split in files:
        assert counts[split].read == 14
        assert counts[split].filtered == {"source blank": 2, "target blank": 1, "both sides blank": 1}
        assert len(pairs[split]) == counts[split].kept == 10
        assert all(pair.source.strip() and pair.target.strip() for pair in pairs[split])
    assert "1 left out: both sides blank" in str(counts["train"])


sides = st.sampled_from(["", " ", "a", "b b", "c c c c", "\u00a0", "d"])


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=25), st.integers(1, 5), st.integers(2, 8))
def test_what_is_read_is_kept_or_counted(tmp_path_factory, rows, valid, longest):
    folder = tmp_path_factory.mktemp("files")
    values = {
        "data": {
            "train": write(folder, "a.tsv", [("zz", "z"), *numbered(9, "n"), *rows]),
            "valid": valid,
            "test": write(folder, "t.tsv", [("y", "x"), *rows]),
            "max_length": longest,
        },
        "tokenizer": {"kind": "char"},
    }
    task = Translation.prepare(check_config(values, "test"))
    assert {name: counts["read"] for name, counts in task.report_counts().items() if name != "valid"} == {
        "train": len(rows) + 10,
        "test": len(rows) + 1,
    }
    for name, counts in task.splits.counts.items():
        assert counts.read == counts.kept + sum(counts.filtered.values())
        assert counts.kept == len(task.splits.examples[name]) == len(task.encoded(name))
        assert all(count >= 0 for count in counts.filtered.values())
    assert task.splits.counts["train"].filtered["held out for validation"] == task.splits.counts["valid"].kept


def test_too_long_pairs_are_left_out_of_training_only_and_counted(tmp_path):
    long = [("x" * 11, "t"), ("s", "y" * 12)]
    files = {split: [write(tmp_path, f"{split}.tsv", numbered(8, split[0]) + long)] for split in ("train", "valid")}
    values = {"data": {**files, "max_length": 10}, "tokenizer": {"kind": "char"}}
    task = Translation.prepare(check_config(values, "test"))
    assert task.splits.counts["train"].filtered == {"longer than data.max_length 10 tokens": 2}
    assert [len(task.splits.examples[split]) for split in ("train", "valid")] == [8, 10]
    assert max(len(pair.source) for pair in task.encoded("train")) <= 10
    assert "8 of 10 pairs kept, 2 left out: longer than data.max_length 10 tokens" in str(task.splits.counts["train"])
    values["data"]["max_length"] = 1
    with pytest.raises(DataError, match=r"every training pair is longer than data\.max_length 1 tokens"):
        Translation.prepare(check_config(values, "test"))


def test_sources_of_a_test_set_that_training_has_are_remarked(tmp_path):
    train = write(tmp_path, "a.tsv", numbered(30))
    test = write(tmp_path, "t.tsv", [*numbered(4), *numbered(5, "other")])
    _, counts, remarks = opened(train=[train], valid=[write(tmp_path, "v.tsv", numbered(3, "v"))], test=[test])
    assert remarks == [] and [found.warning for found in counts["test"].found] == [True]
    assert str(counts["test"].found[0]) == (
        "source is in the training set as well (data.overlap=drop leaves it out there): 4 pairs "
        "(t.tsv:1, t.tsv:2, t.tsv:3, ...)"
    )


def test_nothing_left_is_an_error_that_says_where_it_went(tmp_path):
    blank = write(tmp_path, "blank.tsv", [("", "")] * 3)
    with pytest.raises(
        DataError, match=r"no training pairs left in .*blank.tsv: 0 of 3 .*, 3 left out: both sides blank"
    ):
        opened(train=[blank])
    few = write(tmp_path, "few.tsv", numbered(4))
    with pytest.raises(DataError, match=r"0 of 4 pairs kept, 4 left out: held out for validation"):
        opened(train=[few], valid=4)
    for valid in ([blank], 0):
        with pytest.raises(DataError, match="no validation pairs left; give more data, or validation files"):
            opened(train=[few], valid=valid)


def test_a_small_vocabulary_grows_with_the_characters_of_the_script(tmp_path):
    rng = random.Random(1)
    texts = ["".join(chr(0x4E00 + rng.randrange(2_000)) for _ in range(12)) for _ in range(1_000)]
    values = {"data": {"train": write(tmp_path, "zh.tsv", [(text, f"t{n}") for n, text in enumerate(texts)])}}
    task = Translation.prepare(check_config(values, "test"))
    assert task.config.tokenizer.vocab_size == 2 * len(set("".join(p.source for p in task.splits.examples["train"])))
    assert task.source_tokenizer.vocab_size <= task.config.tokenizer.vocab_size


def test_columns_for_two_parallel_files_are_refused_instead_of_ignored():
    with pytest.raises(
        DataError, match=r"data.columns selects columns of one file, .* names two parallel files: a.en, a.yo"
    ):
        opened(train=["a.en", "a.yo"], columns={"source": 1})
