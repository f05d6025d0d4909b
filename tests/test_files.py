"""People's own pairs as splits: nothing is lost without being counted, what is held out training never sees."""

import itertools
import json
import random
from collections import Counter

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import heed
from contract import data_of
from heed.config import TokenizerConfig, config_text
from heed.data.batch import draw_epoch, plan_pass
from heed.data.corpus import hashes_in
from heed.data.examples import Pair
from heed.data.splits import hold_out as mask
from heed.data.tokens import SPECIAL_TOKENS
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.tasks import check_config
from heed.tasks.inputs.few_pairs import open_pairs
from heed.tasks.translation import TASK

relaxed = settings(deadline=None, max_examples=50)
pairs_of = st.lists(st.builds(Pair, st.sampled_from("abcdefghij"), st.sampled_from("xyz")), max_size=30)
several = pairs_of.filter(lambda pairs: len(pairs) < 2 or len({pair.source for pair in pairs}) > 1)


def write(folder, name, pairs):
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def numbered(count, word="w"):
    return [(f"{word}{n}", f"t{n}") for n in range(count)]


def opened(**fields):
    splits = open_pairs(data_of("translation", **fields))
    return splits.examples, splits.counts, splits.remarks


# --- hold_out


def hold_out(pairs, wanted):
    out = mask(pairs, hashes_in(pairs), wanted)
    return [p for p, held in zip(pairs, out, strict=True) if not held], [*itertools.compress(pairs, out)]


@relaxed
@given(several, st.integers(0, 40), st.randoms())
def test_held_out_are_whole_sources_as_many_as_wanted_whatever_the_order(pairs, wanted, rng):
    stay, out = hold_out(pairs, wanted)
    sources = [{pair.source for pair in part} for part in (stay, out)]
    assert not sources[0] & sources[1]
    for part, own in zip((stay, out), sources, strict=True):
        assert part == [pair for pair in pairs if pair.source in own]  # nothing is lost, and the order stays
    most = max((sum(p.source == pair.source for p in pairs) for pair in pairs), default=0)
    assert min(wanted, len(pairs)) <= len(out) < wanted + max(most, 1)
    assert {p.source for p in hold_out(rng.sample(pairs, len(pairs)), wanted)[1]} == sources[1]


def test_more_data_keeps_what_was_held_out_in_kind():
    """A pair's place in the order of hashes is its own: of a larger corpus a pair is held out no earlier."""
    pairs = [Pair(f"s{n}", "t") for n in range(400)]
    small = {p.source for p in hold_out(pairs[:200], 20)[1]}
    large = {p.source for p in hold_out(pairs, 20)[1]}
    assert large & {p.source for p in pairs[:200]} <= small


# --- splits


@pytest.mark.parametrize(("count", "expected"), [(5, 1), (100, 20), (1_000, 200), (6_000, 300), (21_000, 1_000)])
def test_how_much_is_held_out_by_default(tmp_path, count, expected):
    pairs, counts, remarks = opened(train=[write(tmp_path, "a.tsv", numbered(count))])
    assert len(pairs["valid"]) == expected == counts["valid"].kept
    assert len(pairs["train"]) == count - expected == counts["train"].kept
    held = f"{expected:,} pair{'' if expected == 1 else 's'} held out for validation by a hash"
    assert any(held in remark for remark in remarks)


sides = st.sampled_from(["", " ", "a", "b b", "c c c c", "\u00a0", "d"])


@settings(deadline=None, max_examples=20)
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
    task = TASK.prepare(check_config(values, "test"))
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
    task = TASK.prepare(check_config(values, "test"))
    assert task.splits.counts["train"].filtered == {"longer than data.max_length 10 tokens": 2}
    assert [len(task.splits.examples[split]) for split in ("train", "valid")] == [8, 10]
    assert max(len(pair.source) for pair in task.encoded("train")) <= 10
    assert "8 of 10 pairs kept, 2 left out: longer than data.max_length 10 tokens" in str(task.splits.counts["train"])
    values["data"]["max_length"] = 1
    with pytest.raises(DataError, match=r"every training pair is longer than data\.max_length 1 tokens"):
        TASK.prepare(check_config(values, "test"))


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
    task = TASK.prepare(check_config(values, "test"))
    assert task.config.tokenizer.vocab_size == 2 * len(set("".join(p.source for p in task.splits.examples["train"])))
    assert task.input.source_tokenizer.vocab_size <= task.config.tokenizer.vocab_size


def test_columns_for_two_parallel_files_are_refused_instead_of_ignored():
    with pytest.raises(
        DataError, match=r"data.columns selects columns of one file, .* names two parallel files: a.en, a.yo"
    ):
        opened(train=["a.en", "a.yo"], columns={"source": 1})


# --- further corpora: seen as often as they weigh, marked by their tag, never held out


KINDS = ["char", "word", "bpe", "unigram"]


def spaced(count, word="w"):
    return [(f"{word} {n}", f"t {word} {n}") for n in range(count)]


def prepared(data, **sections):
    values = {"data": data, "tokenizer": {"kind": "char"}, **sections}
    return TASK.prepare(check_config(values, "test"))


# --- weights

corpora = st.lists(st.tuples(st.integers(0, 30), st.floats(0.01, 3.5)), min_size=1, max_size=4)


@settings(deadline=None, max_examples=100)
@given(corpora, st.integers(0, 5), st.integers(0, 100))
def test_each_pair_is_seen_its_whole_weight_and_perhaps_once_more(given_corpora, seed, epoch):
    sizes, weights = zip(*given_corpora, strict=True)
    chosen = draw_epoch(sizes, weights, seed, epoch).tolist()
    assert chosen == draw_epoch(sizes, weights, seed, epoch).tolist()
    seen = Counter(chosen)
    first = 0
    for size, weight in given_corpora:
        times = [seen.pop(i, 0) for i in range(first, first + size)]
        assert all(int(weight) <= n <= int(weight) + 1 for n in times)
        assert abs(sum(times) - weight * size) < 1
        first += size
    assert not seen


def test_a_draw_is_new_in_each_pass_and_leaves_no_pair_out_for_good():
    passes = [set(draw_epoch([20, 40], [1, 0.5], 1, epoch)) for epoch in range(30)]
    assert all(set(range(20)) <= chosen and len(chosen) == 40 for chosen in passes)
    assert len({frozenset(chosen) for chosen in passes}) == 30
    assert all(5 <= sum(i in chosen for chosen in passes) <= 25 for i in range(20, 60))


def test_a_small_weight_of_a_small_corpus_is_not_never():
    assert 10 < sum(len(draw_epoch([3], [0.1], 1, epoch)) for epoch in range(100)) < 60


def test_batches_hold_what_was_chosen():
    costs = [(n % 7 + 1, 3) for n in range(50)]
    chosen = [*range(10), *range(10), 42]
    batches = list(plan_pass(costs, 60, seed=1, epoch=3, chosen=chosen))
    assert sorted(i for batch in batches for i in batch) == sorted(chosen)
    assert [*plan_pass(costs, 60, 1, 3)] == [*plan_pass(costs, 60, 1, 3, range(50))]


# --- tags


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_ever_cut_into_a_tag_or_a_special_token(kind, tmp_path):
    texts = ["the cat <bt> sees </s> a book", "a dog <s> the book bt <pad>"] * 4
    tokenizer = TextTokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=70))
    size = tokenizer.vocab_size
    before = tokenizer.encode(texts[0])
    tokenizer.add_tags(["<bt>", "<web>", "<bt>"])
    assert tokenizer.tags == {"<bt>": size, "<web>": size + 1} and tokenizer.vocab_size == size + 2
    tokenizer.save(tmp_path / "t.json")
    for one in (tokenizer, TextTokenizer.load(tmp_path / "t.json")):
        assert one.tags == tokenizer.tags
        assert one.encode("<bt> cat </s>").spans[0][1] <= len("<bt") or kind == "unigram"
        reserved = {*one.tags.values(), *range(len(SPECIAL_TOKENS))} - {1}
        assert not reserved & {*one.encode(texts[0]).ids, *one.encode_all(texts)[1]}
    assert tokenizer.encode(texts[0]) == before
    assert tokenizer.decode([size, *before.ids, size + 1]) == texts[0]


def test_the_tag_stands_before_the_sources_of_its_corpus_only(tmp_path):
    extra = [
        {"files": write(tmp_path, "bt.tsv", spaced(12, "x")), "tag": "<bt>", "weight": 2},
        {"files": [write(tmp_path, "web.tsv", spaced(6, "y"))], "tag": "<web>"},
        {"files": [write(tmp_path, "more.tsv", spaced(4, "z"))]},
    ]
    data = {"train": write(tmp_path, "a.tsv", spaced(20)), "valid": 4, "extra": extra}
    task = prepared(data, tokenizer={"kind": "bpe", "vocab_size": 40})
    tags = task.input.source_tokenizer.tags
    assert list(tags) == ["<bt>", "<web>"] and task.input.target_tokenizer.tags == {}
    assert task.config.model.source_vocab_size == task.input.source_tokenizer.vocab_size
    seen = Counter()
    for indices in task.train_batches(0):
        batch = task.collate(indices)
        assert batch.indices == indices
        for row, index in enumerate(indices):
            pair = task.input.training(task).examples_at([index])[0]
            ids = batch.inputs["source"][row][batch.inputs["source_mask"][row]].tolist()
            expected = {"x": [tags["<bt>"]], "y": [tags["<web>"]]}.get(pair.source[0], [])
            assert ids[: len(expected)] == expected and not set(ids[len(expected) :]) & set(tags.values())
            assert task.input.source_tokenizer.decode(ids) == pair.source
            seen[pair.source[0]] += 1
    assert seen == {"w": 16, "x": 24, "y": 6, "z": 4}


# --- what is kept


def test_nothing_of_a_further_corpus_is_held_out_and_nothing_held_out_is_trained_on(tmp_path):
    train, test = spaced(60), spaced(5, "test")
    rows = [*train, *test[:2], *spaced(10, "new"), ("", "x"), ("z", " "), ("far " * 20, "t"), ("n", test[3][1])]
    names = {"train": write(tmp_path, "a.tsv", train), "test": write(tmp_path, "t.tsv", test)}
    data = {
        **names,
        "valid": 15,
        "max_length": 60,
        "extra": [{"files": write(tmp_path, "bt.tsv", rows), "weight": 0.5}],
    }
    task = prepared(data)
    plain = prepared({key: value for key, value in data.items() if key != "extra"})
    assert task.splits.examples == plain.splits.examples  # the held-out sets are those of data.train alone
    corpus = task.splits.extra["extra bt.tsv"]
    assert corpus.counts.read == len(rows)
    assert corpus.counts.filtered == {
        "source blank": 1,
        "target blank": 1,
        "source in the valid set": 15,
        "source in the test set": 2,
        "longer than data.max_length 60 tokens": 1,
    }
    assert corpus.counts.kept == len(corpus.examples) == len(rows) - 20 == len(task.encoded("extra bt.tsv"))
    known = {pair.source for split in ("valid", "test") for pair in task.splits.examples[split]}
    assert not known & {
        pair.source for pair in task.input.training(task).examples_at(range(len(task.input.training(task))))
    }
    assert "warning: 1 targets of extra bt.tsv are also in the test set" in task.splits.notes
    line = next(line for line in task.splits.notes.splitlines() if line.startswith("extra bt.tsv"))
    assert "56 of 76 pairs kept" in line and line.endswith("(weight 0.5)")


def test_corpora_of_the_same_name_are_told_apart_and_may_lie_in_files(tmp_path):
    (tmp_path / "b").mkdir()
    extra = [
        {"files": write(folder, "bt.tsv", spaced(9, name))} for folder, name in ((tmp_path, "x"), (tmp_path / "b", "y"))
    ]
    data = {"train": write(tmp_path, "a.tsv", spaced(20)), "valid": 4, "extra": extra}
    task, stored = prepared(data), prepared({**data, "in_memory": 2})
    assert list(task.splits.extra) == ["extra bt.tsv", "extra bt.tsv (2)"]
    every = range(len(task.input.training(task)))
    assert task.input.training(task).examples_at(every) == stored.input.training(stored).examples_at(every)
    assert task.train_batches(3) == list(stored.train_batches(3))


def test_a_run_keeps_counts_and_tag_and_needs_no_tag_to_predict(tmp_path, monkeypatch):
    folder = tmp_path / "recipe"
    folder.mkdir()
    write(folder, "a.tsv", spaced(30))
    write(folder, "bt.tsv", spaced(20, "x"))
    values = {
        "data": {"train": "a.tsv", "valid": 5, "extra": [{"files": "bt.tsv", "weight": 0.5, "tag": "<bt>"}]},
        "tokenizer": {"kind": "bpe", "vocab_size": 60, "shared": True},
        "model": {"d_embedding": 8, "d_hidden": 8, "d_attention": 8, "d_readout": 8, "size": "tiny"},
        "training": {"steps": 3, "threads": 1, "device": "cpu"},
    }
    (folder / "r.yaml").write_text(yaml.safe_dump(values))
    monkeypatch.chdir(tmp_path)
    run = heed.train(folder / "r.yaml", out="run", quiet=True)
    entry = json.loads((tmp_path / "run" / "report.json").read_text())["data"]["extra bt.tsv"]
    assert (entry["examples"], entry["read"], entry["weight"], entry["tag"]) == (20, 20, 0.5, "<bt>")
    assert run.config.data.extra[0].files == [str(folder / "bt.tsv")]
    again = heed.load("run")
    tag = again.task.input.source_tokenizer.tags["<bt>"]
    assert again.task.input.target_tokenizer.tags == {"<bt>": tag}  # one vocabulary for both sides
    assert again.predict("x 1 <bt>") == run.predict("x 1 <bt>")
    drawn = again.candidates(["x 1"], 50, sampling=heed.generation.SamplingOptions(temperature=50.0))[0]
    assert all(tag not in one.ids for one in drawn)  # never written, however flat


def test_files_named_in_python_and_on_the_command_line_are_where_the_user_stands(tmp_path, monkeypatch):
    from heed.cli.train import settings_from

    monkeypatch.chdir(tmp_path)
    for name in ("a.tsv", "bt.tsv"):
        write(tmp_path, name, spaced(9))
    config = settings_from(["translation", "a.tsv", "data.extra=[{files: bt.tsv, weight: 2}]"], {})
    assert config.data.extra[0].files == [str(tmp_path / "bt.tsv")]
    assert check_config(yaml.safe_load(config_text(config)), "again") == config


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"files": "b.tsv", "tag": "bt"}, r"data.extra tag is 'bt', expected a name in angle brackets"),
        ({"files": "b.tsv", "tag": "</s>"}, r"data.extra tag </s> is a special token"),
        ({"files": "b.tsv", "weight": 0}, r"data.extra.0.weight is 0, but must be greater than 0"),
        ({"files": "b.tsv", "wieght": 1}, r"unknown field 'data.extra.0.wieght'; did you mean 'weight'\?"),
        ({"weight": 1}, r"field 'data.extra.0.files' is missing"),
        ({"files": []}, r"data.extra.0.files is \[\]"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(extra, message):
    with pytest.raises(ConfigError, match=message):
        check_config({"data": {"train": "a.tsv", "extra": [extra]}}, "test")


def test_files_that_do_not_fit_are_refused_as_training_files_are(tmp_path):
    train = write(tmp_path, "a.tsv", spaced(20))
    with pytest.raises(DataError, match=r"no file '.*missing.tsv'"):
        prepared({"train": train, "extra": [{"files": str(tmp_path / "missing.tsv")}]})
    with pytest.raises(DataError, match=r"data.extra columns selects columns of one file, but files names"):
        prepared({"train": train, "extra": [{"files": [train, train], "columns": {"source": 1}}]})
