"""Fine-tuning a pretrained run: what comes along, what is extended, which settings follow, and what is printed."""

import itertools
import random

import pytest
import torch

import heed
from heed.errors import ConfigError
from heed.tasks import check_config, task_class

WORDS = "red old big cat dog man sun sea sees likes".split()
SMALL = {"model.d_model": 8, "model.num_heads": 2, "model.d_ff": 8, "model.num_layers": 2}
TRAINING = {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("fine"), random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=5)) + "." for _ in range(60)]
    (folder / "documents.txt").write_text("".join(f"{a} {b}\n" for a, b in itertools.pairwise(texts)))
    (folder / "texts.txt").write_text("".join(f"{'ab'[n % 2]} {text}\n" for n, text in enumerate(texts[:40])))
    greek = [f"{'ab'[n % 2]} {text} \u03b1\u03b2\n" for n, text in enumerate(texts[:40])]
    (folder / "greek.txt").write_text("".join(greek))
    lines = ["".join(f"{word} {'B-x' if word == 'cat' else 'O'}\n" for word in text.split()) for text in texts[:40]]
    (folder / "tags.conll").write_text("\n".join(lines))
    pairs = [f"{'ab'[n % 2]}\t{a}\t{b}\n" for n, (a, b) in enumerate(itertools.pairwise(texts))]
    (folder / "pairs.tsv").write_text("label\tone\tother\n" + "".join(pairs))
    return folder


@pytest.fixture(scope="module")
def parent(folder):
    settings = TRAINING | SMALL | {"data.format": "lines", "data.max_length": 24, "data.valid": 6}
    return heed.train(
        "pretraining", train=folder / "documents.txt", steps=2, out=folder / "parent", settings=settings, quiet=True
    )


def child(parent, task, file, data=None, training=None, tokenizer=None, **model):
    """A task that starts from the parent, its new model, and what that took."""
    values = {
        "task": task,
        "data": {"train": str(file), "valid": 8, **(data or {})},
        "model": {"from": str(parent.folder), **model},
        "training": training or {"steps": 40},
        **({} if tokenizer is None else {"tokenizer": tokenizer}),
    }
    made = task_class(task).prepare(check_config(values, "the test"))
    model = made.build_model()
    return made, model, made.start_from_parent(model)


@pytest.mark.parametrize(
    ("task", "file", "data", "new"),
    [
        ("classification", "texts.txt", {}, {"output.weight", "output.bias"}),
        ("classification", "pairs.tsv", {"columns": {"text": ["one", "other"]}}, {"output.weight", "output.bias"}),
        ("tagging", "tags.conll", {}, {"head.output.weight", "head.output.bias"}),
    ],
)
def test_the_body_and_the_tokenizer_come_along(folder, parent, task, file, data, new):
    made, model, taken = child(parent, task, folder / file, data)
    assert made.tokenizer.first_difference(parent.task.tokenizer) == ""
    assert (made.config.model.name, made.config.tokenizer.kind) == ("bert", "wordpiece")
    theirs = parent.model.state_dict()
    for name, tensor in model.body.state_dict().items():
        assert torch.equal(tensor, theirs[f"body.{name}"]), name
    assert set(taken.new) == new and "body.pooler.weight" in taken.whole
    assert any("the tokenizer comes from another run:" in line for line in made.notes.splitlines())


def test_a_fine_tuned_run_is_trained_used_and_opened(folder, parent):
    settings = TRAINING | {"data.valid": 8}
    run = heed.train(
        "classification", train=folder / "texts.txt", parent=parent.folder, steps=3, out=folder / "run",
        settings=settings, quiet=True,
    )  # fmt: skip
    assert run.report["parent"]["run"] == str(parent.folder)
    again = heed.load(folder / "run")
    assert again.predict("red cat.").probabilities == run.predict("red cat.").probabilities
    assert again.config.model.model_extra["pooling"] == "mean" and not again.config.tokenizer.extend


def test_the_tokenizer_is_extended_where_that_is_asked_for(folder, parent):
    made, model, taken = child(parent, "classification", folder / "greek.txt")
    assert any("unknown to this tokenizer" in line for line in made.notes.splitlines())
    made, model, taken = child(parent, "classification", folder / "greek.txt", tokenizer={"extend": True})
    theirs, name = parent.task.tokenizer, "body.inputs.embedding.weight"
    added = made.tokenizer.vocab_size - theirs.vocab_size
    assert added > 0 and made.tokenizer.tokens[: theirs.vocab_size] == theirs.tokens
    assert taken.tokens[name] == (theirs.vocab_size, made.tokenizer.vocab_size)
    assert torch.equal(model.state_dict()[name][: theirs.vocab_size], parent.model.state_dict()[name])
    assert not made.tokenizer.unknown_in("\u03b1\u03b2") and f"tokenizer extended by {added} tokens" in made.notes


def test_a_tokenizer_of_ones_own_is_trained_where_its_kind_is_given(folder, parent):
    made, _, taken = child(parent, "classification", folder / "texts.txt", tokenizer={"kind": "word", "min_count": 1})
    known, total = taken.tokens["body.inputs.embedding.weight"]
    assert made.tokenizer.unit == "word" and total == made.tokenizer.vocab_size and 0 < known < total


def test_rates_and_warm_up_follow_from_the_body_unless_given(folder, parent):
    made, *_ = child(parent, "classification", folder / "texts.txt", training={"steps": 40})
    assert made.config.training.learning_rate < 0.03 and made.config.training.warmup == 4
    given = {"steps": 40, "learning_rate": 0.002, "warmup": 9}
    made, *_ = child(parent, "classification", folder / "texts.txt", training=given)
    assert (made.config.training.learning_rate, made.config.training.warmup) == (0.002, 9)
    values = {"task": "classification", "data": {"train": str(folder / "texts.txt"), "valid": 8}}
    plain = task_class("classification").prepare(check_config({**values, "model": {"name": "bert"}}, "the test"))
    assert (plain.config.training.learning_rate, plain.config.training.warmup) == (0.003, 100)


def test_layers_of_the_parent_are_frozen_and_unfrozen(folder, parent):
    fields = {"training.freeze": ["embeddings", "layers<1"], "data.valid": 8, "training.learning_rate": 0.01}
    run = heed.train(
        "classification", train=folder / "texts.txt", parent=parent.folder, steps=2, out=folder / "frozen",
        settings=TRAINING | fields, quiet=True,
    )  # fmt: skip
    own, theirs = run.model.body.state_dict(), parent.model.body.state_dict()
    still = (
        "inputs.",
        "positions.",
        "segments.",
        "embedding_norm.",
        "blocks.0.",
        "pooler.",
    )  # the mean needs no pooler
    for name in own:
        if "bias" not in name:
            assert torch.equal(own[name], theirs[name]) == name.startswith(still), name


def test_a_tokenizer_that_contradicts_the_parents_is_refused(folder, parent):
    with pytest.raises(ConfigError, match=r"tokenizer.kind is 'word', but tokenizer.from takes the tokenizers of"):
        tokenizer = {"from": str(parent.folder), "kind": "word"}
        child(parent, "classification", folder / "texts.txt", tokenizer=tokenizer)
    with pytest.raises(ConfigError, match=r"tokenizer.extend is true, but there is no tokenizer"):
        values = {"data": {"train": str(folder / "texts.txt")}, "tokenizer": {"extend": True}}
        task_class("classification").prepare(check_config({"task": "classification", **values}, "the test"))


def test_continued_pretraining_keeps_the_tokenizer(folder, parent):
    data = {"format": "lines", "max_length": 24, "valid": 6}
    made, _, taken = child(parent, "pretraining", folder / "documents.txt", data)
    assert made.tokenizer.first_difference(parent.task.tokenizer) == "" and not taken.new
