"""Looks beside another network: the same text and output, both maps, their difference and what it says."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed.errors import ConfigError
from heed.show.overview import groups
from heed.show.shown import ShownLook
from heed.tasks import MissingCapabilityError
from heed.watch.looks import Look, compare_looks
from heed.watch.maps import Axis, Map, common_units
from heed.watch.remarks import SAME, remarks
from small_runs import SMALL

TEXT = "one two three"
MODELS = [
    ("translation", "transformer"),
    ("translation", "luong"),
    ("summarisation", "bahdanau"),
    ("dialogue", "hred"),
    ("language_modelling", "gpt"),
    ("pretraining", "bert"),
    ("classification", "encoder"),
    ("classification", "rnn"),
    ("classification", "han"),
    ("tagging", "encoder"),
]


@pytest.fixture(scope="module")
def drawn(data):
    """Runs of each task with weights of their own."""

    def make(task, model, seed=7, **head):
        run = SMALL[task].untrained(data, data / f"{model}-{seed}", model, head)
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in run.model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        return run

    return make


def test_the_same_network_twice_is_refused(drawn):
    run = drawn("classification", "rnn")
    with pytest.raises(ConfigError, match="--beside untrained is given twice: leave out one"):
        run.look(TEXT, beside=["untrained", "step-3", "untrained"])
    with pytest.raises(ConfigError, match=re.escape(f"--beside {run.folder} is given twice: leave out one")):
        run.look(TEXT, beside=[run, run])


def by_hand(a, b):
    """Agreement and distance of two maps `(query, key)` of rows that may attend to several keys."""
    rows = [i for i in range(len(a)) if np.count_nonzero(a[i]) > 1]
    same = [np.argmax(a[i]) == np.argmax(b[i]) for i in rows]
    return np.mean(same), np.mean([np.abs(a[i] - b[i]).sum() / 2 for i in rows])


@pytest.mark.parametrize(("task", "model"), MODELS)
def test_every_map_stands_beside_that_of_the_untrained_network(drawn, task, model):
    run = drawn(task, model)
    shown = run.look(TEXT, beside="untrained", layer="all", head="all")
    torch.manual_seed(run.config.training.seed)
    twin = type(run)(run.folder, run.config, run.task, run.task.build_model(), {})
    output = {} if shown.look.output is None else {"target": shown.look.output}
    other, own = (one.look(TEXT, layer="all", head="all", **output) for one in (twin, run))
    assert [one.first for one in shown.beside] == [*range(len(shown.maps))] and shown.beside
    for one, its in zip(own.maps, shown.maps, strict=False):
        assert torch.equal(one.weights, its.weights)
    for one, theirs in zip(shown.beside, other.maps, strict=False):  # a shading is a map here, not there
        assert torch.equal(one.map.weights, theirs.weights) and (one.map.query, one.map.key) == (
            theirs.query,
            theirs.key,
        )
    for one, mine in zip(shown.beside, shown.maps, strict=True):
        a, b = (map.weights.double().numpy() for map in (mine, one.map))
        assert np.array_equal(one.difference.weights.numpy(), (mine.weights - one.map.weights).numpy())
        if mine.is_distribution and one.difference.distance is not None:
            agreement, distance = by_hand(a, b)
            assert one.difference.agreement == pytest.approx(agreement)
            assert one.difference.distance == pytest.approx(distance, abs=1e-6) == mine.untrained
            assert f"Agreement: {agreement:.2f}" in one.difference.caption
    assert any(
        note.startswith("beside it: an untrained network of seed 1, with its own output") for note in shown.look.notes
    )


def test_shaded_attention_is_compared_as_a_map_of_one_row(drawn):
    run = drawn("classification", "rnn")
    shown = run.look(TEXT, beside="untrained")
    (shading, *_), (row,) = shown.look.shadings, shown.maps
    assert row.mechanism == "pooling" and row.weights[0].tolist() == pytest.approx(shading.weights)
    assert not run.look(TEXT).maps and shown.number(0, 1).weight == pytest.approx(shading.weights[1])


def axis(*labels, kind="word"):
    return Axis("text", kind, labels)


def test_words_and_characters_meet_in_words():
    words, letters = axis("The", "?dog", "."), axis(*"the dog.", kind="character")
    assert common_units(words, letters) == ([range(1), range(1, 2), range(2, 3)], [range(4), range(4, 7), range(7, 8)])
    pieces = axis("th", "##e", "do", "##g", ".", kind="token")
    assert common_units(letters, pieces)[1] == [range(i, i + 1) for i in range(5)]
    assert common_units(pieces, words)[0] == [range(2), range(2, 4), range(4, 5)]
    assert common_units(words, axis("The", "cat", ".")) is None
    blank = axis(*"a b", kind="character")
    assert common_units(blank, blank) == ([range(1), range(1, 2), range(2, 3)],) * 2


def made(query, key, seed=0, **fields):
    weights = torch.randn(len(query), len(key), generator=torch.Generator().manual_seed(seed)).mul(2).softmax(-1)
    return Map(**{"mechanism": "encoder", "layer": 0, "head": None, **fields}, query=query, key=key, weights=weights)


def look(*maps):
    return Look("a title", "a source", "a label", maps, (), ())


def test_maps_of_other_tokens_are_subtracted_on_words():
    words, letters = axis("ab", "c"), axis(*"ab c", kind="character")
    one, other = made(words, words), made(letters, letters, 1)
    (found,) = compare_looks(look(one), look(other), "it").beside
    w = other.weights.numpy()
    by_word = np.stack([w[:3].mean(0), w[3]])
    expected = one.weights.numpy() - np.stack([by_word[:, :3].sum(1), by_word[:, 3]], 1)
    assert np.allclose(found.difference.weights.numpy(), expected, atol=1e-6)
    assert found.map.key == letters and found.difference.key.labels == ("ab", "c")
    assert "averaged over those of the attending word" in found.difference.caption
    other_way = compare_looks(look(other), look(one), "it").beside[0].difference
    assert np.allclose(other_way.weights.numpy(), -expected, atol=1e-6)


def test_what_does_not_match_is_drawn_and_explained():
    words, others = axis("ab", "c"), axis("ab", "d")
    shown = ShownLook(compare_looks(look(made(words, words, layer=3)), look(made(words, others, 1)), "it"), False)
    (found,) = shown.beside
    assert found.difference is None
    notes = "\n".join(shown.look.notes)
    assert "matched by position: encoder attention, layer 3, and encoder attention, layer 0 of it" in notes
    assert "nothing is subtracted: the columns are different texts, 'ab c' and 'ab d'" in notes
    assert "encoder attention, layer 0, of it" in shown.text() and "minus" not in shown.text()
    far = compare_looks(look(made(words, words)), look(made(words, words, mechanism="pooling")), "it")
    assert not far.beside and far.notes == (
        "encoder attention, layer 0: it has no such map",
        "pooling attention, layer 0: only it has it",
    )
    gates = [
        Map("forward", 0, None, axis("reset", "update"), words, torch.full((2, 2), v), unit="value")
        for v in (0.75, 0.5)
    ]
    (found,) = compare_looks(look(gates[0]), look(gates[1]), "it").beside
    assert found.difference.weights.tolist() == [[0.25] * 2] * 2 and found.difference.agreement is None


def test_a_remark_and_the_order_say_how_far_a_map_is_from_the_untrained_one():
    words = axis("a", "b", "c", "d")
    maps = [made(words, words, seed, head=seed) for seed in range(3)]
    mixed = [replace(one, weights=(1 - far) * one.weights + far * maps[0].weights.roll(1, 1))
             for one, far in zip(maps, (0.02, 0.9, 0.5), strict=True)]  # fmt: skip
    found = compare_looks(look(*maps), look(*mixed), "untrained", untrained=True)
    distances = [float((a.weights - b.weights).abs().sum(1).mean() / 2) for a, b in zip(maps, mixed, strict=True)]
    assert [one.untrained for one in found.maps] == pytest.approx(distances)
    assert distances[0] <= SAME < min(distances[1:])
    kinds = [[remark.kind for remark in remarks(one)] for one in found.maps]
    assert kinds[0][0] == "same as untrained" and "same as untrained" not in kinds[1] + kinds[2]
    assert remarks(found.maps[0])[0].value == found.maps[0].untrained
    (rows,) = groups(found.maps, "untrained").values()
    assert [one.index for row in rows for one in row] == sorted(range(3), key=lambda i: -distances[i])
    shown = ShownLook(found, False, True, "untrained")
    assert "largest distance from the untrained network first" in " ".join(shown.text().split())
    assert f"Δ{max(distances):.2f}"[1:].lstrip("0") in shown.text() and "Δ" in shown.svg()
    page = shown.html()
    assert [float(one) for one in re.findall(r'data-untrained="([-.\d]+)"', page)][:3] == pytest.approx(
        sorted(-d for d in distances), abs=1e-4
    )


def test_all_forms_have_both_maps_and_the_difference(drawn):
    shown = drawn("translation", "luong").look(TEXT, beside="untrained")
    (one,) = shown.beside
    titles = [shown.maps[0].title, one.map.title, one.difference.title]
    assert titles[1:] == [f"{titles[0]}, of untrained", f"{titles[0]}: minus that of untrained"]
    svg = shown.svg()
    assert svg.count('width="160" height="10" preserveAspectRatio') == 3
    for text in (shown.text(), svg, shown.html()):
        places = [text.rindex(title) for title in titles[1:]]
        assert places == sorted(places) and "Agreement: " in text
    stored = json.loads(shown.json())["beside"][0]
    assert stored["first"] == 0 and stored["map"]["of"] == "untrained"
    assert stored["difference"]["agreement"] == pytest.approx(one.difference.agreement, abs=1e-6)
    assert json.loads(shown.json())["maps"][0]["untrained"] == pytest.approx(shown.maps[0].untrained, abs=1e-6)


def test_maps_of_several_networks_stand_in_a_row_without_differences(drawn):
    run, other = (drawn("translation", "luong", seed=seed) for seed in (7, 8))
    shown = run.look(TEXT, beside=["untrained", other])
    alone = [run.look(TEXT, beside=one).beside[0].map.weights for one in ("untrained", other)]
    (row,) = shown.look.together
    assert torch.equal(row[0].weights, run.look(TEXT).maps[0].weights) and not shown.look.differences
    assert [torch.equal(a.weights, b) for a, b in zip(row[1:], alone, strict=True)] == [True, True]
    page = shown.html()
    assert page.index(">this run<") < page.index(">untrained<") < page.index(f">{other.folder.name}<")


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    out, small = tmp_path_factory.mktemp("runs") / "run", SMALL["translation"]
    replace(small, settings=small.settings | {"training.snapshots": [0.5]}).trained(data, out)
    return out


def test_the_command_takes_words_steps_and_runs(trained, small_run, capsys):
    other = small_run("translation", seed=2)
    for beside, name in (
        ("untrained", "untrained"),
        ("twin", "untrained"),
        ("step-1", "step-1"),
        (other, other.name),
    ):
        code, out, err = call(capsys, "look", trained, TEXT, "--beside", beside)
        assert code == 0, err
        assert f"minus that of {name}" in out and "Distance: " in out
    run, step = heed.load(trained), heed.load(trained, step=1)
    (one,) = run.look(TEXT, beside="step-1").beside
    target = run.predict(TEXT)
    assert torch.equal(one.map.weights, step.look(TEXT, target=target).maps[0].weights)
    again = run.look(TEXT, beside=heed.load(other)).beside[0].difference
    assert again.distance > 0
    for output, said in (([], True), (["--target", "ONE"], False)):
        _, out, _ = call(capsys, "look", trained, TEXT, "--beside", "step-1", *output)
        (note,) = re.findall("beside it: the weights of update 1.*", out)
        assert ("with its own output" in note) == said and "log-probability" in note
    code, out, _ = call(capsys, "look", trained, TEXT, "--sort", "untrained", "--as", "json")
    assert code == 0 and json.loads(out)["beside"] and json.loads(out)["sort"] == "untrained"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--beside", "step-9"], "no weights of step-9; there are step-1, step-2"),
        (["--beside", "untrian"], "unknown --beside 'untrian'; give untrained, step-N or another run"),
        (["--beside", "untrained", "--edit", '{"edit": "uniform"}'], "--beside and --edit each show a difference"),
        (["--sort", "untrianed"], "valid: entropy, untrained"),
        (["--sort", "untrained", "--beside", "step-1"], "--sort untrained compares with the untrained network"),
        (["--sort", "untrained", "--edit", '{"edit": "keep"}'], "--sort untrained and --edit each show a difference"),
    ],
)
def test_what_cannot_be_shown_is_refused(trained, capsys, options, said):
    code, _, err = call(capsys, "look", trained, TEXT, *options)
    assert code != 0 and said in " ".join(err.split())


def test_a_model_without_attention_and_a_run_of_another_task_are_refused(drawn):
    run, without = drawn("translation", "luong"), drawn("translation", "seq2seq")
    for one, other, name in ((without, "untrained", "this look"), (run, without, "seq2seq-7")):
        with pytest.raises(ConfigError, match=f"--beside compares attention maps, and {name} has none"):
            one.look(TEXT, beside=other)
    with pytest.raises(ConfigError, match="only runs of one task can be looked at beside each other"):
        run.look(TEXT, beside=drawn("tagging", "encoder"))
    with pytest.raises(ConfigError, match="unknown --beside '7'; give untrained"):
        run.look(TEXT, beside=7)
    with pytest.raises(MissingCapabilityError, match="`look` is not available for an ensemble"):
        run.look(TEXT, beside=heed.ensemble([run, run]))
    with pytest.raises(ConfigError, match="--beside luong-8: no 'encoder' attention"):
        drawn("translation", "transformer").look(TEXT, beside=drawn("translation", "luong", 8), mechanism="encoder")


@pytest.mark.parametrize("model", ["vit", "cnn"])
def test_a_picture_stands_beside_the_untrained_network_on_one_scale(drawn, model):
    run, picture = drawn("images", model), np.random.default_rng(1).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    own, shown = run.look(picture), run.look(picture, beside="untrained")
    torch.manual_seed(1)
    twin = type(run)(run.folder, run.config, run.task, run.task.build_model(), {})
    label = own.look.label
    others = twin.look(picture, label=label)
    assert [one.title for one in shown.maps[1::3]] == [f"{one.title}, of untrained" for one in others.maps]
    for place, (one, other) in enumerate(zip(own.maps, others.maps, strict=True)):
        mine, theirs, difference = shown.maps[3 * place : 3 * place + 3]
        assert torch.equal(mine.weights, one.weights) and torch.equal(theirs.weights, other.weights)
        assert torch.equal(difference.weights, one.weights - other.weights) and difference.signed
        largest = max(float(one.weights.max()), float(other.weights.max()))
        assert mine.largest == theirs.largest == difference.largest == pytest.approx(largest)
        if one.unit == "weight":
            rows = [np.append(map.weights.numpy(), map.outside) for map in (one, other)]
            assert f"Distance: {np.abs(rows[0] - rows[1]).sum() / 2:.2f}" in difference.caption
    assert any(note.startswith("beside it: an untrained network of seed 1: ") for note in shown.look.notes)
    with pytest.raises(ConfigError, match="2 pictures were given; give exactly one"):
        run.look([picture, picture], beside="untrained")
    with pytest.raises(ConfigError, match="of a picture it is --map rollout"):
        run.look(picture, mechanism="rollout")


def test_an_edited_picture_shows_what_the_edit_changes(drawn):
    run, picture = drawn("images", "vit"), np.random.default_rng(1).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    edit = {"edit": "uniform", "mechanism": "encoder"}
    plain, shown = run.look(picture, map="attention"), run.look(picture, map="attention", edits=[edit])
    edited, difference = shown.maps
    assert float(edited.weights.max() - edited.weights.min()) < 1e-6
    assert torch.allclose(difference.weights, edited.weights - plain.maps[0].weights)
    assert difference.title.endswith("with the edits minus without")
    assert f"without the edits: {plain.look.prediction}" in shown.look.notes
