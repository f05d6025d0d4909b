"""Looking at a dialogue: turns and the words inside them, step by step, for models that read turns and joined texts."""

import json

import pytest
import torch

import heed
from example_data import section
from heed.cli import main
from heed.errors import ConfigError, DataError
from heed.tasks.inputs.turns import History
from heed.watch.edits import Force, Uniform

TURNS = ["Hello, I would like to book a table for four.", "Of course. For which day?", "On Zonday, please."]
NAMES = ("1 guest", "2 host", "3 guest")
ANSWER = "At what time?"
_HRED = {f"model.{width}": 8 for width in ("d_embedding", "d_hidden", "d_context", "d_attention")}
_WORDS, _TURNS = "model.word_attention", "model.turn_attention"
MODELS = {
    "both": ("hred", {**_HRED, _WORDS: True, _TURNS: True}),
    "turns": ("hred", {**_HRED, _WORDS: False, _TURNS: True, "model.num_layers": 2}),
    "words": ("hred", {**_HRED, _WORDS: True, _TURNS: False, "model.bidirectional": False}),
    "neither": ("hred", {**_HRED, _WORDS: False, _TURNS: False, "model.cell": "lstm"}),
    "joined": ("bahdanau", {"model.d_embedding": 8, "model.d_hidden": 8, "model.d_attention": 8}),
    "cut": ("luong", {"model.d_embedding": 8, "model.d_hidden": 8, "data.history": 2}),
    "transformer": (
        "transformer",
        {"model.d_model": 8, "model.num_heads": 2, "model.d_ff": 8, "tokenizer.kind": "char", "data.max_turn": 30},
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs by name, made when they are first asked for; their weights are large, so that no map is uniform."""
    made = {}

    def run(name):
        if name not in made:
            model, settings = MODELS[name]
            data = {"data.respond": "host", "tokenizer.kind": "word", "evaluation.bootstrap": 2}
            folder = tmp_path_factory.mktemp(name) / "run"
            one = dict(**section("bookings", 20, 2, 2), model=model, steps=1, out=folder, quiet=True)
            made[name] = heed.train("dialogue", **one, settings={**data, **settings, "generation.max_length": 5})
            with torch.no_grad():
                for parameter in made[name].model.parameters():
                    parameter.mul_(4)
        return made[name]

    return run


def one_of(look, mechanism):
    (found,) = [one for one in look.maps if one.mechanism == mechanism]
    return found


def parts_of(axis):
    return [(part.label, axis.labels[part.start : part.stop]) for part in axis.parts]


def test_turns_and_the_words_inside_them_share_the_weights(runs):
    look = runs("both").look(TURNS, target=ANSWER).look
    turns, words = one_of(look, "turns"), one_of(look, "words")
    assert turns.key.labels == NAMES and turns.query.labels == ("At", "what", "time", "?", "end")
    assert parts_of(words.key)[1:] == [
        ("2 host", ("Of", "course", ".", "For", "which", "day", "?")),
        ("3 guest", ("On", "?Zonday", ",", "please", ".")),
    ]
    inside = torch.stack([words.weights[:, part.start : part.stop].sum(1) for part in words.key.parts], dim=1)
    assert torch.allclose(inside, turns.weights, atol=1e-6)
    assert turns.weights.std() > 0.01 and words.scores is None
    (shading,) = look.shadings
    means = turns.weights.mean(0).tolist()
    assert [shading.part_sum(part) for part in shading.axis.parts] == pytest.approx(means, abs=1e-6)
    assert "never seen in training: Zonday; read as the unknown token, marked ?" in look.notes


@pytest.mark.parametrize("name", ["both", "words", "neither"])
def test_a_step_for_each_turn_shows_what_the_model_held(runs, name):
    """The states of a turn are those that the turn has alone, whatever is read with it."""
    run = runs(name)
    look = run.look(TURNS, target=ANSWER).look
    assert [frame.token.split(":")[0] for frame in look.encoder] == list(NAMES)
    assert look.encoder[1].token == "2 host: Of course . For which day ?"
    model, history = run.model, run.input.encode([run.input.conversation(TURNS)]).conversations[0]
    with torch.no_grad():
        memory = run.input.memory(model, [History(history, 0)], torch.device("cpu"))
        for n, (frame, turn) in enumerate(zip(look.encoder, history, strict=True)):
            embedded = model.embedding(torch.tensor([turn.ids]))
            alone, finals = model.words(embedded, torch.ones(1, len(turn.ids)).bool())
            vector = torch.cat([final[0] for final in finals[-1]], dim=-1)[0]
            assert torch.allclose(frame.states["turn"], vector, atol=1e-5)
            assert len(frame.states) == len(turn.ids) + 2
            for state, expected in zip(frame.states.values(), alone[0], strict=False):
                assert torch.allclose(state, expected, atol=1e-5)
            assert torch.allclose(frame.states["dialogue"], memory.states[0, n], atol=1e-5)
    assert list(look.encoder[0].states)[:2] == ["1 Hello", "2 ,"]


@pytest.mark.parametrize(("name", "layers"), [("joined", 1), ("transformer", 3)])
def test_a_joined_history_is_shown_by_turns_too(runs, name, layers):
    look = runs(name).look(TURNS, target=ANSWER).look
    cross = one_of(look, "cross")
    labels = parts_of(cross.key)
    assert [label for label, _ in labels] == list(NAMES)
    assert [words[0] for _, words in labels] == ["<guest>", "<host>", "<guest>"]
    assert torch.allclose(cross.weights.sum(1), torch.ones(len(cross.query)), atol=1e-5)
    (shading,) = look.shadings
    assert sum(shading.part_sum(part) for part in shading.axis.parts) == pytest.approx(1)
    assert len(look.maps) == layers and look.encoder[0].token == "<guest>  (1 guest)"
    assert look.encoder[-1].token.endswith("(3 guest)")


def test_turns_that_are_not_read_are_counted_and_keep_their_numbers(runs):
    look = runs("cut").look(TURNS, target=ANSWER).look
    assert "the first of 3 turns is not read (data.history 2, data.max_length 250)" in look.notes
    assert [part.label for part in one_of(look, "cross").key.parts] == ["2 host", "3 guest"]
    assert look.source.startswith("guest: Hello, I would")  # what was said is shown whole
    long = runs("transformer").look(TURNS, target=ANSWER).look
    assert "1 turn read only up to token 30 (data.max_turn)" in long.notes
    assert len(parts_of(one_of(long, "cross").key)[0][1]) == 31


@pytest.mark.parametrize("name", ["both", "joined"])
def test_a_given_response_has_its_probability(runs, name):
    run = runs(name)
    spoken = [{"speaker": who, "text": text} for who, text in zip(("guest", "host") * 2, [*TURNS, ANSWER], strict=True)]
    talk = run.input.encode([run.input.conversation({"turns": spoken})])
    nll = run.task.judged(run.model, talk)[-1, 0]
    note = run.look({"turns": spoken[:3]}, target=ANSWER).look.notes[0]
    assert note.startswith("response: given, not generated by the model; probability ")
    assert float(note.rsplit(" ", 1)[1]) == pytest.approx(-nll, rel=1e-3)


def test_the_response_is_the_one_that_the_model_writes(runs):
    run = runs("both")
    look = run.look(TURNS).look
    assert look.target == f"host: {run.predict(TURNS).text}"
    assert run.look(TURNS, speaker="guest").look.target.startswith("guest: ")
    with pytest.raises(ConfigError, match=r"speaker is .ghost., but .* guest, host; did you mean"):
        run.look(TURNS, speaker="ghost")
    with pytest.raises(ConfigError, match="no 'cross' attention: this model has turns, words attention"):
        run.look(TURNS, mechanism="cross")
    with pytest.raises(DataError, match="the conversation has no turns; give at least one"):
        run.look([])


def test_edits_of_turns_reach_the_words_inside_them(runs):
    run = runs("both")
    forced = Force(mechanism="turns", position=1, weights=[1.0, 0.0, 0.0])
    look = run.look(TURNS, target=ANSWER, edits=[forced]).look
    words = one_of(look, "words")
    first = words.key.parts[0]
    assert words.weights[1, : first.stop].sum() == pytest.approx(1) and words.weights[1, first.stop :].max() < 1e-30
    assert words.weights[0, first.stop :].sum() > 0.01
    even = run.look(TURNS, target=ANSWER, edits=[Uniform(mechanism="turns")]).look
    assert torch.allclose(one_of(even, "turns").weights, torch.full((5, 3), 1 / 3))
    assert any(note.startswith("edited: ") for note in even.notes)


def test_every_form_shows_turns_as_lines(runs, tmp_path):
    shown = runs("both").look(TURNS, target=ANSWER, steps=True)
    text = shown.text(80)
    lines = text.splitlines()
    assert lines[1:5] == [
        "conversation guest: Hello, I would like to book a table for four.",
        "             host: Of course. For which day?",
        "             guest: On Zonday, please.",
        "response     host: At what time?",
    ]
    (line,) = [line for line in lines if "2 host  " in line and "course" in line]
    assert line.replace(line[0:5], "", 1).lstrip().startswith("2 host")
    assert "encoder step 3 of 3: reads 3 guest: On ?Zonday , please ." in lines
    page = shown.html()
    assert '<th scope="colgroup" colspan="7" data-begins title="2 host">' in page
    assert page.count("<article") == 3 + 5 and "turn by turn" in page
    for name in ("look.svg", "look.json", "look.html", "look.txt"):
        shown.save(tmp_path / name)
    assert "2 host" in (tmp_path / "look.svg").read_text()
    maps = json.loads((tmp_path / "look.json").read_text())["maps"]
    assert maps[1]["key"]["parts"][1] == {"label": "2 host", "start": 12, "stop": 19}
    assert maps[0]["key"]["parts"] == []


def test_the_command_takes_the_turns(runs, capsys):
    run = runs("both")
    with pytest.raises(SystemExit) as ended:
        main(["look", str(run.folder), *TURNS, "--target", ANSWER, "--speaker", "host", "--mechanism", "turns"])
    out = capsys.readouterr().out
    assert not ended.value.code and "turns attention, layer 0" in out and "words attention" not in out


@pytest.mark.parametrize("name", ["both", "turns", "joined"])
def test_single_units_of_every_network_of_a_conversation(runs, name):
    run = runs(name)
    shown = run.look(TURNS, target=ANSWER, units=[*range(8)])
    units = [one for one in shown.maps if one.query.kind == "unit"]
    hidden = {one.title.split(": ")[0]: one for one in units if ": hidden over" in one.title}
    reads = ["encoder forward network, layer 0", "encoder backward network, layer 0"]
    reads += ["turns network, layer 0"] * (name != "joined") + ["turns network, layer 1"] * (name == "turns")
    assert set(hidden) >= {*reads, "decoder network, layer 0"}
    look, words = shown.look, hidden[reads[0]].key
    assert [part.label for part in words.parts] == list(NAMES) and {len(one.query) for one in units} == {8}
    if name == "both":
        dialogue, ends = hidden["turns network, layer 0"], [part.stop - 1 for part in words.parts]
        for n, (frame, end) in enumerate(zip(look.encoder, ends, strict=True)):
            assert torch.equal(frame.states["dialogue"], dialogue.weights[:, n])
            assert torch.equal(frame.states["turn"][:8], hidden[reads[0]].weights[:, end])
        states = torch.stack([frame.state for frame in look.decoder], dim=1)
        assert torch.equal(states, hidden["decoder network, layer 0"].weights)
        (shading,) = look.shadings
        assert shading.nested and shading.level(0) == pytest.approx((shading.weights[0] / shading.darkest) ** 0.5)
        assert shown.html().count('class="meter"') == 3 and "The numbers as a table" in shown.html()
