"""Edits as data: from Python, JSON and files; what each does to weights; what is refused."""

import json

import pytest
import torch

import heed
from commands import call
from heed.errors import ConfigError
from heed.show.draw_svg import map_scene
from heed.show.scene import to_svg
from heed.show.shown import map_to_text
from heed.watch import palette
from heed.watch.edits import EDITS, edit_of, edits_of
from heed.watch.maps import Axis, Map

WEIGHTS = torch.tensor([[[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]]])  # (1 row, 1 head, 2 queries, 3 keys)
POSITIONS = torch.tensor([[0, 1]])


def changed(**data):
    return edit_of(data)(WEIGHTS, None, POSITIONS)[0, 0]


def test_each_edit_changes_the_weights_as_it_says():
    torch.testing.assert_close(changed(edit="keep"), WEIGHTS[0, 0])
    torch.testing.assert_close(changed(edit="zero"), torch.zeros(2, 3))
    torch.testing.assert_close(changed(edit="scale", factor=0.5), 0.5 * WEIGHTS[0, 0])
    torch.testing.assert_close(changed(edit="uniform", rows=[1])[0], WEIGHTS[0, 0, 0])
    torch.testing.assert_close(changed(edit="uniform", rows=[1])[1], torch.full((3,), 1 / 3))
    torch.testing.assert_close(changed(edit="block", keys=[0])[0], torch.tensor([0.0, 0.6, 0.4]))
    torch.testing.assert_close(changed(edit="set", keys=[0], weight=0.9)[0], torch.tensor([0.9, 0.06, 0.04]))
    torch.testing.assert_close(changed(edit="set", keys=[0, 1], weight=0.4)[0], torch.tensor([0.25, 0.15, 0.6]))
    torch.testing.assert_close(changed(edit="set", rows=[1], keys=[0], weight=1)[0], WEIGHTS[0, 0, 0])
    torch.testing.assert_close(changed(edit="force", position=1, weights=[1, 0, 0])[1], torch.tensor([1.0, 0.0, 0.0]))


def test_a_permutation_stays_within_the_allowed_keys():
    torch.manual_seed(1)
    weights, places = torch.rand(2, 3, 5, 5).tril(), torch.arange(5).expand(2, 5)
    allowed = torch.ones(5, 5, dtype=torch.bool).tril().expand(2, 1, 5, 5)
    edit = edit_of({"edit": "permute", "seed": 3})
    whole = edit(weights, allowed, places)
    assert torch.equal(whole.triu(1), torch.zeros_like(whole)) and not torch.equal(whole, weights)
    torch.testing.assert_close(whole.sort(-1).values, weights.sort(-1).values)
    assert not torch.equal(edit_of({"edit": "permute", "seed": 4})(weights, allowed, places), whole)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"edit": "unifrom"}, "an edit has edit 'unifrom'; did you mean 'uniform'?"),
        (
            {"mechanism": "cross"},
            "an edit has no field 'edit', but 'mechanism'; valid: block, force, keep, permute, scale, set, uniform, "
            "zero",
        ),
        ({"edit": "zero", "heads": 1}, "an edit: 'zero' has no field 'heads'; did you mean 'head'?"),
        ({"edit": "zero", "head": "1"}, "an edit: 'head' is '1', expected a whole number"),
        ({"edit": "uniform", "rows": 2}, "an edit: 'rows' is 2, expected a list of whole numbers"),
        ({"edit": "scale", "factor": float("nan")}, "an edit: 'factor' is nan, expected a number"),
        ({"edit": "force", "weights": [True]}, "an edit: 'weights' is (True,), expected a list of numbers"),
        ({"edit": "uniform", "mechanism": 3}, "an edit: 'mechanism' is 3, expected a name"),
    ],
)
def test_wrong_data_is_named(data, message):
    with pytest.raises(ConfigError) as refused:
        edit_of(data)
    assert str(refused.value) == message


def test_texts_are_json_or_files_with_it(tmp_path):
    path = tmp_path / "edits.json"
    path.write_text(json.dumps([{"edit": "zero", "head": 0}, {"edit": "block", "keys": [0]}]))
    assert edits_of([str(path), '{"edit": "keep"}', EDITS["uniform"]("cross")]) == [
        EDITS["zero"](head=0),
        EDITS["block"](keys=(0,)),
        EDITS["keep"](),
        EDITS["uniform"]("cross"),
    ]
    with pytest.raises(ConfigError, match="an edit is not JSON: "):
        edits_of(['{"edit": '])
    with pytest.raises(ConfigError, match="an edit is 3, expected an object"):
        edits_of(["[3]"])
    with pytest.raises(ConfigError, match=r"none\.json' is neither an edit in JSON nor a file with one"):
        edits_of([str(tmp_path / "none.json")])


@pytest.fixture(scope="module")
def run(small_run):
    return heed.load(small_run("translation"))


def test_the_same_edit_acts_from_python_json_and_the_command_line(run, capsys, tmp_path):
    plain = run.look("one two").look
    edit = {"edit": "block", "mechanism": "cross", "keys": [0]}
    shown = run.look("one two", edits=[edit]).look
    (before,), (after,) = ([one for one in look.maps if one.mechanism == "cross"] for look in (plain, shown))
    assert float(before.weights[0, 0]) > 0.01 and float(after.weights[0, 0]) == 0.0
    assert any(note.startswith(f"without the edits: {plain.target}") for note in shown.notes)
    path = tmp_path / "edit.json"
    path.write_text(json.dumps(edit))
    for given in (json.dumps(edit), str(path)):
        code, out, err = call(capsys, "look", run.folder, "one two", "--edit", given, "--as", "json")
        assert code == 0, err
        (again,) = [one for one in json.loads(out)["maps"] if one["mechanism"] == "cross"]
        torch.testing.assert_close(torch.tensor(again["weights"]), after.weights.float(), atol=1e-6, rtol=0)
    with heed.edit(run, edit):
        assert run.predict("one two").log_prob != pytest.approx(plain.decoder[0].top[0][1])
    with heed.edit(run, heed.Keep()), heed.trace(run) as seen:
        run.predict("one two")
    assert seen.mechanisms()


def test_an_edited_look_shows_what_the_edits_change(run, capsys, tmp_path):
    edit = {"edit": "block", "mechanism": "cross", "keys": [0]}
    plain, shown = run.look("one two").look, run.look("one two", edits=[edit]).look
    same = run.look("one two", target=shown.target).look  # the unedited model reads the same output
    (changed,) = shown.differences
    after, before = (next(one for one in look.maps if one.mechanism == "cross") for look in (shown, same))
    torch.testing.assert_close(changed.weights, after.weights - before.weights)
    assert not plain.differences and float(changed.weights[:, 0].max()) < 0
    steps = shown.shadings[-1]
    assert len(steps.axis) == len(shown.decoder) and steps.weights[0] == shown.decoder[0].top[0][1]
    assert all(f"without: {one.top[0][0]}" in text for one, text in zip(same.decoder, steps.others, strict=True))
    for ending in ("html", "svg", "png", "json", "txt"):
        out = tmp_path / f"look.{ending}"
        code, _, err = call(capsys, "look", run.folder, "one two", "--edit", json.dumps(edit), "--out", out)
        assert code == 0, err
        text = out.read_bytes().decode(errors="replace")
        assert ending == "png" or "with the edits" in text
    stored = json.loads((tmp_path / "look.json").read_text())
    assert stored["beside"][0]["difference"]["weights"][0][0] == pytest.approx(float(changed.weights[0, 0]), abs=1e-6)
    number = f"{float(changed.weights[0, 0]):+.2f}"
    assert number in (tmp_path / "look.txt").read_text() and f">{number}<" in (tmp_path / "look.svg").read_text()


def test_signed_maps_are_drawn_on_two_ramps_that_meet_at_0(run):
    axis = Axis("source", "word", ("a", "b", "c"))
    one = Map(
        "cross",
        0,
        None,
        axis,
        axis,
        torch.tensor([[-1.0, 0.0, 1.0]] * 3),
        name="difference",
        unit="difference",
        signed=True,
    )
    assert one.color(0.0) == palette.UP_LIGHT[0] and one.css(0.0) == "a0"
    assert (one.color(-1.0), one.color(1.0)) == (palette.DOWN_LIGHT[-1], palette.UP_LIGHT[-1])
    drawn = to_svg(map_scene(one))
    assert palette.DOWN_LIGHT[-1] in drawn and ">-1.00<" in drawn and ">+1.00<" in drawn
    assert ">-1</text>" in drawn and ">1</text>" in drawn  # the ends of the scale
    assert "█-1.00" in map_to_text(one) and "█+1.00" in map_to_text(one)


def test_a_weight_is_set_among_the_keys_that_may_be_attended_to():
    weights, places = torch.tensor([[[[1.0, 0.0, 0.0], [0.6, 0.4, 0.0]]]]), torch.tensor([[0, 1]])
    allowed = torch.ones(2, 3, dtype=torch.bool).tril()[None, None]
    made = edit_of({"edit": "set", "keys": [1, 2], "weight": 0.75})(weights, allowed, places)[0, 0]
    torch.testing.assert_close(made, torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]]))
    with pytest.raises(ConfigError, match=r"'weight' is 1\.5, expected 0 to 1"):
        edit_of({"edit": "set", "keys": [1], "weight": 1.5})(weights, allowed, places)


@pytest.mark.parametrize("name", ["translation", "language_modelling", "classification"])
def test_a_cell_gets_the_weight_that_its_edit_sets_in_steps_too(name, untrained):
    model = {"translation": "transformer", "language_modelling": "gpt", "classification": "encoder"}[name]
    run = untrained(name, model)
    text = "one two three"
    options = {"target": "ONE TWO"} if name == "translation" else {}
    look = run.look(text, layer=0, head=0, **options)
    for index, one in enumerate(look.maps):
        row, column = len(one.query) - 1, 1
        edit = look.setting(row, column, 0.8, map=index)
        edited = run.look(text, layer=0, head=0, edits=[edit], **options)
        assert edited.maps[index].weights[row, column] == pytest.approx(0.8, abs=1e-6)
        assert edited.maps[index].weights[row].sum() == pytest.approx(1, abs=1e-6)
        torch.testing.assert_close(edited.maps[index].weights[: row - 1], one.weights[: row - 1])
    for keys in ([99], []):
        with pytest.raises(ConfigError, match=r"changed nothing: queries were at positions 0 to .*, with .* keys"):
            run.look(text, edits=[{"edit": "set", "keys": keys, "weight": 1}], **options)
    with pytest.raises(ConfigError, match="no map 7: this look has"):
        look.setting(0, 0, 0.5, map=7)
