"""Verdicts: the rule on rows with a known answer, its error rates, and what it says of runs."""

import json

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed.errors import ConfigError
from heed.observe.looks import Choice
from heed.observe.verdict import CONTRADICTED, RANDOM, SUPPORTED, UNJUDGED, Row, judge
from heed.tasks.base.writing_run import Reread
from heed.tasks.dialogue.reading import History
from small_runs import SMALL, write_data


def row(weights, effects):
    effects = np.asarray(effects, dtype=float)
    return Row(np.asarray(weights, dtype=float), effects, np.minimum(effects, 0.9))


def peak(place, size=30, rest=0.001):
    values = np.full(size, rest)
    values[place] = 1.0
    return values


def test_a_map_whose_first_word_decides_is_supported_and_one_that_avoids_it_contradicted():
    found = judge([row(peak(4), peak(4))], uniform=0.3)
    assert found.word == SUPPORTED and found.p == pytest.approx(0.05, abs=0.03) and found.depends
    assert found.line.endswith("uniform weights change the output by 0.300")
    away = peak(4, rest=1.0)
    away[4] = 0.0
    effects = np.linspace(0.1, 0.2, 30)
    effects[4] = 3.0
    assert judge([row(away, effects)]).word == CONTRADICTED
    other = judge([row(peak(4), peak(9))], uniform=0.01)
    assert other.word == RANDOM and "a word other than the most attended one decides" in other.line
    assert other.line.endswith("by 0.010: this output does not depend on these weights")


def test_what_cannot_be_judged_says_why():
    nothing = judge([row(peak(4), np.full(30, 0.01))])
    assert nothing.word == UNJUDGED and nothing.why == "no word left out changes the probability by 0.05"
    short = judge([row(peak(4, 12), peak(4, 12))])
    assert short.word == UNJUDGED and short.why.startswith("a row of 12 keys is too short to be judged alone")
    assert judge([row(peak(4, 12), peak(4, 12))] * 5).word == SUPPORTED  # together they can be
    half = [row(peak(4, 12), peak(4, 12))] * 4 + [row(peak(4, 12), peak(6, 12))] * 6
    assert judge(half).word != SUPPORTED  # fewer than half of the rows agree on the first word


def test_words_that_stand_for_one_another_are_left_out_together():
    weights = np.full(30, 0.01)
    weights[[3, 7, 20]] = 0.3
    no_single_one = Row(weights, np.full(30, 0.01), np.full(30, 0.01))

    def together(several):
        return np.array([0.6 if {3, 7} <= {*keys} else 0.0 for keys in several])

    found = judge([no_single_one], together)
    assert found.word == SUPPORTED and "three most attended words together change the probability by 0.600" in found.why
    wrong = Row(peak(1), np.full(30, 0.01), np.full(30, 0.01))
    assert judge([wrong], together).word in (RANDOM, UNJUDGED)
    assert judge([no_single_one], lambda several: np.zeros(len(several))).word == UNJUDGED
    # changes that add up are not those of words that stand for one another
    adding = Row(weights, weights, weights / 10)
    added = judge([adding], lambda several: np.array([adding.changes[keys].sum() for keys in several]))
    assert added.word == UNJUDGED and added.why.endswith("and no three by as much more than their sum")


def test_random_maps_are_seldom_supported_or_contradicted():
    rng = np.random.default_rng(3)
    words = [judge([row(rng.dirichlet(np.ones(40)), rng.exponential(size=40))], seed=n).word for n in range(400)]
    assert words.count(SUPPORTED) <= 0.05 * len(words) and words.count(CONTRADICTED) <= 0.09 * len(words)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A network that pools by attention, trained until the planted word decides."""
    out = tmp_path_factory.mktemp("planted") / "run"
    settings = {"data.name": "planted", "data.sentences": [3, 3], "data.train": 1000, "training.threads": 1}
    settings |= {"model.size": "tiny", "model.d_model": 32, "model.num_layers": 1, "training.batch_tokens": 1024}
    settings |= {"training.learning_rate": 0.005, "evaluation.bootstrap": 5}
    return heed.train("classification", model="encoder", steps=200, out=out, settings=settings, quiet=True)


def test_a_trained_network_is_judged_by_the_word_that_it_uses(planted, capsys):
    assert planted.report["scores"]["test"]["accuracy"]["value"] > 0.8
    texts = [text for text in planted.examples("test") if text.labels != ("other",)][:30]
    shares = planted.verdict_shares([text.text for text in texts])
    assert {"pooling layer 0", "encoder layer 0"} == {*shares}
    for found in shares.values():
        words = [SUPPORTED, CONTRADICTED, RANDOM, UNJUDGED]
        assert sum(found[word]["value"] for word in words) == pytest.approx(1.0) and found["texts"] == 30
    code, out, err = call(capsys, "look", planted.folder, texts[0].text, "--verdict", "--mechanism", "pooling")
    assert code == 0 and "verdict on pooling layer 0: " in out and "uniform weights change the output by" in out, err
    code, out, err = call(capsys, "evaluate", planted.folder, "--split", "valid", "--verdict", "--json")
    assert code == 0 and json.loads(out)["valid"]["verdicts"]["pooling layer 0"]["texts"] == 200, err
    recorded = json.loads((planted.folder / "report.json").read_text())["scores"]["valid"]["verdicts"]
    assert recorded == json.loads(out)["valid"]["verdicts"]
    assert call(capsys, "check", planted.folder)[0] == 0  # the sums of the files are those of the new ones
    code, out, err = call(capsys, "evaluate", planted.folder, "--verdict")
    card = (planted.folder / "README.md").read_text()
    for line in ("verdicts on pooling layer 0, ", "output does not depend on it", "all inputs together: "):
        assert code == 0 and line in out and line in card, err


@pytest.mark.parametrize("name", ["translation", "summarisation"])
def test_the_output_of_a_decoder_is_judged_token_by_token(name, tmp_path, capsys):
    write_data(tmp_path)
    run = SMALL[name].untrained(tmp_path, tmp_path, SMALL[name].model, {})
    judged = type(run).judged(run.task, run.model, "one two three", Choice("cross"))[0]
    written = run.predict("one two three")
    assert len(judged.rows) == len(written.ids) and all(len(one.weights) == 3 for one in judged.rows)
    for one in judged.rows:
        assert 0.0 <= one.weights.sum() <= 1.0 + 1e-6  # the end token of a framed source may have the rest
    for other in ({"target": "two"}, {"edits": [heed.Uniform("cross")]}):
        with pytest.raises(ConfigError, match="a verdict is on the model's own output, without edits"):
            run.look("one two three", verdict=True, **other)
    shown = run.look("one two three", verdict=True)
    line = shown.text()
    assert "verdict on" in shown.svg() and "verdict on" not in run.look("one two three").svg()
    assert "verdict on cross layer 0: " in line


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
    change = run.verdicts(text)["pooling layer 0"].uniform
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
    assert run.look(text, verdict=True).look.notes[-1].startswith(f"verdict on {judged.name}: ")


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


def test_what_is_shown_beside_a_verdict(planted, capsys):
    text = next(one.text for one in planted.examples("test") if one.labels != ("other",))
    for beside, said in (("permuted", "mean of 20 passes"), ("twin", "an untrained network of seed")):
        line = planted.verdicts(text, mechanism="pooling", beside=beside)["pooling layer 0"].line
        assert said in line
    with pytest.raises(ConfigError, match=r"unknown --beside 'twins'; give untrained, .*; did you mean 'twin'"):
        planted.verdicts(text, beside="twins")
    code, _, err = call(capsys, "look", planted.folder, text, "--beside", "permuted")
    assert code != 0 and "--beside permuted shows more of a verdict; add --verdict" in err
    before = {name: value.clone() for name, value in planted.model.state_dict().items()}
    planted.verdicts(text, beside="twin")
    assert all(torch.equal(before[name], value) for name, value in planted.model.state_dict().items())


@pytest.mark.parametrize("head", [{}, {"pooling": "mean"}])
def test_a_patch_is_left_out_by_the_mean_colour_of_the_picture(head, tmp_path, capsys):
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
    assert f"verdict on {judged.name}: " in run.look(picture, verdict=True).text()
    with pytest.raises(ConfigError, match="no verdict: model cnn has no attention"):
        cnn = SMALL["images"].untrained(tmp_path, tmp_path, "cnn", {})
        cnn.verdicts(picture)
    with pytest.raises(ConfigError, match="2 pictures were given; a verdict or an attribution needs exactly one"):
        run.verdicts([picture, picture])


@pytest.mark.parametrize("state", ["finished", "unfinished"])
def test_verdicts_are_kept_in_a_finished_run_alone(state, tmp_path, capsys):
    write_data(tmp_path)
    out = tmp_path / "run"
    SMALL["classification"].trained(tmp_path, out)
    if state == "unfinished":
        for name in ("model.safetensors", "report.json", "checksums.json", "README.md"):
            (out / name).unlink()
    code, said, err = call(capsys, "evaluate", out, "--verdict", "--split", "valid")
    assert code == 0 and "all inputs together: " in said, err
    if state == "finished":
        assert "verdicts" in json.loads((out / "report.json").read_text())["scores"]["valid"]
        assert "all inputs together: " in (out / "README.md").read_text()
        assert heed.folder.state_of(out) is heed.folder.State.FINISHED
    else:
        assert not (out / "report.json").exists()
