"""Teddy, a person or not: what one direction cannot know, and what a second, the other, or one more word mends."""

from random import Random

import pytest
import torch
from torch.testing import assert_close

import heed
from heed.cli import main
from heed.data.embedded.texts import TEDDY, draw_sentences, pair_of
from heed.data.kinds.tagged import find_scheme
from heed.models.rnn import RNN, RNNConfig
from heed.tasks import check_config, task_class

SETTINGS = {
    "data.train": 600,
    "data.valid": 40,
    "data.test": 200,
    "model.d_embedding": 16,
    "model.dropout": 0.0,
    "training.batch_tokens": 300,
    "training.learning_rate": 0.02,
    "training.warmup": 5,
    "training.validate_every": 150,
    "training.threads": 1,
    "training.device": "cpu",
    "evaluation.words": ["Teddy"],
    "evaluation.bootstrap": 5,
}


def on_teddy(folder, steps=150, **fields):
    """The share of right tags on the word Teddy in held-out sentences."""
    settings = SETTINGS | {name.replace("__", "."): value for name, value in fields.items()}
    run = heed.train("tagging", data="teddy", steps=steps, out=folder / "run", settings=settings, quiet=True)
    found = run.report["scores"]["test"]["per_word"]["Teddy"]
    assert found["support"] == 200
    return found["accuracy"]["value"]


# --- the sentences


def test_sentences_come_in_pairs_that_only_the_next_word_tells_apart():
    sentences = draw_sentences("train", 100, seed=1)
    for person, thing in zip(sentences[::2], sentences[1::2], strict=True):
        place = person.words.index(TEDDY)
        assert person.words[: place + 1] == thing.words[: place + 1]
        assert person.tags[place : place + 2] == ("B-person", "I-person") and set(thing.tags) == {"O"}
    assert find_scheme(sentence.tags for sentence in sentences) == "bio"
    follow = [{s.words[s.words.index(TEDDY) + 1] for s in sentences[i::2]} for i in (0, 1)]
    assert follow[0].isdisjoint(follow[1])


def test_splits_share_no_beginning_and_a_seed_repeats():
    begins = [
        {s.words[: s.words.index(TEDDY)] for s in draw_sentences(split, 200, seed)}
        for split, seed in (("train", 1), ("train", 2), ("valid", 1), ("test", 1))
    ]
    assert not (begins[0] | begins[1]) & (begins[2] | begins[3]) and not begins[2] & begins[3]
    assert draw_sentences("test", 30, 5) == draw_sentences("test", 30, 5)[:30]


def test_mirrored_sentences_are_tagged_from_their_end():
    person, thing = draw_sentences("test", 2, 1, mirrored=True)
    place = person.words.index(TEDDY)
    assert person.tags[place - 1 : place + 1] == ("B-person", "I-person") and set(thing.tags) == {"O"}
    assert person.words[place:] == thing.words[thing.words.index(TEDDY) :]


# --- what networks can know


@pytest.mark.parametrize("d_hidden", [4, 200])
def test_one_direction_says_the_same_of_both_whatever_its_size(d_hidden):
    values = {"task": "tagging", "data": {"name": "teddy"}, "model": {"bidirectional": False, "d_hidden": d_hidden}}
    task = task_class("tagging").prepare(check_config(values, "test"))
    model = task.build_model().eval()
    pair = pair_of("Once he said", Random(3))
    states = [model(**task.batch_of([sentence.words]).inputs)[0] for sentence in pair]
    assert torch.equal(states[0][:4], states[1][:4]) and not torch.equal(states[0][4], states[1][4])


def test_both_directions_are_right(tmp_path):
    assert on_teddy(tmp_path, model__d_hidden=16) > 0.99


def test_the_other_direction_is_right_and_at_chance_on_mirrored_sentences(tmp_path):
    backward = {"model__bidirectional": False, "model__backward": True, "model__d_hidden": 16}
    assert on_teddy(tmp_path, **backward) > 0.99
    assert on_teddy(tmp_path / "mirrored", 80, data__mirrored=True, **backward) == 0.5


def test_one_more_word_is_enough(tmp_path):
    assert on_teddy(tmp_path, model__bidirectional=False, model__delay=1, model__d_hidden=16) > 0.99


# --- direction and delay


def test_a_network_from_the_end_is_one_over_the_turned_sequence():
    torch.manual_seed(1)
    fields = {"vocab_size": 12, "d_embedding": 5, "d_hidden": 4, "bidirectional": False, "num_layers": 2}
    backward = RNN(RNNConfig(**fields, backward=True)).eval()
    forward = RNN(RNNConfig(**fields)).eval()
    names = {name: name.replace("backward_cells", "forward_cells") for name in backward.state_dict()}
    forward.load_state_dict({names[name]: tensor for name, tensor in backward.state_dict().items()})
    tokens = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]])
    mask = tokens > 0
    turned = torch.tensor([[8, 7, 6, 5], [10, 9, 0, 0]])
    hidden, expected = backward(tokens, mask), forward(turned, mask)
    assert_close(hidden[0], expected[0].flip(0))
    assert_close(hidden[1, :2], expected[1, :2].flip(0))
    assert_close(backward.last(hidden, mask), forward.last(expected, mask))
    with pytest.raises(ValueError, match=r"model.backward needs a single direction; set model.bidirectional=false"):
        RNNConfig(vocab_size=5, backward=True)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_delay_reads_on_whatever_the_padding(kind):
    values = {
        "task": "tagging",
        "data": {"name": "teddy", "train": 200, "valid": 20, "test": 20},
        "tokenizer": {"kind": kind, "vocab_size": 60},
        "model": {"bidirectional": False, "delay": 2, "d_hidden": 6, "characters": "cnn", "num_filters": 4},
    }
    task = task_class("tagging").prepare(check_config(values, "test"))
    model = task.build_model().eval()
    sentences = [["He", "said", "Teddy", "bear", "is", "soft"], ["Teddy"], ["He", "said", "Teddy", "bear", "is"]]
    together = model(**task.batch_of(sentences).inputs)
    for row, one in enumerate(sentences):
        alone = model(**task.batch_of([one]).inputs)[0]
        assert_close(together[row, : len(alone)], alone)
    same = torch.isclose(together[0, :3], together[2, :3]).all(-1)
    if kind == "word":  # two words on, "soft" is no part of what the third state has read, but of the fourth's
        assert same.all() and not torch.isclose(together[0, 3], together[2, 3]).all()


# --- the commands


def test_the_embedded_data_can_be_checked_and_misspelt(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", "tagging", "data.name=teddy", "data.train=50"])
    out, _ = capsys.readouterr()
    assert not ended.value.code and "embedded data: teddy" in out and "B-person 25" in out
    for field, message in (
        ("data.name=tedy", "data.name is 'tedy'; did you mean 'teddy'"),
        ("data.mirored=true", "unknown field 'data.mirored'; did you mean 'mirrored'"),
    ):
        with pytest.raises(SystemExit):
            main(["check", "tagging", "data.name=teddy", field])
        assert message in capsys.readouterr()[1]


def test_a_look_at_a_delayed_tagger_shows_its_words(tmp_path):
    settings = SETTINGS | {"model.bidirectional": False, "model.delay": 1, "model.name": "rnn", "data.train": 40}
    run = heed.train("tagging", data="teddy", steps=1, out=tmp_path / "run", settings=settings, quiet=True)
    look = run.look("He said Teddy bear is soft", steps=True, gates=True)
    (traces,) = look.maps
    assert traces.key.labels == ("He", "said", "Teddy", "bear", "is", "soft") and len(look.look.encoder) == 6
