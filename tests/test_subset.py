"""A part of the training examples, for learning curves: nested, by the seed, labels in the shares of the whole."""

from collections import Counter

import numpy as np
import pytest

import heed
from contract import write_lines
from heed.config import read_config
from heed.data.examples import Sentence, Text
from heed.data.splits import drawing_order
from heed.errors import ConfigError
from heed.tasks import check_config, task_class

SMALL = {"model.d_embedding": 8, "model.d_hidden": 8, "training.threads": 1, "training.device": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("subset")
    lines = [f"{'pos' if i % 5 else 'neg'}\tword{i} {'good' if i % 5 else 'bad'} film" for i in range(200)]
    lines += ["rare\tthe only one", "rare\tand another"]
    write_lines(folder / "train.tsv", "label\ttext", *lines)
    write_lines(folder / "test.tsv", "label\ttext", "pos\ta good film", "neg\ta bad film", "rare\tthe only one")
    rows = ["x,y,label", *(f"{i},{i * i % 17},{'ab'[i % 2]}" for i in range(60))]
    write_lines(folder / "rows.csv", *rows)
    return folder


def prepared(folder, task="classification", train="train.tsv", **training):
    values = {
        "task": task,
        "data": {"train": [str(folder / train)], "valid": 20},
        "model": {"name": "bag"} if task == "classification" else {},
        "tokenizer": {"kind": "word", "min_count": 1} if task == "classification" else {},
        "training": {"steps": 2, **training},
    }
    if train.endswith(".tsv"):
        values["data"]["test"] = [str(folder / "test.tsv")]
    return task_class(task).prepare(check_config(values, "test"))


def texts(counts):
    """Texts with labels, as many of each as counts say."""
    return [Text(f"text {n} of {label}", (label,)) for label, count in counts.items() for n in range(count)]


def test_smaller_subsets_are_parts_of_larger_ones_and_keep_the_shares_of_labels():
    examples = texts({"a": 700, "b": 250, "c": 50})
    order = drawing_order(examples, seed=3)
    assert sorted(order.tolist()) == list(range(1000))
    for size in (10, 57, 100, 333, 900):
        drawn = Counter(examples[i].labels[0] for i in order[:size])
        for label, share in (("a", 0.7), ("b", 0.25), ("c", 0.05)):
            assert abs(drawn[label] - share * size) <= 1


def test_rare_labels_take_their_turn_over_seeds():
    examples = texts({"a": 90, **{f"rare {n}": 1 for n in range(10)}})
    drawn = Counter(examples[i].labels[0] for seed in range(200) for i in drawing_order(examples, seed)[:10])
    assert 1700 < drawn["a"] < 1900  # of 2,000: a share of 0.9
    assert all(5 < drawn[f"rare {n}"] < 40 for n in range(10))


def test_the_subset_is_random_and_follows_from_the_seed_and_not_from_the_order_of_the_file():
    examples = texts({"a": 200, "b": 200})
    chosen = [{examples[i].text for i in drawing_order(examples, seed)[:100]} for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1]
    assert 5 < len(chosen[0] & chosen[2]) < 50
    turned = examples[::-1]
    assert {turned[i].text for i in drawing_order(turned, 1)[:100]} == chosen[0]
    places = np.array(sorted(drawing_order(examples, 1)[:100]))
    assert 30 < (places < 200).sum() < 70 and 60 < (places % 200).mean() < 140


def test_sentences_keep_the_share_of_those_with_an_entity():
    sentences = [Sentence((f"w{n}", "x"), ("B-place" if n % 4 == 0 else "O", "O")) for n in range(400)]
    order = drawing_order(sentences, 1)
    assert abs(sum(sentences[i].tags[0] == "B-place" for i in order[:40]) - 10) <= 1


def test_a_run_trains_on_the_subset_and_validates_and_tests_on_everything(folder):
    whole, part = prepared(folder), prepared(folder, train_size=40)
    count = len(whole.splits.examples["train"])
    assert len(part.splits.examples["train"]) == 40 and len(part.splits.left_out) == count - 40
    for split in ("valid", "test"):
        assert part.splits.examples[split] == whole.splits.examples[split]
    both = [example.text for example in (*part.splits.examples["train"], *part.splits.left_out)]
    assert sorted(both) == sorted(example.text for example in whole.splits.examples["train"])
    # the vocabulary is that of the subset, the labels are those of the whole
    assert part.tokenizers()["tokens"].vocab_size < whole.tokenizers()["tokens"].vocab_size
    assert part.head.labels == whole.head.labels
    assert f"train: 40 of {count} texts, drawn at random by seed 1, with labels in the same shares" in part.notes
    assert f"{count - 40} left out: not drawn for training.train_size 40" in part.notes
    assert part.report_counts()["train"]["examples"] == 40
    assert prepared(folder, train_size=count).splits.examples["train"] == whole.splits.examples["train"]
    other = prepared(folder, train_size=40, seed=2)
    assert other.splits.examples["train"] != part.splits.examples["train"]


def test_rows_of_a_table_are_drawn_by_label(folder):
    whole, part = (prepared(folder, "table", "rows.csv", train_size=size) for size in (None, 10))
    of_whole, of_part = (Counter(row.label for row in task.splits.examples["train"]) for task in (whole, part))
    assert sum(of_part.values()) == 10
    assert all(abs(of_part[label] - count * 10 / of_whole.total()) <= 1 for label, count in of_whole.items())


def test_a_resumed_run_has_the_same_subset(folder, tmp_path):
    settings = {**SMALL, "training.train_size": 30, "tokenizer.min_count": 1}
    run = heed.train(
        "classification", train=folder / "train.tsv", valid=20, model="rnn", steps=2, out=tmp_path / "run",
        settings=settings, quiet=True,
    )  # fmt: skip
    assert read_config(tmp_path / "run" / "config.yaml")["training"]["train_size"] == 30
    opened = heed.load(tmp_path / "run")
    assert opened.task.splits.examples["train"] == run.task.splits.examples["train"]
    assert run.report["data"]["train"]["examples"] == 30


def test_data_in_memory_and_generated_data_are_drawn_from_too(tmp_path):
    rows = [(f"word{i} {'good' if i % 2 else 'bad'}", "ab"[i % 2]) for i in range(60)]
    run = heed.train(
        "classification", train=rows, valid=10, model="rnn", steps=1, out=tmp_path / "memory", quiet=True,
        settings={**SMALL, "training.train_size": 8},
    )  # fmt: skip
    assert Counter(text.labels for text in run.task.splits.examples["train"]) == {("a",): 4, ("b",): 4}
    run = heed.train(
        "translation", data="copy", model="bahdanau", steps=1, out=tmp_path / "copy", quiet=True,
        settings={**SMALL, "training.train_size": 9, "data.train": 50, "data.valid": 5, "data.test": 5},
    )  # fmt: skip
    assert len(run.task.splits.examples["train"]) == 9


@pytest.mark.parametrize(
    ("task", "files", "settings", "message"),
    [
        ("classification", "train.tsv", {"training.train_size": 500}, "train_size is 500, but there are 182 training"),
        ("classification", "train.tsv", {"training.train_size": 0}, "training.train_size"),
        ("series", "rows.csv", {"training.train_size": 5}, "does not apply to series"),
    ],
)
def test_what_cannot_be_drawn_is_refused(folder, task, files, settings, message):
    given = {"data.valid": 20, **settings} if task == "classification" else settings
    with pytest.raises(ConfigError, match=message):
        heed.train(task, train=str(folder / files), steps=1, settings=given, quiet=True)
