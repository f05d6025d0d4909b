"""Lessons in every form; of those that train, what their stages say follows from the numbers in them."""

import json
import math
from itertools import pairwise, permutations
from random import Random

import pytest
import torch
from torch.testing import assert_close

import heed
import lesson_sentences as drawing
from heed.cli import main
from heed.data.embedded import SPLITS
from heed.data.embedded.texts import TEDDY, draw_meals, draw_sentences, pair_of
from heed.data.kinds.tagged import find_scheme
from heed.errors import ConfigError
from heed.lessons import Stage, cat, list_lessons, mess, order, parts, run_lesson
from heed.lessons import lesson as files
from heed.lessons.parts import sentences_of, train_small, training_progress
from heed.models.rnn import RNN, RNNConfig
from heed.tasks import check_config, task_class
from small_lessons import shrink

STAGES = {
    "cat": "sentences who result",
    "hindi": "pair true predicted cross-entropy divergence squared gradient free pieces",
    "it": "words projections heads concatenate second-layer one-head",
    "logan": "conversation words utterances dialogue decoder turns inside response other-film distance",
    "mess": "sentences answers words result",
    "order": "task training time movie judged",
    "pizza": "question training pizza playing bigram",
    "teddy": "sentences forward both backward delay result",
}


@pytest.mark.parametrize("name", files.TRAINED)
def test_every_lesson_has_its_stages_in_every_form(name, own_cache, monkeypatch):
    """However little its networks have learned: they are trained for a few updates only."""
    shrink(monkeypatch)
    found = run_lesson(name)
    assert list_lessons()[name] == found.title and [stage.name for stage in found.stages] == STAGES[name].split()
    text, html = found.text(), found.html()
    for stage in found.stages:
        assert stage.title in text and f'id="{stage.name}"' in html
    assert json.loads(found.json())["lesson"] == name
    for width in (60, 80, 100):
        lines = [line for line in found.text(width).splitlines() if not line.startswith("-- ")]
        assert max(map(len, lines)) <= width
        assert all("\u2581" not in line and " nan" not in line for line in lines)
    assert not found.mismatches and (bool(found.checks) or name in files.SECONDS)
    assert hasattr(files.TRAINED[name], "SOURCE") != (name in files.SECONDS)
    with pytest.raises(ConfigError, match=rf"lesson {name} has no stage of one row; leave out row 0"):
        run_lesson(name, row=0)
    follows = {"cat": check_cat, "mess": check_mess, "teddy": check_teddy}
    if name in follows:
        follows[name](found)


def check_cat(found):
    """Without order both sentences get one answer."""
    same = found["who"]["apart"] < cat._SAME
    assert same.tolist() == [True] * cat._UNORDERED + [False] * 4
    assert "It holds: their probabilities differ by" in found["result"].lines[0]


def check_mess(found):
    """The last word of the reading is the answer."""
    answers = found["answers"]["answers"]
    assert_close(found["words"]["words"][-1], answers[0], atol=1e-6, rtol=0)
    assert_close(answers.unflatten(1, (2, 3)).sum(-1), torch.ones(3, 2).double(), atol=1e-6, rtol=0)


def check_teddy(found):
    """One direction tells the sentences apart from the word on that differs."""
    assert_close(found["forward"]["apart"][:3], torch.zeros(3))
    assert found["forward"]["apart"][3] > 0 and found["both"]["apart"].min() > 0
    assert_close(found["delay"]["apart"][:2], torch.zeros(2))
    assert found["forward"]["first"][2] == found["forward"]["second"][2]
    assert "Roosevelt / bear" in found.text() and "Roosevelt / bear" in found.html()


def test_the_command_says_how_long_training_takes(capsys, monkeypatch):
    monkeypatch.setattr(cat, "stages", lambda: (Stage("only", "one stage", (), ""),))
    with pytest.raises(SystemExit):
        main(["lesson", "cat"])
    out, err = capsys.readouterr()
    expected = "training small networks: about 9 seconds on a quiet core, several times that beside other work\n"
    assert "one stage" in out and err == expected


def test_a_script_fills_its_texts_and_tables(monkeypatch):
    text = """@places: left, right
[one] {many:some|a} row
= y = x
- up to {most:.1f}, which
  goes on
* {told:said|}
| x: title of {most} | @places | a, @more | heat
| y: column | @places | only
"""
    monkeypatch.setattr(parts, "_texts", lambda: {"own": text})
    x, y = torch.eye(2), torch.tensor([1.0, 2.0])
    stage = parts.Script("own")("one", x=x, y=y, most=2, many=False, told=False, more=["b"], x_notes=["n", "m"])
    assert (stage.title, stage.prose, stage.equation, stage.lines) == (
        "a row",
        ("up to 2.0, which goes on",),
        "y = x",
        (),
    )
    (first, second), numbers = stage.tables, stage.numbers
    assert (first.title, first.rows, first.columns) == ("title of 2", ("left", "right"), ("a", "b"))
    assert first.heat and first.notes == ("n", "m") and not second.heat and second.values.tolist() == [[1.0], [2.0]]
    assert list(numbers) == ["x", "y"] and numbers["y"] is y


def test_each_update_of_a_lesson_is_told():
    told = []
    with training_progress(lambda update, updates: told.append((update, updates))):
        train_small("classification", 3, "model.name=bag", train=[("a b", "x"), ("b c", "y")] * 8)
    assert list(dict.fromkeys(told)) == [(1, 3), (2, 3), (3, 3)]


def test_the_table_is_what_the_script_draws(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["lesson_sentences.py", str(tmp_path / "sentences.tsv")])
    drawing.main()
    for lesson in ("cat", "mess", "order"):
        kinds = sentences_of(lesson)
        packed = [(lesson, kind, split, *row) for kind in kinds for split in kinds[kind] for row in kinds[kind][split]]
        lines = (tmp_path / "sentences.tsv").read_text(encoding="utf-8").splitlines()
        written = [tuple(line.split("\t")) for line in lines if line.startswith(f"{lesson}\t")]
        assert sorted(packed) == sorted(written)
        assert packed[:50] == written[:50]


# cat


def test_both_orders_of_two_nouns_are_in_one_split_and_the_lessons_sentences_are_held_out():
    drawn = {split: drawing.who_sat(split) for split in SPLITS}
    met = {
        split: {frozenset(word for word in drawing.NOUNS if f" {word} " in f" {row[0][:-1]} ") for row in rows}
        for split, rows in drawn.items()
    }
    assert not met["train"] & met["test"] and not met["train"] & met["valid"] and not met["valid"] & met["test"]
    held_out = dict(drawn["test"])
    assert [held_out[sentence] for sentence in cat._PAIR] == ["cat", "wall"]
    assert frozenset(("cat", "wall")) not in met["train"]


@pytest.mark.slow
def test_models_with_order_learn_who_sat_and_those_without_cannot():
    found = run_lesson("cat")
    for i, name in enumerate(cat._NETWORKS):
        knows = i >= cat._UNORDERED
        low, high = (0.9, 1.0) if knows else (0.3, 0.6)
        assert low <= float(found["who"]["accuracy"][i]) <= high, name
        assert (float(found["who"]["right"][i].min()) > 0.5) == knows, name
    claim, right, own = found["result"].lines
    assert "It holds" in claim and right.startswith("With order, 4 of 4 classifiers") and "100%" in own


# mess


def test_reviews_are_labelled_by_the_balance_of_their_halves_and_the_joint_tells_nothing():
    texts = [review for split in SPLITS for review in drawing.draw_reviews(split, "halves")]
    train = {text for text, _ in drawing.draw_reviews("train", "halves")}
    joints = {"but then": set(), "and then": set()}
    for text, label in texts:
        good = [word for word in drawing.GOOD if f"was {word}" in text]
        bad = [word for word in drawing.BAD if f"was {word}" in text]
        assert label in (("positive", "neutral") if good else ("negative", "neutral")) or bad, text
        assert {"great", "a bit of a mess"} != {*good[:1], *bad[:1]} or label != "neutral", text
        if ", " in text and text.count(" was ") == 2 and "half" in text:
            for joint, seen in joints.items():
                if f", {joint} it was" in text:
                    seen.add(label)
    assert joints == {"but then": set(drawing.LABELS), "and then": set(drawing.LABELS)}
    for split in ("valid", "test"):
        assert not train & {text for text, _ in drawing.draw_reviews(split, "halves")}
    assert drawing.SHOWN == mess._SHOWN and not {*mess._SHOWN} & {text for text, _ in texts}
    for text, label in drawing.draw_reviews("train", "short"):
        assert text.count(" was ") <= 1 + (label == "neutral"), text  # no two opinions


@pytest.mark.slow
def test_last_words_decide_until_training_shows_two_halves():
    found = run_lesson("mess")
    short, halves = found["answers"]["answers"].unflatten(1, (2, 3)).argmax(-1).T.tolist()
    assert short == [0, 2, 2] and halves == [1, 1, 2]  # negative, positive turned round, positive; then neutral both
    assert float(found["result"]["far"]) > 0.9
    one, two = found["result"].lines
    assert "the last words decide, and the claim holds" in one and "Here the claim does not hold" in two


# pizza and order


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_pizza_ranks_by_the_verb_and_the_bigram_cannot():
    lesson = run_lesson("pizza")
    rows = {name: lesson[name].tables[0].rows for name in ("pizza", "playing")}
    assert rows["pizza"][0] == "chilli flakes" and rows["playing"][0] == "my friend"
    for name, true in (("pizza", [0.7, 0.2, 0.1]), ("playing", [0.7, 0.2, 0.1])):
        stage = lesson[name]
        assert_close(stage["probability"], stage["total"].exp())
        assert float((stage["probability"] - torch.tensor(true, dtype=torch.float64)).abs().mean()) < 0.04
    # Counted again from the sentences, pair by pair.
    texts = [[*document.text.split(), "</s>"] for document in draw_meals("train", 20_000, 1)]
    pairs = [pair for text in texts for pair in pairwise(text)]
    by_hand = {}
    for choice in ("chilli flakes", "my friend", "sand"):
        words = ["with", *choice.split(), "</s>"]
        steps = pairwise(words)
        by_hand[choice] = sum(math.log(pairs.count(s) / sum(p[0] == s[0] for p in pairs)) for s in steps)
    stage = lesson["bigram"]
    assert dict(zip(stage.tables[0].rows, stage["total"].tolist(), strict=True)) == pytest.approx(by_hand)
    shares = lesson["training"]["shares"]
    assert_close(shares.sum(1), torch.ones(2, dtype=torch.float64))
    assert_close(shares, torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2]]).double(), atol=0.07, rtol=0)


def test_the_sentences_of_order_share_no_words_between_splits_and_leave_the_examples_out():
    kinds = drawing.ordered_sentences()
    bags = {
        split: {drawing.bag_of(text) for kind in kinds for _, text in drawing.draw_ordered(split, kind)}
        for split in SPLITS
    }
    assert drawing.ASKED == (order._TIME[1], order._MOVIE[1])
    assert not bags["train"] & (bags["valid"] | bags["test"]) and not bags["valid"] & bags["test"]
    assert not bags["train"] & {drawing.bag_of("What time is it now?"), drawing.bag_of(order._MOVIE[1])}
    for right in ("What time is it now?", order._MOVIE[1]):
        assert any(right in kind for kind in drawing.ordered_sentences().values())


def test_as_many_orders_are_sentences_as_their_kind_says():
    split = [drawing.words_of(text) for kind in drawing.ordered_sentences().values() for text in kind]
    every = {(*words, closing) for words, closing in split}
    for number, kind in ((1, "one"), (2, "two")):
        for _, text in drawing.draw_ordered("test", kind)[:6]:
            words, closing = drawing.words_of(text)
            assert sum((*words, closing) in every for words in set(permutations(words))) == number, text


def test_the_words_of_a_sentence_are_shuffled_before_its_punctuation():
    for text in (text for kind in drawing.ordered_sentences() for _, text in drawing.draw_ordered("test", kind)):
        shuffled = drawing.shuffle_words(text)
        assert shuffled != text and drawing.shuffle_words(text) == shuffled
        (words, closing), (right, mark) = drawing.words_of(shuffled), drawing.words_of(text)
        assert sorted(words) == sorted(right) and closing == mark and " ".join(right) + mark == text


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_order_finds_the_one_order_and_divides_between_two():
    lesson = run_lesson("order")
    time, movie = lesson["time"], lesson["movie"]
    assert int(time["network"].argmax()) == 0 and float(time["network"][0]) > 0.5
    assert float(movie["network"][:2].sum()) > 0.8 and float(movie["network"][:2].min()) > 0.1
    for stage in (time, movie):  # every order shown has the words of the source
        words = {tuple(sorted(drawing.words_of(row)[0])) for row in stage.tables[0].rows}
        assert len(words) == 1
    exact = lesson["judged"]["exact_match"]
    assert float(exact[0, 0]) > 0.9 and 0.3 < float(exact[1, 0]) < 0.7 and not exact[:, 1].any()


# --- Teddy, a person or not: what one direction cannot know, and what a second, the other, or one more word mends


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
