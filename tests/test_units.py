"""Single units of gates and states over words, the tape of an LSTMN, rollout over texts, words shaded in their parts.

The numbers are those of the recurrences of `reference.py`, run over the inputs of each cell.
"""

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from continuing import random_run, write_texts
from equations import array, weights_of
from heed.cli import main
from heed.errors import ConfigError
from heed.show.shown import ShownLook
from heed.tasks.base.writing import Reread
from heed.tasks.classification import look_at_text
from heed.tasks.tagging import look_at_tags
from heed.tasks.translation import look_at
from heed.watch.looks import Choice
from heed.watch.trace import trace
from look_cases import TEXT, classifier, tagger, translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("units")


def recurrence(record, row=0, length=None):
    """Every gate and state by the equations, `(length, d)` each, in the order of the text."""
    weights = [record.weights[name].double().numpy() for name in ("w_ih", "w_hh", "b_ih", "b_hh")]
    state, steps = [s[row].double().numpy() for s in record.initial], []
    for x in record.inputs[row, :length].double().numpy():
        if record.cell == "lstm":
            gate = ref.lstm_gates(x, state[0], *weights)
            state = list(ref.lstm_step(x, *state, *weights))
            named = {"input gate": "i", "forget gate": "f", "candidate": "g", "output gate": "o"}
            states = {"cell": state[1], "hidden": state[0]}
        else:
            gate = ref.gru_gates_torch(x, state[0], *weights)
            state = [ref.gru_step_torch(x, state[0], *weights)]
            named, states = {"reset gate": "r", "update gate": "z", "candidate": "n"}, {"hidden": state[0]}
        steps.append({name: gate[short] for name, short in named.items()} | states)
    found = {name: np.stack([step[name] for step in steps]) for name in steps[0]}
    return found if record.order is None else {name: values[::-1] for name, values in found.items()}


def assert_units(look, network, expected, last=None):
    """The maps of a network are the expected gates and states, units in order, at the last token of each word."""
    found = {one.title.split(": ")[1].split(" over ")[0]: one for one in look.maps if one.title.startswith(network)}
    found.pop("gates", None)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        one, rows = found[name], values if last is None else values[last]
        np.testing.assert_allclose(one.weights.double().numpy(), rows.T, rtol=0, atol=2e-6)
        assert one.query.labels == tuple(map(str, range(rows.shape[1]))) and one.query.kind == "unit"
        assert one.signed == ("gate" not in name) and not one.is_distribution


def read(task, model, text):
    """A traced pass over one text to classify."""
    with torch.no_grad(), trace(model.eval()) as seen:
        model(**task.batch_of([text]).inputs)
    return seen


def test_units_of_a_text_are_the_recurrences_and_a_word_of_several_tokens_has_the_value_read_last(folder):
    task, model = classifier(folder, "rnn", kind="bpe", vocab_size=34)
    look = look_at_text(task, model, "great film", units=[*range(10)])
    records = read(task, model, "great film").gate_records
    words = task.input.tokenizer.words(task.input.encode_texts(["great film"])[0].sentences[0])
    assert len(words) == 2 and len(words[0]) > 1
    for record in records:
        kind, last = ("backward", [w.start for w in words]) if record.order is not None else (
            "forward", [w.stop - 1 for w in words])  # fmt: skip
        assert_units(look, f"{kind} network, layer 0", recurrence(record), last)
    assert len(records) == 2 and "A word of several tokens has the value at the one read last." in look.maps[0].caption


@pytest.mark.parametrize("count", [1, 3, 99])
def test_the_units_of_largest_variance_come_first_and_named_ones_in_their_order(folder, count):
    task, model = tagger(folder, "rnn")
    every = look_at_tags(task, model, TEXT, units=[*range(10)]).maps
    chosen = look_at_tags(task, model, TEXT, units=count).maps
    assert len(every) == len(chosen) == 2 * 6  # an LSTM's gates and states in both directions
    for whole, one in zip(every, chosen, strict=True):
        spread = np.var(whole.weights.double().numpy(), axis=1)
        assert [int(label) for label in one.query.labels] == np.argsort(-spread, kind="stable")[:count].tolist()
        assert torch.equal(one.weights, whole.weights[[int(label) for label in one.query.labels]])
        assert f"the {min(count, 10)} of 10 with the largest variance" in one.caption
    named = look_at_tags(task, model, TEXT, units="7,2").maps
    assert all(one.query.labels == ("7", "2") for one in named)
    assert look_at_tags(task, model, TEXT, units="7,").maps[0].query.labels == ("7",)


def test_units_of_both_networks_of_a_hierarchical_model(folder):
    task, model = classifier(folder, "han")
    look = look_at_text(task, model, TEXT, units=[*range(6)])
    (encoded,) = task.input.encode_texts([TEXT])
    alone = [read(task, model, sentence) for sentence in ("The film was great.", "It was Zebra of all.")]
    whole = read(task, model, TEXT)
    for kind in ("forward", "backward"):
        each = [next(r for r in one.gate_records if r.name == f"body.words.{kind}_cells.0") for one in alone]
        parts = [recurrence(record, 0, len(ids)) for record, ids in zip(each, encoded.sentences, strict=True)]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        assert_units(look, f"{kind} network", joined)
        (record,) = [r for r in whole.gate_records if r.name == f"body.sentences.{kind}_cells.0"]
        assert_units(look, f"sentence {kind} network", recurrence(record))


def test_units_of_an_encoder_and_the_decoder_at_the_step_that_wrote_each_token():
    task, model = translator("bahdanau")
    look = look_at(task, model, "31415", target="314", units=[*range(8)])
    seen = Reread.of(task.input, model, task.input.framed(task.input.source_tokenizer.encode("31415").ids), "314")
    for record in seen.reading.gate_records:
        kind = "backward" if record.order is not None else "forward"
        assert_units(look, f"encoder {kind} network", recurrence(record))
    (record,) = seen.writing.gate_records
    assert_units(look, "decoder network", recurrence(record))
    assert look.maps[-1].key.labels == ("3", "1", "4", "end")


def test_units_of_a_language_model_and_every_form_of_them(folder):
    run = random_run(write_texts(folder), "rnn")
    shown = run.look("I love", length=4, units=[*range(24)])
    ids = [run.tokenizer.special.end, *run.tokenizer.encode("I love").ids]
    ids += run.predict("I love", length=4).ids
    with torch.no_grad(), trace(run.model) as seen:
        run.model(torch.tensor([ids]))
    for layer, record in enumerate(seen.gate_records):
        assert_units(shown, f"forward network, layer {layer}", recurrence(record))
    assert layer == 1 and [part.label for part in shown.maps[-1].key.parts] == ["prompt", "output"]
    few = run.look("I love", length=4, units=2)
    for a, b in zip(json.loads(few.json())["maps"], few.maps, strict=True):
        assert a["title"] == b.title and tuple(a["query"]["labels"]) == b.query.labels
        assert torch.allclose(torch.tensor(a["weights"]), b.weights, atol=1e-6)
    for drawn in (few.text(), few.html(), few.svg()):  # with all maps, also those of single units
        assert all(one.title in drawn for one in few.maps)


def test_units_that_are_not_there_are_refused(folder):
    task, model = tagger(folder, "rnn")
    for units, message in (
        ("x", r"units is 'x'; give how many to show \(16\), or their numbers from 0 \(3,17; one: 3,\)"),
        (0, "units is 0; give how many"),
        (True, "units is True"),
        ([3, -1], r"units is \[3, -1\]"),
        ([], r"units is \[\]"),
        ("3,10", "no unit 10: the forward network, layer 0 has 10 units, counted from 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            look_at_tags(task, model, TEXT, units=units)
    task, model = tagger(folder, "encoder")
    with pytest.raises(ConfigError, match="no gates to draw: model encoder has no recurrent network"):
        look_at_tags(task, model, TEXT, units=3)


def test_the_command_draws_units_and_rollout(small_run, capsys):
    for words, code, said in (
        (["--units", "3,"], 0, "forward network, layer 0: input gate over the text words"),
        (["--units", "9,"], 2, "no unit 9"),
        (["--units", "2", "--beside", "untrained"], 2, "--beside needs units by their numbers (--units 3,17)"),
        (["--units", "3,", "--beside", "untrained"], 0, "input gate over the text words: minus that of untrained"),
        (["--mechanism", "rollout"], 2, "no rollout: it follows self-attention through the blocks of an encoder"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["look", str(small_run("classification")), "one two", *words])
        out = capsys.readouterr()
        assert (ended.value.code or 0) == code and said in out.out + out.err


def test_what_an_lstmn_read_from_its_tape_and_where_its_cells_came_from(folder):
    run = random_run(write_texts(folder), "lstmn")
    shown, model = run.look("I love", given=True, units=[*range(24)], steps=True), run.model
    ids = [run.tokenizer.special.end, *run.tokenizer.encode("I love").ids]
    xs, score = array(model.embedding.weight)[ids], model.attention.score

    def scored(query, key):
        return float(score.scores(score.project(*tensors([query])), score.prepare(*tensors([key]))))

    def tensors(rows):
        return [torch.tensor(np.array(row)).float().reshape(1, 1, 1, -1) for row in rows]

    with torch.no_grad():
        _, weights = ref.lstmn(xs, 24, scored, *weights_of(model.cell))
    cells, hiddens, rows, shares = [], [], [], np.zeros((len(xs), len(xs)))
    for t, x in enumerate(xs):
        h = sum((weights[t, j] * hiddens[j] for j in range(t)), np.zeros(24))
        c = sum((weights[t, j] * cells[j] for j in range(t)), np.zeros(24))
        gate = ref.lstm_gates(x, h, *weights_of(model.cell))
        state = ref.lstm_step(x, h, c, *weights_of(model.cell))
        for j in range(t):
            shares[t, j] = np.abs(gate["f"] * weights[t, j] * cells[j]).sum()
        shares[t, t] = np.abs(gate["i"] * gate["g"]).sum()
        hiddens.append(state[0])
        cells.append(state[1])
        rows.append({"input gate": gate["i"], "forget gate": gate["f"], "candidate": gate["g"],
                     "output gate": gate["o"], "cell": state[1], "hidden": state[0],
                     "tape hidden": h, "tape cell": c})  # fmt: skip
    assert_units(shown, "forward network", {name: np.stack([row[name] for row in rows]) for name in rows[0]})
    origin = next(one for one in shown.maps if one.mechanism == "tape")
    expected = shares / shares.sum(1, keepdims=True)
    assert_close(origin.weights.double().numpy(), expected, rtol=0, atol=1e-5)
    assert not origin.cells()[0][1] and origin.cells()[1][2] is None and origin.title in shown.text()
    for frame, row in zip(shown.look.decoder, rows[1:], strict=False):
        assert frame.state.shape == row["hidden"].shape
    prompt = run.look("I love", length=2, steps=True).look.encoder
    for frame, row in zip(prompt, rows, strict=True):
        for name in ("tape hidden", "tape cell"):
            assert_close(frame.states[name].double().numpy(), row[name], rtol=0, atol=1e-5)


def rolled(layers):
    """Abnar and Zuidema's product, in NumPy."""
    state = np.eye(len(layers[0]))
    for one in layers:
        state = (one + np.eye(len(one))) / 2 @ state
    return state


def test_rollout_of_a_text_is_the_product_over_the_layers(folder):
    task, model = classifier(folder, "encoder")
    each = look_at_text(task, model, TEXT, choice=Choice(layer="all")).maps
    layers = [one.weights.double().numpy() for one in each if one.mechanism == "encoder"]
    look = look_at_text(task, model, TEXT, choice=Choice(layer="all", rollout=True))
    assert len(layers) == len(look.maps) == 2
    for depth, one in enumerate(look.maps):
        assert_close(one.weights.double().numpy(), rolled(layers[: depth + 1]), rtol=0, atol=1e-6)
        assert one.mechanism == "rollout" and one.is_distribution and one.key.labels == each[0].key.labels
    assert [one.title for one in look.maps] == ["attention rollout, layer 0", "attention rollout, layers 0 to 1"]
    shown = ShownLook(look, steps=True)
    assert all(look.maps[1].title in drawn for drawn in (shown.text(), shown.html(), shown.svg()))


def test_rollout_of_an_encoder_that_a_decoder_reads():
    task, model = translator("transformer")
    each = look_at(task, model, "31415", target="314", choice=Choice("encoder", "all"))
    (one,) = look_at(task, model, "31415", target="314", choice=Choice(rollout=True)).maps
    assert_close(
        one.weights.double().numpy(), rolled([m.weights.double().numpy() for m in each.maps]), rtol=0, atol=1e-6
    )


def test_rollout_is_refused_where_it_means_nothing(folder):
    file = write_texts(folder)
    for model, message in (
        ("gpt", "this model has decoder attention, under whose causal mask the first tokens would gain weight"),
        ("lstmn", "has self attention; where words also mix through recurrent states, shares cannot be followed"),
        ("rnn", "this model has no attention$"),
    ):
        with pytest.raises(ConfigError, match=message):
            random_run(file, model).look("I love", mechanism="rollout")
    task, model = classifier(folder, "encoder")
    with pytest.raises(ConfigError, match="rollout takes the mean of the heads of each layer; leave out --head 1"):
        look_at_text(task, model, TEXT, choice=Choice(head=1, rollout=True))


def test_words_of_sentences_are_shaded_by_the_root_of_the_product_with_a_bar_and_a_table(folder):
    task, model = classifier(folder, "han")
    look = look_at_text(task, model, TEXT)
    words, sentences = look.shadings[:2]
    seen = read(task, model, TEXT)
    inside, over = seen.maps("words").weights[:, 0, 0], seen.maps("sentences").weights[0, 0, 0]
    parts = words.axis.parts
    assert words.nested and [part.label for part in parts] == ["sentence 1", "sentence 2"]
    assert [words.part_sum(part) for part in parts] == pytest.approx(over[:2].tolist(), abs=1e-6)
    assert sentences.weights == pytest.approx([words.part_sum(part) for part in parts], abs=1e-6)
    for n, part in enumerate(parts):
        for i in range(part.start, part.stop):
            product = float(over[n] * inside[n, i - part.start])
            assert words.weights[i] == pytest.approx(product, abs=1e-6)
            darkest = max(4 / len(words.axis), max(words.weights))  # four times an even share, or the largest
            assert words.level(i) == pytest.approx(np.sqrt(product / darkest), abs=1e-4)
    shown, first = ShownLook(look, steps=False), parts[0]
    row = f"{words.part_sum(first):.3f}", f"{words.weights[0] / words.part_sum(first):.3f}", f"{words.weights[0]:.3f}"
    page = shown.html()
    assert all(f"<td>{number}</td>" in page for number in row) and page.count('class="meter"') == 2
    assert " \u00d7 ".join(row[:2]) + f" = {row[2]}" in shown.svg()
    (line,) = [line for line in shown.text().splitlines() if f"{words.axis.labels[0]} (sentence 1)" in line]
    assert line.split()[-3:] == [*row]
    assert "█" * round(10 * words.part_sum(first)) + "  sentence 1" in shown.text()
    assert json.loads(shown.json())["shadings"][0]["nested"] is True
