"""Labelled texts that are kept on disk: the same labels, held-out texts, batches and results as in memory."""

import random

import numpy as np
import pytest

import heed
from heed.data import corpus as reading
from heed.data.corpus import Corpus, StoredExamples
from heed.tasks import check_config, task_class
from heed.tasks.inputs import tokens

WORDS = "the a red old big cat dog man sees eats likes fish house.".split()
SETTINGS = {"training.device": "cpu", "training.threads": 1, "evaluation.bootstrap": 5, "data.valid": 8}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files of texts and of tagged sentences."""
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))
    drawn = random.Random(0)
    texts = [[drawn.choice(WORDS) for _ in range(drawn.randrange(1, 12))] for _ in range(80)]
    lines = [f"{' '.join(one)}\t{'cats' if 'cat' in one else 'none'}\n" for one in texts]
    (tmp_path / "texts.tsv").write_text("".join(lines))
    tagged = ["".join(f"{w} {'B-X' if w in ('cat', 'dog') else 'O'}\n" for w in one) for one in texts]
    (tmp_path / "tags.conll").write_text("\n".join(tagged))
    return {"classification": tmp_path / "texts.tsv", "tagging": tmp_path / "tags.conll"}


def prepared(task, file, **fields):
    data = {"train": [str(file)], "valid": 8, "max_length": 9, **fields}
    values = {"task": task, "data": data, "training": {"steps": 2}, "model": {"name": "rnn", "size": "tiny"}}
    return task_class(task).prepare(check_config(values, "the test"))


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_labelled_texts_on_disk_are_those_in_memory(files, task):
    held, stored = (prepared(task, files[task], in_memory=most) for most in (1_000, 20))
    train = stored.splits.examples["train"]
    assert isinstance(train, StoredExamples) and isinstance(stored.encoded("train"), Corpus)
    assert list(train) == list(held.splits.examples["train"])
    assert list(stored.splits.examples["valid"]) == list(held.splits.examples["valid"])
    assert stored.head.labels == held.head.labels and stored.input.tokenizer.text == held.input.tokenizer.text
    assert list(stored.encoded("train")) == list(held.encoded("train"))
    assert stored.report_counts() == held.report_counts()
    kept = [one for one in stored.notes.splitlines() if "stored in" not in one]
    assert kept == held.notes.splitlines() and any("stored in" in one for one in stored.notes.splitlines())
    plan = list(stored.train_batches(0))
    assert plan == held.train_batches(0)
    assert sorted(i for batch in plan for i in batch) == list(range(len(train)))
    for indices in plan:
        mine, theirs = stored.collate(indices), held.collate(indices)
        assert mine.indices == theirs.indices == indices
        assert (mine.inputs["tokens"] == theirs.inputs["tokens"]).all() and mine.num_targets == theirs.num_targets
        assert all((mine.targets[name] == truth).all() for name, truth in theirs.targets.items())
        assert stored.work(indices) == held.work(indices)
        assert task == "tagging" or held.work(indices) == mine.positions


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_a_run_on_texts_on_disk_trains_and_resumes(files, task, tmp_path):
    given = {"train": files[task], "model": "rnn", "size": "tiny", "quiet": True, "out": tmp_path / "run"}
    run = heed.train(task, steps=2, settings=SETTINGS | {"data.in_memory": 20}, **given)
    assert run.report["data"]["train"]["tokens"] > run.report["data"]["train"]["examples"]
    longer = heed.train(task, steps=4, resume=True, settings=SETTINGS | {"data.in_memory": 20}, **given)
    assert longer.report["training"]["updates"] == 4 and heed.check_run(tmp_path / "run").whole


def test_files_that_may_take_more_than_a_quarter_of_the_memory_are_kept_on_disk(files, monkeypatch):
    size = files["classification"].stat().st_size
    for free, kind in ((4 * 8 * size + 4, list), (4 * 8 * size - 4, StoredExamples)):
        monkeypatch.setattr(reading, "free_memory", lambda free=free: free)
        assert isinstance(prepared("classification", files["classification"]).splits.examples["train"], kind)


def test_a_large_corpus_trains_its_tokenizer_on_a_sample_and_says_so(files, monkeypatch):
    monkeypatch.setattr(tokens.Tokens, "sampled_bytes", 1_000)
    task = prepared("classification", files["classification"], in_memory=20)
    assert "tokenizer trained on a sample of" in task.notes and task.input.tokenizer.vocab_size > 4


def test_batches_of_one_cost_are_those_of_two():
    from heed.data.batch import plan_pass

    costs = np.random.default_rng(0).integers(1, 60, 500)
    both = np.stack([costs, np.zeros_like(costs)], axis=1)
    for epoch in (None, 0, 3):
        assert list(plan_pass(costs, 100, 7, epoch)) == list(plan_pass(both, 100, 7, epoch))
