"""Corpora that do not live in memory are read, split, encoded and trained on as those that do."""

import pytest

from heed.config_tasks import check_config
from heed.data.examples import Pair
from heed.data.store import Stored, cache_folder, keep_pairs, select
from heed.tasks.translation import Translation

PAIRS = [Pair(f"source {i % 37} \u0939\u093e", f"target {i}", origin=f"a.en:{i + 1}") for i in range(2500)]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))


def test_a_corpus_too_large_for_memory_reads_the_same_from_its_file():
    stored = keep_pairs(iter(PAIRS), in_memory=100)
    assert isinstance(stored, Stored) and len(stored) == len(PAIRS)
    assert list(stored) == PAIRS and stored[1234] == PAIRS[1234] and stored[-1] == PAIRS[-1]
    assert stored[3:6] == PAIRS[3:6] and [p.origin for p in stored[:2]] == ["a.en:1", "a.en:2"]
    assert list(select(stored, [5, 2, 2])) == [PAIRS[5], PAIRS[2], PAIRS[2]]


def test_a_corpus_that_fits_stays_a_list():
    assert keep_pairs(iter(PAIRS), in_memory=len(PAIRS)) == PAIRS
    assert not cache_folder().exists()


def test_the_file_goes_when_nobody_reads_it_any_more():
    part = select(keep_pairs(iter(PAIRS), in_memory=0), [1, 2])
    assert len(list(cache_folder().iterdir())) == 1 and part[0] == PAIRS[1]
    del part
    assert not list(cache_folder().iterdir())


def test_training_sees_the_same_batches_from_memory_and_from_a_file(tmp_path):
    for side in ("source", "target"):
        text = "".join(getattr(pair, side) + "\n" for pair in [*PAIRS, Pair("", "blank"), Pair("long " * 99, "x")])
        (tmp_path / f"a.{side}").write_text(text, encoding="utf-8")

    def prepare(in_memory):
        data = {"train": [str(tmp_path / "a.source"), str(tmp_path / "a.target")], "max_length": 60}
        values = {"data": {**data, "in_memory": in_memory}, "tokenizer": {"kind": "word"}}
        return Translation.prepare(check_config(values, "test"))

    light, heavy = prepare(0), prepare(10_000)
    assert isinstance(light.splits.pairs["train"], Stored) and isinstance(heavy.splits.pairs["train"], list)
    assert light.splits.notes == heavy.splits.notes and light.splits.counts == heavy.splits.counts
    assert light.config.model == heavy.config.model
    plan = light.train_batches(3)
    assert plan == heavy.train_batches(3)
    for indices in plan[:5]:
        one, other = light.collate(indices), heavy.collate(indices)
        assert one.source.equal(other.source) and one.labels.equal(other.labels)
    assert list(light.splits.pairs["valid"]) == list(heavy.splits.pairs["valid"])
