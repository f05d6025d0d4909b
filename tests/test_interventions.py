"""What an output does under other weights, beside its map: against passes with one edit at a time, and by hand."""

import html
import importlib.util
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import heed
from heed.errors import ConfigError
from heed.watch import effects, interventions
from heed.watch.effects import Change, Effect
from heed.watch.interventions import MAX_MAPS, effect_of

TEXT = "one two three four five"


@pytest.fixture
def small(untrained):
    """Function that gives an untrained run with large weights, so that a word changes something."""

    def make(name, model=None):
        run = untrained(name, model)
        torch.manual_seed(1)
        for parameter in run.model.parameters():
            parameter.data.mul_(3.0)
        return run

    return make


@pytest.mark.parametrize("model", ["rnn", "encoder", "lstmn", "bert"])
def test_the_changes_of_a_label_are_those_of_an_edit_at_a_time(model, small):
    run = small("classification", model)
    look = run.look(TEXT).look
    plain = run.predict(TEXT)
    drawn = [*look.maps, *(one for one in look.shadings if one.row is not None)]
    assert drawn and all(one.effect is not None for one in drawn)
    for one in drawn:
        opens = one.weight_source if hasattr(one, "query") else one.row.weight_source
        mechanism, layer, _ = opens.attention
        with heed.edit(run, heed.Uniform(mechanism, layer)):
            equal = run.predict(TEXT)
        effect = one.effect
        assert effect.equal.before == pytest.approx(plain.probability, abs=1e-5)
        assert effect.equal.after == pytest.approx(equal.probabilities[plain.label], abs=1e-5)
        assert bool(effect.equal.instead) == (equal.label != plain.label)
        key = one.key if hasattr(one, "key") else one.axis
        changes = {}
        for column in range(len(key) - (mechanism == "self")):  # no row of a tape attends to the last token
            place = opens.place(0, column)[1]
            with heed.edit(run, heed.SetWeight(mechanism, layer, keys=place, weight=1.0)):
                after = run.predict(TEXT).probabilities[plain.label]
            changes[f'"{key.labels[column]}"'] = after
        assert effect.tried == effect.keys == len(changes)
        largest = max(changes.values(), key=lambda value: abs(value - plain.probability))
        assert effect.key.after == pytest.approx(largest, abs=1e-5)
        assert changes[effect.on] == pytest.approx(largest, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "model", "mechanism"),
    [("translation", None, "cross"), ("translation", "transformer", "cross"), ("translation", "transformer", "encoder"),
     ("summarisation", None, "cross"), ("dialogue", "transformer", "cross"), ("dialogue", "hred", "words")],
)  # fmt: skip
def test_of_an_output_the_largest_change_is_said_with_its_token_and_never_the_mean(name, model, mechanism, small):
    run = small(name, model)
    text = ["one two", "three four"] if name == "dialogue" else TEXT
    look = run.look(text).look
    (drawn,) = [one for one in look.maps if one.mechanism == mechanism]
    count = len(look.output.ids) + look.output.finished
    frames = run.look(text, target=look.output, edits=[heed.Uniform(mechanism, drawn.layer)]).look.decoder
    tokens = [frame.token for frame in look.decoder[:count]]
    plain, equal = (
        [dict(frame.top).get(token) for frame, token in zip(read, tokens, strict=False)]
        for read in (look.decoder, frames)
    )
    known = [abs(a - b) for a, b in zip(plain, equal, strict=True) if a and b]
    effect = drawn.effect
    assert effect.equal.size >= max(known, default=0.0) - 1e-5  # the frames know the three most probable tokens only
    at = int(effect.equal.output.split()[1]) - 1
    if plain[at] is not None and equal[at] is not None:
        assert effect.equal.size == pytest.approx(abs(plain[at] - equal[at]), abs=1e-5)
    differing = [n for n in range(count) if look.decoder[n].top[0][0] != frames[n].top[0][0]]
    assert effect.equal.instead.startswith(f"token {differing[0] + 1} ") if differing else not effect.equal.instead


def test_words_are_for_language_models_and_pieces_for_models_of_pieces(small):
    with pytest.raises(ConfigError, match="--words is for language models, whose maps show tokens"):
        small("classification", "rnn").look(TEXT, words=True)
    with pytest.raises(ConfigError, match="--pieces does not apply: looks of model han show words and sentences"):
        small("classification", "han").look(TEXT, pieces=True)


def test_words_in_sentences_are_given_all_weight_of_their_sentence(small):
    run = small("classification", "han")
    text = "One two three. Four five! Six seven one two."
    words, sentences = [one for one in run.look(text).look.shadings if one.effect is not None]
    assert words.effect.keys == 5 and sentences.effect.keys == 3  # the longest sentence has five tokens
    plain = run.predict(text)
    with heed.edit(run, heed.Uniform("words")):
        equal = run.predict(text)
    assert words.effect.equal.after == pytest.approx(equal.probabilities[plain.label], abs=1e-5)


@pytest.mark.parametrize("model", ["gpt", "lstmn"])
def test_each_written_token_counts_after_those_before_it(model, small):
    run = small("language_modelling", model)
    look = run.look(TEXT, words=False).look
    answer = look.answer
    logits = answer.logits(answer.tokens.unsqueeze(0), "")[0].detach()
    assert len(logits) == len(answer.classes) == len(look.decoder)
    for frame, row in zip(look.decoder, torch.softmax(logits.double(), -1), strict=True):
        assert float(row.max()) == pytest.approx(frame.top[0][1], abs=1e-5)
    read = run.look(TEXT, given=True).look
    assert len(read.answer.classes) == len(read.answer.tokens) - 1


def test_masks_and_pairs_are_answers_and_a_text_without_them_has_none(small):
    run = small("pretraining")
    masked = run.look("one [MASK] three four").look
    assert "[MASK] 1" in masked.maps[-1].effect.equal.output
    pair = run.look("one two", pair="three four").look
    assert pair.maps[-1].effect.equal.output in ('"follows"', '"does not follow"')
    assert run.look("one two three").look.maps[-1].effect is None


def test_the_label_of_a_picture_has_its_line_and_still_maps_are_grey(small):
    run = small("images", "vit")
    picture = np.random.default_rng(1).integers(0, 255, (*run.input.form.sizing.shape[:2], 3), dtype=np.uint8)
    shown = run.look(picture)
    (drawn,) = [one for one in shown.look.maps if one.effect is not None]
    plain = run.predict(picture)
    layer = drawn.weight_source.attention[1]
    with heed.edit(run, heed.Uniform("encoder", layer)):
        equal = run.predict(picture)
    assert drawn.effect.equal.after == pytest.approx(equal.probabilities[plain.label], abs=1e-5)
    assert "equal weights:" in " ".join(shown.text().split())
    run.model.output.bias.data[0] = 1e3
    still = run.look(picture)
    assert all(one.effect.still for one in still.look.maps if one.effect is not None)


def test_a_map_whose_output_stays_the_same_is_grey_and_says_so(small):
    run = small("classification", "encoder")
    run.model.output.bias.data[0] = 1e3
    look = run.look(TEXT)
    assert all(one.still for one in look.look.maps)
    assert "grey: the same output under all of these weights" in " ".join(look.text().split())
    assert 'class="map" data-still' in look.html()
    drawn = look.look.maps[0]
    for color in drawn.colors(0.7):
        assert color[1:3] == color[3:5] == color[5:7]


def test_lines_say_what_was_done_and_what_came_out():
    same = Change('token 21 "mayo"', 0.93, 0.91)
    other = Change('token 21 "mayo"', 0.93, 0.11, 'token 21 "juin"')
    assert Effect(same, same, '"9"', 0, 12, 12).lines == [
        'equal weights: the same output (token 21 "mayo": 0.93 -> 0.91)',
        'all weight on one key: the same output with each of 12 keys, at most 0.02 (on "9"; token 21 "mayo": '
        "0.93 -> 0.91)",
        "grey: the same output under all of these weights",
    ]
    assert [Effect(*both, '"9"', 0, 12, 12).still for both in ((same, same), (other, same))] == [True, False]
    assert Effect(other, other, '"9" (character 3)', 3, 64, 90, "choice of tokens").lines == [
        'equal weights: token 21 "juin" instead (token 21 "mayo": 0.93 -> 0.11)',
        "all weight on one key: another choice of tokens with 3 of the 64 most attended of 90 keys, at most 0.82 (on "
        '"9" (character 3); token 21 "mayo": 0.93 -> 0.11)',
    ]


def test_every_form_has_the_lines_and_an_overview_has_none(small):
    run = small("classification", "rnn")
    look = run.look(TEXT)
    first = next(one.effect for one in look.look.shadings if one.effect is not None).lines[0]
    assert first in look.text() and first in html.unescape(look.html())
    assert first.split(" (")[0] in look.svg() and '"equal":{' in look.json()
    many = small("classification", "encoder").look(TEXT, overview=True).look
    assert all(one.effect is None for one in many.maps)
    assert len(small("classification", "encoder").look(TEXT, layer="all", head="all").look.maps) <= MAX_MAPS


def test_interventions_stand_on_the_edits_of_a_look(small):
    run = small("classification", "rnn")
    block = heed.Block("pooling", keys=[0])
    edited = run.look(TEXT, edits=[block]).look
    with heed.edit(run, block):
        plain = run.predict(TEXT).probabilities
    effect = next(one.effect for one in edited.shadings if one.effect is not None)
    assert effect.equal.before == pytest.approx(max(plain.values()), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "model"),
    [("classification", "encoder"), ("classification", "han"), ("tagging", "bert"), ("translation", "transformer"),
     ("translation", None), ("summarisation", None), ("dialogue", "hred"), ("dialogue", "transformer"),
     ("language_modelling", "gpt"), ("language_modelling", "lstmn")],
)  # fmt: skip
def test_keys_that_are_tried_together_change_what_each_changes_alone(name, model, small, monkeypatch):
    run = small(name, model)
    texts = {"dialogue": ["one two", "three four five"], "han": "One two three. Four five! Six."}
    text = texts.get(name, texts.get(model, TEXT))
    look = run.look(text).look
    rows = [one.row for one in look.shadings if one.row is not None]
    maps = [one for one in (*look.maps, *rows) if one.is_distribution and one.weight_source is not None]
    assert maps
    for one in maps:
        how = look.answer, one.weights, one.key, one.weight_source
        together = effect_of(*how)
        with monkeypatch.context() as patched:
            patched.setattr(effects, "_MAX_INPUTS", 1)
            apart = effect_of(*how)
        if apart is None:  # no row of this map has a choice
            continue
        assert together.lines == apart.lines
        assert together.key.after == pytest.approx(apart.key.after, abs=1e-5)


def test_of_a_beam_search_or_a_given_output_only_the_choice_of_tokens_is_known(small):
    run = small("translation", "transformer")
    compared = [run.look(TEXT, **how).look.answer.compared for how in ({}, {"beam_size": 3}, {"target": "ONE TWO"})]
    assert compared == ["output", "choice of tokens", "choice of tokens"]


def planted(untrained, **words):
    """A classifier whose states are the words themselves: the evidence for "a" and the attention of each, as given.

    The logit of "a" minus that of "b" is 8 times the evidence of the text's vector, less 1; other words have (0, 0).
    """
    run = untrained("classification", "rnn", cell="rnn")
    for parameter in run.model.parameters():
        parameter.data.zero_()
    cell, pooling, output = run.model.body.encoder.forward_cells[0], run.model.pooling.attention, run.model.output
    cell.w_ih.data.copy_(torch.eye(4))
    for word, numbers in words.items():
        (token,) = run.tokenizer.encode(word).ids
        run.model.body.inputs.embedding.weight.data[token, :2] = torch.tensor(numbers).atanh()
    pooling.key.weight.data[0, 1] = pooling.query.data[0, 0] = 1.0
    pooling.query.data *= 8.0
    output.weight.data[0, 0], output.bias.data[1] = 8.0, 1.0
    return run, next(one.effect for one in run.look(TEXT).look.shadings if one.effect is not None)


def of_label_a(evidence, attention, weights=None):
    """The probability of "a" in `planted`, by NumPy."""
    scores = np.exp(8 * np.tanh(np.array(attention)))
    weights = scores / scores.sum() if weights is None else weights
    return 1 / (1 + np.exp(1 - 8 * weights @ np.array(evidence)))


def test_all_weight_on_one_word_changes_an_answer_that_equal_weights_keep(untrained):
    words = {"one": (0.5, 0.0), "two": (0.5, 0.1), "three": (0.5, 0.0), "four": (-0.9, 0.0), "five": (0.5, 0.0)}
    _, effect = planted(untrained, **words)
    evidence, attention = zip(*words.values(), strict=True)
    whole = of_label_a(evidence, attention)
    assert not effect.equal.instead and not effect.still
    assert effect.equal.after == pytest.approx(of_label_a(evidence, attention, np.full(5, 0.2)), abs=1e-5)
    assert effect.on == '"four"' and effect.others == 1 and effect.tried == 5
    assert effect.key.before == pytest.approx(whole, abs=1e-5)
    assert effect.key.after == pytest.approx(1 / (1 + np.exp(1 + 8 * 0.9)), abs=1e-5)


def test_of_a_long_output_with_one_copied_word_the_change_is_that_of_this_word(tmp_path):
    """Five seconds of training: the third of five source words is the thirteenth of 21 output words."""
    rng, names = random.Random(1), "ant bee cat dog elk fox".split()
    drawn = [rng.sample(names, 5) for _ in range(300)]
    frame = [f"w{n}" for n in range(20)]
    pairs = [(" ".join(words), " ".join([*frame[:12], words[2], *frame[12:]])) for words in drawn]
    settings = {
        "model.d_embedding": 16, "model.d_hidden": 16, "model.d_attention": 16, "tokenizer.kind": "word",
        "training.learning_rate": 0.02, "training.warmup": 20, "training.batch_tokens": 1000, "training.threads": 1,
        "training.device": "cpu", "evaluation.bootstrap": 5,
    }  # fmt: skip
    run = heed.train("translation", train=pairs, valid=20, model="bahdanau", steps=260, out=tmp_path / "run",
                     settings=settings, quiet=True)  # fmt: skip
    instead = []
    for source, target in pairs[:5]:
        look, copied = run.look(source).look, target.split()[12]
        assert look.target == target
        (effect,) = [one.effect for one in look.maps if one.mechanism == "cross"]
        answer = look.answer
        with torch.no_grad(), heed.edit(run, heed.Uniform("cross")):
            equal = torch.softmax(answer.logits(answer.tokens.unsqueeze(0), "cross")[0].double(), -1)
        changes = [abs(dict(step.top)[step.token] - float(row[token]))
                   for step, row, token in zip(look.decoder, equal, answer.classes, strict=False)]  # fmt: skip
        assert effect.equal.output == f'token 13 "{copied}"' and f'(token 13 "{copied}": ' in effect.lines[0]
        assert effect.equal.size == pytest.approx(changes[12], abs=1e-4) and changes[12] > 0.3
        assert np.mean(changes) < 0.1
        instead.append(effect.equal.instead)
    assert any(one.startswith("token 13 ") for one in instead)


@pytest.fixture
def example():
    path = Path(__file__).parent.parent / "examples" / "interventions.py"
    spec = importlib.util.spec_from_file_location("interventions", path)
    module = sys.modules["interventions"] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["interventions"]


def test_the_planted_words_of_the_example_give_the_labels(example):
    for name in example.SETS:
        for one in example.draw(name, 50, 3):
            words = one.text.split()
            has = {*words}
            good = bool(has & {*example.GOOD}) != ("not" in has)
            topic = next((name for name, words in example.TOPICS.items() if has & {*words}), "")
            assert (
                one.label
                == {
                    "negation": "pos" if good else "neg",
                    "two redundant cues": "a" if "apple" in has else "b",
                    "position": min(("left", "right"), key=[*words, "left", "right"].index),
                    "default class": "yes" if "signal" in has else "no",
                    "one cue among labels": "urgent" if "urgent" in has else topic,
                }[name]
            )
            assert {*one.planted} <= has and len(has) == len(words)


def test_the_example_measures_two_redundant_cues(example, tmp_path):
    """Three seconds of training."""
    texts = example.draw("two redundant cues", 1110, 1)
    right, _, _, attended, _, _ = example.measured(example.trained(texts[10:], 1, f"{tmp_path}/run"), texts[:10])
    assert right == "10" and attended.endswith(" of 10")


def test_of_a_given_output_its_tokens_count(small):
    run = small("translation", "transformer")
    look = run.look(TEXT, target="TWO FOUR THREE").look
    answer = look.answer
    with torch.no_grad():
        logits = answer.logits(answer.tokens.unsqueeze(0), "")[0].double()
    chances = torch.softmax(logits, -1)[torch.arange(3), torch.tensor(answer.classes)]
    assert logits.argmax(-1).tolist() != answer.classes  # the model would have written something else
    assert answer.whole == pytest.approx(chances, abs=1e-6)


def test_in_a_large_model_fewer_keys_are_tried_and_the_line_says_how_many(small, monkeypatch):
    run = small("classification", "rnn")
    monkeypatch.setattr(interventions, "_WORK", 1.0)
    text = "one two three four five six seven eight nine ten"
    (effect,) = [one.effect for one in run.look(text).look.shadings if one.effect is not None]
    assert (effect.tried, effect.keys) == (8, 10)
    assert "the 8 most attended of 10 keys" in effect.lines[1]
