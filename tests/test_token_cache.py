"""A second start learns no tokenizer and encodes nothing again, and is the same in all else."""

import random

import numpy as np
import pytest

from heed.data import corpus as token_cache
from heed.data.examples import Text
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks import check_config, task_class


@pytest.fixture(autouse=True)
def many(own_cache, monkeypatch):
    monkeypatch.setattr(token_cache, "_CACHED_CHARACTERS", 100)


@pytest.fixture
def done(monkeypatch):
    """Counts texts encoded in bulk and tokenizers trained."""
    counts = {"encoded": 0, "trained": 0}
    encode, train, read = TextTokenizer.encode_all, TextTokenizer.train.__func__, TextTokenizer.train_to_read.__func__

    def encode_all(self, texts):
        counts["encoded"] += len(texts)
        return encode(self, texts)

    def counting(function):
        def learn(cls, *given, **named):
            counts["trained"] += 1
            return function(cls, *given, **named)

        return classmethod(learn)

    monkeypatch.setattr(TextTokenizer, "encode_all", encode_all)
    monkeypatch.setattr(TextTokenizer, "train", counting(train))
    monkeypatch.setattr(TextTokenizer, "train_to_read", counting(read))
    return counts


def translation(tmp_path, last="the last line", **tokenizer):
    lines = [f"sentence number {n} of the file" for n in range(60)]
    (tmp_path / "a.en").write_text("\n".join([*lines, last]) + "\n")
    (tmp_path / "a.de").write_text("\n".join(f"Satz Nummer {n} aus der Datei" for n in range(61)) + "\n")
    data = {"train": [str(tmp_path / "a.en"), str(tmp_path / "a.de")], "valid": 5}
    return {"data": data, "tokenizer": {"kind": "bpe", "vocab_size": 80, **tokenizer}}


def classification(tmp_path, last="the last film", **tokenizer):
    texts = [f"{'fine' if n % 2 else 'poor'} film number {n}" for n in range(60)]
    rows = [f"{'good' if n % 2 else 'bad'}\t{text}" for n, text in enumerate([*texts, last])]
    (tmp_path / "a.tsv").write_text("\n".join(rows) + "\n")
    data = {"train": str(tmp_path / "a.tsv"), "valid": 8, "columns": {"text": 1, "label": 0}}
    return {"task": "classification", "data": data, "tokenizer": {"kind": "bpe", "vocab_size": 80, **tokenizer}}


def start(values):
    config = check_config(values, "the test")
    task = task_class(config.task).prepare(config)
    return [list(task.encoded(split)) for split in ("train", "valid")]


@pytest.mark.parametrize("values", [translation, classification])
def test_a_second_start_neither_learns_nor_encodes(tmp_path, done, values):
    first = start(values(tmp_path))
    assert done["encoded"] >= 60 and done["trained"] > 0
    for count in done:
        done[count] = 0
    assert start(values(tmp_path)) == first
    assert done["trained"] == 0 and done["encoded"] < 20  # the few of the validation set


@pytest.mark.parametrize("values", [translation, classification])
@pytest.mark.parametrize("change", [{"last": "another line"}, {"lowercase": True}, {"vocab_size": 81}])
def test_other_files_and_settings_are_learned_anew(tmp_path, done, values, change):
    start(values(tmp_path))
    before = dict(done)
    start(values(tmp_path, **change))
    assert all(done[name] > before[name] for name in done)


def test_texts_whose_cuts_differ_are_not_taken_for_each_other():
    tokenizer = TextTokenizer.train_characters(["abc"])
    long = "abc" * 50
    for texts in ([long, "a"], [long + "a", ""]):
        encode = lambda texts=texts: [[[ids] for ids in tokenizer.encode_all(texts)]]  # noqa: E731
        given = [Text(text) for text in texts]
        corpus = token_cache.corpus_of(given, encode, ["<i4"], lambda rows: rows, tokenizer=tokenizer.text)
        assert [ids for (ids,) in corpus] == tokenizer.encode_all(texts)
        assert corpus.lengths.tolist() == [[len(text)] for text in texts]


@pytest.mark.parametrize("values", [translation, classification])
def test_without_a_cache_all_is_done_anew(tmp_path, monkeypatch, values):
    wanted = start(values(tmp_path))
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "file"))
    assert start(values(tmp_path)) == wanted


def test_of_few_texts_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(token_cache, "_CACHED_CHARACTERS", 1 << 19)
    start(translation(tmp_path))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("in_memory", [0, 1_000])
@pytest.mark.parametrize("second", [None, 2])
def test_the_counts_of_tokens_are_those_of_the_batches(tmp_path, monkeypatch, second, in_memory):
    monkeypatch.setattr(token_cache, "_CHUNK", 50)  # several times for these texts
    draw = random.Random(1)
    words = [f"w{n}" for n in range(300)]
    texts = [[" ".join(draw.choices(words, k=draw.randint(1, 14))) for _ in range(2)] for _ in range(120)]
    rows = [f"{'ab'[n % 2]}\t{first}\t{other}\n" for n, (first, other) in enumerate(texts)]
    (tmp_path / "a.tsv").write_text("".join(rows))
    columns = {"label": 0, "text": 1, "second": second}
    data = {"train": str(tmp_path / "a.tsv"), "columns": columns, "max_length": 13, "in_memory": in_memory}
    values = {"data": data, "model": {"name": "rnn", "size": "tiny", "ngrams": 0}, "tokenizer": {"min_count": 3}}
    task = task_class("classification").prepare(check_config({"task": "classification", **values}, "the test"))
    read = np.zeros(task.input.tokenizer.vocab_size, int)
    for indices in task.train_batches(0):
        batch = task.collate(indices)
        read += np.bincount(batch.inputs["tokens"][batch.inputs["mask"]].numpy(), minlength=len(read))
    (counts,) = task.input.token_counts("train", task)
    assert counts.tokens.tolist() == read.tolist() and counts.lengths.sum() == read.sum()
    assert read[task.input.tokenizer.special.unknown] > 0 and counts.lengths.max() == 13
