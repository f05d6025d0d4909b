"""Fine-tuning: what comes along from a pretrained run; rates by layer, frozen parts, gradual unfreezing."""

import itertools
import random

import pytest
import torch

import contract
import heed
from heed.errors import ConfigError
from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.tasks.base.transfer import layers_of, num_layers
from heed.training.progress import Quiet
from reporters import Listener

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
    return made, model, made.parent.copy_into(model, made)


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
    assert made.tokenizers()["tokens"].first_difference(parent.tokenizer) == ""
    assert (made.config.model.name, made.config.tokenizer.kind) == ("bert", "wordpiece")
    theirs = parent.model.state_dict()
    for name, tensor in model.body.state_dict().items():
        assert torch.equal(tensor, theirs[f"body.{name}"]), name
    assert set(taken.new) == new and "body.pooler.weight" in taken.whole
    assert any("the tokenizer comes from another run:" in line for line in made.notes.splitlines())


def test_the_tokenizer_is_extended_where_that_is_asked_for(folder, parent):
    made, model, taken = child(parent, "classification", folder / "greek.txt")
    assert any("unknown to this tokenizer" in line for line in made.notes.splitlines())
    made, model, taken = child(parent, "classification", folder / "greek.txt", tokenizer={"extend": True})
    theirs, name = parent.tokenizer, "body.inputs.embedding.weight"
    added = made.tokenizers()["tokens"].vocab_size - theirs.vocab_size
    assert added > 0 and made.tokenizers()["tokens"].tokens[: theirs.vocab_size] == theirs.tokens
    assert taken.tokens[name] == (theirs.vocab_size, made.input.tokenizer.vocab_size)
    assert torch.equal(model.state_dict()[name][: theirs.vocab_size], parent.model.state_dict()[name])
    assert not made.input.tokenizer.unknown_in("\u03b1\u03b2") and f"tokenizer extended by {added} tokens" in made.notes


def test_a_tokenizer_of_ones_own_is_trained_where_its_kind_is_given(folder, parent):
    made, _, taken = child(parent, "classification", folder / "texts.txt", tokenizer={"kind": "word", "min_count": 1})
    known, total = taken.tokens["body.inputs.embedding.weight"]
    assert made.input.tokenizer.unit == "word" and total == made.input.tokenizer.vocab_size and 0 < known < total


def test_rates_and_warm_up_follow_from_the_body_unless_given(folder, parent):
    made, *_ = child(parent, "classification", folder / "texts.txt", training={"steps": 40})
    assert made.config.training.learning_rate < 0.03 and made.config.training.warmup == "auto"
    whys = made.config.reasons
    assert whys["training.learning_rate"].startswith("fine-tuning") and whys["model.name"].startswith("as in ")
    given = {"steps": 40, "learning_rate": 0.002, "warmup": 9}
    made, *_ = child(parent, "classification", folder / "texts.txt", training=given)
    assert (made.config.training.learning_rate, made.config.training.warmup) == (0.002, 9)
    values = {"task": "classification", "data": {"train": str(folder / "texts.txt"), "valid": 8}}
    plain = task_class("classification").prepare(check_config({**values, "model": {"name": "bert"}}, "the test"))
    assert (plain.config.training.learning_rate, plain.config.training.warmup) == (0.003, "auto")


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
    assert made.input.tokenizer.first_difference(parent.tokenizer) == "" and not taken.new


# --- rates of layers


LAYERS = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 2, "dropout": 0.0}
STEADY = {"optimizer": "sgd", "learning_rate": 0.5, "schedule": "constant", "clip": None}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    labelled = tmp_path_factory.mktemp("rates")
    words = "one two three four five six".split()
    lines = [f"{'ab'[n % 2]} {words[n % 6]} {words[n % 5]} {words[n % 3]}\n" for n in range(40)]
    (labelled / "texts.txt").write_text("".join(lines))
    return labelled


def config_of(labelled, model=None, **training):
    model = model if "name" in (model or {}) else {"name": "encoder", "pooling": "mean", **LAYERS, **(model or {})}
    data, tokenizer = {"train": str(labelled / "texts.txt"), "valid": 8}, {"kind": "word", "min_count": 1}
    training = {**STEADY, **training}
    return contract.config_of("classification", data, tokenizer=tokenizer, model=model, training=training)


def moved(labelled, model=None, **training):
    """How far one update moves each tensor, and the run."""
    config = config_of(labelled, model, **training)
    task = task_class("classification").prepare(config)
    torch.manual_seed(task.config.training.seed)
    drawn = task.build_model().state_dict()
    run, _ = train_config(config, labelled / f"run-{len(list(labelled.iterdir()))}", Listener())
    return {name: tensor - drawn[name] for name, tensor in run.model.state_dict().items()}


def test_each_layer_moves_at_its_share_of_the_rate(labelled):
    plain, slow = moved(labelled), moved(labelled, layer_decay=0.5)
    shares = {
        "output.weight": 1.0,
        "body.blocks.1.feed_forward.inner.weight": 0.5,
        "body.blocks.0.feed_forward.inner.weight": 0.25,
        "body.inputs.embedding.weight": 0.125,
    }
    for name, share in shares.items():
        assert plain[name].abs().max() > 0
        torch.testing.assert_close(slow[name], share * plain[name])
    assert all(torch.equal(tensor, plain[name]) for name, tensor in moved(labelled, layer_decay=1.0).items())


@pytest.mark.parametrize(
    ("freeze", "still"),
    [
        ("body", ["body."]),
        (["embeddings", "layers<1"], ["body.inputs.", "body.blocks.0."]),
        (["layers < 2"], ["body.blocks."]),
        (["body.blocks.1.attention", "output.bias"], ["body.blocks.1.attention.", "output.bias"]),
    ],
)
def test_frozen_parts_stay_as_they_were(labelled, freeze, still):
    for name, by in moved(labelled, freeze=freeze).items():
        assert bool(by.any()) != name.startswith(tuple(still)), name


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        ("layers<3", r"training.freeze: 'layers<3', but the body has 2 layers"),
        ("bodi", r"training.freeze: 'bodi' is not a part of the model; did you mean 'body'\?; its parts are body, "),
        (["body", "output"], r"training.freeze leaves nothing to train: body, output"),
    ],
)
def test_what_cannot_be_frozen_is_said_before_there_is_a_folder(labelled, freeze, message):
    with pytest.raises(ConfigError, match=message):
        train_config(config_of(labelled, freeze=freeze), labelled / "refused", Quiet())
    assert not (labelled / "refused").exists()


def test_layers_are_unfrozen_one_by_one_from_the_last_one_down(labelled):
    drawn, at, listener = {}, {}, Listener()

    def note(event):
        if event.run is None:
            return
        for name, tensor in event.run.model.state_dict().items():
            tensor = tensor.clone()
            if event.step > 1 and not torch.equal(drawn[name], tensor):
                at.setdefault(name, event.step)
            drawn[name] = tensor

    config = config_of(labelled, unfreeze_every=2, steps=8, validate_every=1, patience=None)
    train_config(config, labelled / "gradual", listener, callback=note)
    first = {
        part: min(step for name, step in at.items() if name.startswith(part))
        for part in ("output.", "body.blocks.1.", "body.blocks.0.", "body.inputs.")
    }
    assert first == {"output.": 2, "body.blocks.1.": 3, "body.blocks.0.": 5, "body.inputs.": 7}
    assert [line for line in listener.messages if "from here on" in line] == [
        "update 2: training layer 2 of 2 from here on",
        "update 4: training layer 1 of 2 from here on",
        "update 6: training the embeddings from here on",
    ]


def test_gradual_unfreezing_goes_on_after_a_resume(labelled):
    fields = {"unfreeze_every": 2, "optimizer": "adamw", "learning_rate": 0.01, "layer_decay": 0.8, "steps": 8}
    whole, _ = train_config(config_of(labelled, **fields), labelled / "whole", Quiet())
    train_config(config_of(labelled, **fields | {"steps": 3}), labelled / "half", Quiet())
    half, _ = train_config(config_of(labelled, **fields), labelled / "half", Quiet(), resume=True)
    # The learning rate is constant, so that a run of 3 updates is the beginning of one of 8.
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, half.model.state_dict()[name]), name


def test_embeddings_that_are_not_trained_stay_frozen_when_their_turn_comes(labelled):
    by = moved(labelled, {"train_embeddings": False}, unfreeze_every=1, steps=5)
    assert not by["body.inputs.embedding.weight"].any() and by["body.blocks.0.feed_forward.inner.weight"].any()


def test_patience_waits_until_everything_is_trained(labelled):
    fields = {"learning_rate": 1e-12, "patience": 1, "validate_every": 1, "steps": 9}
    _, result = train_config(config_of(labelled, unfreeze_every=2, **fields), labelled / "patient", Quiet())
    assert result.progress.step == 6
    _, result = train_config(config_of(labelled, **fields), labelled / "impatient", Quiet())
    assert result.progress.step == 2


@pytest.mark.parametrize(
    ("name", "count", "embeddings", "top"),
    [("rnn", 2, {"inputs"}, set()), ("bag", 2, {"embedding"}, set()), ("cnn", 0, {"embedding"}, {"filters"})],
)
def test_the_layers_of_other_bodies(labelled, name, count, embeddings, top):
    fields = {"num_layers": 2} if name in ("rnn", "bag") else {}
    body = contract.task_and_model(config_of(labelled, {"name": name, **fields}))[1].body
    layers = layers_of(body)
    assert num_layers(body) == count
    assert {n.split(".")[0] for n, layer in layers.items() if layer == -1} == embeddings
    assert {n.split(".")[0] for n, layer in layers.items() if layer is None} == top
    assert {layer for layer in layers.values() if layer is not None and layer >= 0} == set(range(count))
