"""Learned positions: what is trained on keeps within what positions have room for."""

import json
import random

import pytest

import heed
from heed.errors import ConfigError
from heed.tasks import check_config, task_class

UNIGRAM = {"kind": "unigram", "vocab_size": 200}


def sentences(count, words=(3, 12)):
    draw = random.Random(1)
    parts = ["the", "cat", "sa", "mo", "house", "walk", "ing", "un", "grün", "lan", "tern", "er", "ly"]
    known = ["".join(draw.choices(parts, k=draw.randint(1, 3))) for _ in range(150)]
    return [" ".join(draw.choices(known, k=draw.randint(*words))) for _ in range(count)]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs") / "train.tsv"
    path.write_text(
        "".join(f"{one}\t{other}\n" for one, other in zip(sentences(400), sentences(400)[::-1], strict=True))
    )
    return path


def prepared(file, tokenizer=UNIGRAM, data=None, training=None, task="translation", **model):
    values = {
        "task": task,
        "data": {"train": str(file), "valid": 20, **(data or {})},
        "tokenizer": tokenizer,
        "model": {"name": "transformer", "size": "tiny", "num_layers": 1, **model},
        "training": {"steps": 4, "batch_tokens": 400, "threads": 1, "device": "cpu", **(training or {})},
    }
    return task_class(task).prepare(check_config(values, "test"))


def test_learned_positions_bound_what_is_trained_on(file):
    fields = {"positions": "learned", "max_length": 48}
    task = prepared(file, **fields)
    for indices in task.train_batches(0):
        batch = task.collate(indices)
        assert max(batch.inputs["source"].shape[1], batch.forced["target"].shape[1]) <= 48
    assert task.config.generation.max_length <= 48
    letters = {"kind": "char"}
    whole = prepared(file, letters)
    short = sum(max(map(len, pair.texts)) < 50 for pair in whole.splits.examples["train"])
    held_out = {"valid": str(file.with_name("valid.tsv"))}
    file.with_name("valid.tsv").write_text("the cat sat\tthe mat\n")
    few = prepared(file, letters, held_out, positions="learned", max_length=50)
    assert 0 < short < 380
    assert few.splits.counts["train"].filtered["longer than the 49 tokens that model.max_length has positions for"] > 20
    assert max(len(pair.target) for pair in few.encoded("train")) <= 49


def test_held_out_pairs_that_no_position_is_left_for_are_said_before_training(file, tmp_path):
    (tmp_path / "valid.tsv").write_text("the cat sat\tthe mat\n" + "housey" * 50 + "\tthe cat\n")
    fields = {"positions": "learned", "max_length": 80}
    with pytest.raises(ConfigError) as error:
        prepared(file, {"kind": "char"}, {"valid": str(tmp_path / "valid.tsv")}, **fields)
    said = str(error.value)
    assert said.startswith("model.max_length is 80, the number of learned positions, but a text of valid needs 300")
    assert said.endswith("set model.max_length=300, or model.positions=sinusoidal")
    with pytest.raises(ConfigError, match=r"generation.max_length is 500, but .* 400 learned positions"):
        values = {"generation": {"max_length": 500}, "data": {"name": "copy", "train": 50, "valid": 5, "test": 5}}
        values["model"] = {"name": "transformer", "size": "tiny", "positions": "learned", "max_length": 400}
        task_class("translation").prepare(check_config(values, "test"))


def test_a_run_with_few_learned_positions_trains_scores_and_predicts(tmp_path, file):
    """Every output is written to its end by an untrained model, which is where positions ran out."""
    (tmp_path / "test.tsv").write_text("".join(file.read_text().splitlines(keepends=True)[:40]))
    values = {
        "data": {"train": str(file), "valid": 20, "test": str(tmp_path / "test.tsv")},
        "tokenizer": {"kind": "unigram", "vocab_size": 200},
        "model": {"name": "transformer", "size": "tiny", "num_layers": 1, "positions": "learned", "max_length": 80},
        "training": {"steps": 2, "batch_tokens": 400, "threads": 1, "device": "cpu"},
        "evaluation": {"bootstrap": 10},
    }
    (tmp_path / "c.yaml").write_text(json.dumps(values))
    run = heed.train(tmp_path / "c.yaml", out=tmp_path / "run", quiet=True)
    assert run.config.generation.max_length <= 80
    assert "test" in run.report["scores"]


def test_a_tagger_and_a_classifier_read_a_long_text_with_few_learned_positions(tmp_path):
    lines = [f"word{n % 7} O\nAnn B-per\n" for n in range(60)] + ["x O\n" * 30]
    (tmp_path / "tags.conll").write_text("\n".join(lines))
    (tmp_path / "texts.tsv").write_text("".join(f"{'ab'[n % 2]}\tgood film {'very ' * (n % 20)}\n" for n in range(60)))
    for task, data in (("tagging", "tags.conll"), ("classification", "texts.tsv")):
        values = {
            "task": task,
            "data": {"train": str(tmp_path / data), "valid": 10},
            "model": {"name": "encoder", "size": "tiny", "num_layers": 1, "positions": "learned", "max_length": 12},
            "training": {"steps": 2, "batch_tokens": 200, "threads": 1, "device": "cpu"},
            "evaluation": {"bootstrap": 10},
        }
        (tmp_path / "c.yaml").write_text(json.dumps(values))
        run = heed.train(tmp_path / "c.yaml", out=tmp_path / task, quiet=True)
        assert run.predict("Ann saw a film " * 20) is not None
