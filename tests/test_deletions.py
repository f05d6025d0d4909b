"""Maps beside what the output loses: the rows, keys and changes of each task, against passes computed by hand."""

import numpy as np
import pytest
import torch

import heed
from heed.errors import ConfigError
from heed.observe.looks import Choice
from heed.tasks.base.writing_run import Reread
from heed.tasks.dialogue.reading import History
from small_runs import SMALL, write_data


@pytest.mark.parametrize("name", ["translation", "summarisation"])
def test_the_output_of_a_decoder_is_judged_token_by_token(name, tmp_path):
    write_data(tmp_path)
    run = SMALL[name].untrained(tmp_path, tmp_path, SMALL[name].model, {})
    judged = type(run).judged(run.task, run.model, "one two three", Choice("cross"))[0]
    written = run.predict("one two three")
    assert len(judged.rows) == len(written.ids) and all(len(one.weights) == 3 for one in judged.rows)
    for one in judged.rows:
        assert 0.0 <= one.weights.sum() <= 1.0 + 1e-6  # the end token of a framed source may have the rest


def test_hierarchical_maps_are_judged_in_their_sentences(tmp_path):
    write_data(tmp_path)
    run = SMALL["classification"].untrained(tmp_path, tmp_path, "han", {})
    words, sentences = type(run).judged(run.task, run.model, "One two three. Four five! Six seven one two.", Choice())
    assert (words.mechanism, sentences.mechanism) == ("words", "sentences")
    assert [len(one.weights) for one in words.rows] == [4, 3, 5]
    assert len(sentences.rows[0].weights) == 3
    for one in (*words.rows, *sentences.rows):
        assert one.weights.sum() == pytest.approx(1.0, abs=1e-5)


def test_the_change_under_uniform_weights_is_that_of_the_edit(tmp_path):
    write_data(tmp_path)
    run = SMALL["classification"].untrained(tmp_path, tmp_path, "rnn", {})
    with torch.no_grad():
        run.model.output.weight.mul_(100.0)
    text = "one two three four five six seven"
    plain = run.predict(text)
    with heed.edit(run, heed.Uniform("pooling")):
        edited = run.predict(text).probabilities[plain.label]
    (judged,) = type(run).judged(run.task, run.model, text, Choice())
    change = judged.uniform
    assert change == pytest.approx(abs(plain.probability - edited), rel=0.02) and change > 1e-5


def small(name, model, tmp_path):
    write_data(tmp_path)
    run = SMALL[name].untrained(tmp_path, tmp_path, model or SMALL[name].model, {})
    for parameter in run.model.parameters():
        parameter.data.mul_(3.0)  # so that a word changes something
    return run


@pytest.mark.parametrize("model", ["encoder", "self_rnn", "lstmn", "bert"])
def test_a_tag_is_judged_by_its_own_row_without_its_own_word(model, tmp_path):
    run = small("tagging", model, tmp_path)
    text = "one two three four five"
    judged = type(run).judged(run.task, run.model, text, Choice())[-1]
    weights = run.look(text).look.maps[-1].weights
    framed, back = int(run.task.framed), int(model == "self_rnn")  # that network used what it looked up a word before
    owners = range(2, 5) if model in ("self_rnn", "lstmn") else range(5)  # a tape begins empty
    for own, row, keys in zip(owners, judged.rows, judged.keys, strict=True):
        assert own not in keys
        expected = [float(weights[own + framed - back, key + framed]) for key in keys]
        assert row.weights == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("model", ["gpt", "lstmn"])
def test_each_next_token_is_judged_by_what_it_loses_without_each_token_before(model, tmp_path):
    run = small("language_modelling", model, tmp_path)
    judged = type(run).judged(run.task, run.model, "one two three four five six", Choice())[0]
    ids = run.task.prompt_tokens(run.task.tokenizer.encode("one two three four five six").ids, least=2)

    def chance(tokens, label):
        with torch.no_grad():
            hidden = run.model(torch.tensor([tokens]))
            return float(torch.softmax(run.model.logits(hidden)[0, -1].double(), -1)[label])

    row, keys = judged.rows[-1], judged.keys[-1]
    before, label = ids[:-1], ids[-1]
    assert [*keys] == [*range(1, len(before) - 1)]  # neither the start nor the token just read
    for key, change in zip(keys, row.changes, strict=True):
        without = [*before[:key], *before[key + 1 :]]
        assert change == pytest.approx(abs(chance(before, label) - chance(without, label)), abs=1e-5)


def test_turns_are_left_out_whole_and_words_one_by_one(tmp_path):
    run = small("dialogue", "hred", tmp_path)
    talk = run.readable(["one two", "three four five", "six"])
    turns, words = type(run).judged(run.task, run.model, talk, Choice())
    assert (turns.name, words.name) == ("turns layer 0", "words layer 0")
    assert {len(row.weights) for row in turns.rows} == {3} and {len(row.weights) for row in words.rows} == {6}
    history = run.task.encode([talk]).conversations[0]
    asked = History(history, run.task.speakers.number(run.task.who_responds(talk, None)))
    written = run.task.respond(run.model, [asked])[0][0]
    read = [
        Reread.of(run.task, run.model, History(some, asked.speaker), written).logits.double().softmax(-1)
        for some in (history, [history[0], history[2]])
    ]
    for t, row in enumerate(turns.rows):
        first, second = (float(one[t, written.ids[t]]) for one in read)
        assert row.changes[1] == pytest.approx(abs(first - second), abs=1e-5)


def test_words_written_before_are_judged_without_the_last_one(tmp_path):
    write_data(tmp_path)
    run = SMALL["translation"].untrained(tmp_path, tmp_path, "transformer", {})
    run.model.output.bias.data[run.task.target_tokenizer.special.end] = -100.0
    (judged,) = type(run).judged(run.task, run.model, "one two three", Choice("decoder"))
    assert [[*keys] for keys in judged.keys[:3]] == [[0], [0, 1], [0, 1, 2]]
    (encoder,) = type(run).judged(run.task, run.model, "one two three", Choice("encoder"))
    assert len(encoder.rows) == 1 and len(encoder.rows[0].weights) == 3


@pytest.mark.parametrize("head", [{}, {"pooling": "mean"}])
def test_a_patch_is_left_out_by_the_mean_colour_of_the_picture(head, tmp_path):
    write_data(tmp_path)
    run = SMALL["images"].untrained(tmp_path, tmp_path, "vit", head)
    picture = np.random.default_rng(1).integers(0, 255, (*run.task.form.sizing.shape[:2], 3), dtype=np.uint8)
    judged = type(run).judged(run.task, run.model, picture, Choice())[-1]
    assert judged.name == f"encoder layer {judged.layer}"
    size, grid = run.model.body.config.patch_size, run.model.body.grid
    pixels = run.task.form.tensor(run.task.form.sized([picture]))
    filled = pixels.clone()
    filled[:, :, :size, size : 2 * size] = pixels.mean((2, 3), keepdim=True)  # the second patch
    with torch.no_grad():
        before, after = (run.task.probabilities(run.model(one))[0] for one in (pixels, filled))
    label = int(before.argmax())
    assert len(judged.rows[0].weights) == grid[0] * grid[1]
    assert judged.rows[0].changes[1] == pytest.approx(abs(float(before[label] - after[label])), abs=1e-6)
    cnn = SMALL["images"].untrained(tmp_path, tmp_path, "cnn", {})
    with pytest.raises(ConfigError, match="model cnn has no attention"):
        type(cnn).judged(cnn.task, cnn.model, picture, Choice())
