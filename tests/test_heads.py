"""Heads: scores without each, choosing among them, overviews, equal weights, and remarks on their maps."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import heed
from commands import call, failing, output_of
from contract import data_of, forced_batch
from heed.config import ModelSection, TokenizerConfig
from heed.data.examples import evenly
from heed.errors import ConfigError
from heed.evaluation.measures import share
from heed.runs.heads import corrected, score_heads
from heed.show.draw_svg import map_scene
from heed.show.overview import overview_scene, overview_to_text, thumbnail
from heed.show.scene import to_svg
from heed.show.shown import ShownLook, map_to_text
from heed.tasks.heads.alignment import aligned_heads
from heed.tasks.translation import TASK, TranslationConfig, TranslationTraining, look_at
from heed.visible import clean, to_json
from heed.watch.interventions import EqualWeights, UniformEffect
from heed.watch.looks import Choice, Look
from heed.watch.maps import Axis, Map
from heed.watch.remarks import entropy, looks_at, remarks
from heed.watch.trace import trace
from small_runs import SMALL, WORDS
from test_draw import look_to_html


@pytest.mark.parametrize(
    ("name", "model", "factor", "mechanisms"),
    [
        ("translation", "luong", 1.0, {"cross"}),
        ("classification", "encoder", 3.0, {"encoder", "pooling"}),  # so that the score changes
        ("images", "vit", 1.0, {"encoder"}),
        ("dialogue", "hred", 1.0, {"turns", "words"}),  # a conversation has several responses
    ],
)
def test_changes_are_those_of_score_and_loss_with_and_without_the_head(name, model, factor, mechanisms, untrained):
    run = untrained(name, model)
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.mul_(factor)
    found = score_heads(run, "valid", 4, say=lambda line: None)
    examples = evenly(run.examples("valid"), 4)
    whole, loss = run.score_and_loss(examples)
    assert len(whole.statistics) == len(loss.statistics) == 4
    assert (found.measure.score(), found.examples) == (whole.score(), 4)
    places = [(one.mechanism, one.layer, one.head) for one in found.heads]
    assert len(places) == len(set(places)) and {mechanism for mechanism, *_ in places} == mechanisms
    for one in found.heads:
        with heed.edit(run, heed.ZeroHead(one.mechanism, one.layer, one.head)):
            without, its_loss = run.score_and_loss(examples)
        assert one.change.value == pytest.approx(without.score() - whole.score())
        assert not one.change.low > one.change.high  # NaN if no resample changes
        assert one.loss.value == pytest.approx(its_loss.score() - loss.score(), abs=1e-5)


@pytest.mark.parametrize("name", ["translation", "language_modelling", "tagging", "pretraining", "dialogue"])
def test_runs_of_every_kind_have_heads(name, small_run, capsys):
    run = small_run(name)
    if name == "tagging":  # its small run is recurrent
        code, _, err = call(capsys, "heads", run)
        assert code == 2 and "this model has no attention, so it has no heads" in err
        return
    code, out, err = call(capsys, "heads", run, "--json", "--examples", 3)
    assert code == 0, err
    report = json.loads(out)
    assert report["heads"] and all(
        {"mechanism", "layer", "head", "change", "looks_at", "matters"} <= {*one}
        and one["matters"] == (one["p"] <= 0.05)
        for one in report["heads"]
    )
    code, out, _ = call(capsys, "heads", run, "--examples", 3)
    assert code == 0 and "the change without each head" in out and "layer 0 head  0" in out
    assert f"* p <= 0.05 after Holm's correction for {len(report['heads'])} heads" in out
    code, _, err = call(capsys, "heads", run, "--split", "tset")
    assert code == 2 and "this run has no set 'tset'" in err


def table_of(draw, null, examples=500, *, worse=0, changed=100):
    """The whole run, and it without each head: `null` that change some examples at random, and one that matters."""
    right = draw.random(examples) < 0.8
    cuts = np.tile(right, (null, 1))
    for cut in cuts:
        cut[draw.choice(examples, changed, replace=False)] = draw.choice(right, changed)
    mattering = right & (np.cumsum(right) > worse)  # the first right outputs are lost
    return [share("accuracy", "accuracy", one.astype(float)) for one in (right, mattering, *cuts)]


def stars(tables, null):
    """The share of tables with a star beside a head that does nothing."""
    draw, some = np.random.default_rng(4), 0
    for _ in range(tables):
        whole, _, *cuts = table_of(draw, null, 200)
        some += bool((corrected(whole, cuts) <= 0.05).any())
    return some / tables


def test_of_144_heads_that_do_nothing_none_has_a_star_and_the_one_that_matters_has():
    whole, *cuts = table_of(np.random.default_rng(5), 143, worse=30)
    p = corrected(whole, cuts)
    assert p[0] <= 0.05 and p[1:].min() > 0.05
    assert stars(20, 30) <= 0.1


@pytest.mark.slow  # 5 s
def test_stars_by_chance_are_in_at_most_5_per_cent_of_tables_of_144_heads():
    assert stars(200, 144) <= 0.05


def test_a_head_that_follows_the_known_alignment_is_named(tmp_path):
    settings = {"data.name": "copy", "data.length": [4, 6], "data.train": 40, "data.valid": 4, "data.test": 4}
    settings |= {"model.name": "luong", "model.size": "tiny", "training.threads": 1, "evaluation.bootstrap": 5}
    run = heed.train("translation", steps=1, out=tmp_path / "run", settings=settings, quiet=True)
    pair = run.examples("valid")[0]
    assert pair.links
    count = len(run.input.source_tokenizer.encode(pair.source).ids)
    places = torch.eye(count).tolist()  # each position looks at its own place in the source
    with heed.edit(run, [heed.Force("cross", position=i, weights=place) for i, place in enumerate(places)]):
        assert aligned_heads(run, [pair]) == {0: [1.0]}
    with heed.edit(run, [heed.Force("cross", position=i, weights=place) for i, place in enumerate(places[::-1])]):
        assert aligned_heads(run, [pair])[0][0] < 0.5


# --- Layers, heads and mechanisms of a Transformer are looked at one by one, together, or as a mean


SOURCE, TARGET = "31415", "314"


@pytest.fixture(scope="module")
def both():
    data = data_of("translation", name="copy", train=30, valid=5, test=5, length=(3, 6))
    section = ModelSection(name="transformer", size="tiny", d_model=8, num_heads=2, num_layers=3, d_ff=8)
    training = TranslationTraining(steps=1)
    config = TranslationConfig(data=data, tokenizer=TokenizerConfig(), model=section, training=training)
    torch.manual_seed(1)
    task = TASK.prepare(config)
    return task, task.build_model().eval()


def look(both, *choice, **options):
    return look_at(*both, SOURCE, target=TARGET, choice=Choice(*choice), **options)


def weights_seen(both):
    task, model = both
    batch = forced_batch(task, SOURCE, task.input.target_tokenizer.encode(TARGET).ids)
    with torch.no_grad(), trace(model) as seen:
        model(batch.source, batch.source_mask, batch.target)
    return seen


def test_by_default_the_last_layer_and_the_mean_of_its_heads(both):
    shown, seen = look(both), weights_seen(both)
    assert [(m.mechanism, m.layer, m.head) for m in shown.maps] == [
        ("encoder", 2, None),
        ("decoder", 2, None),
        ("cross", 2, None),
    ]
    for one in shown.maps:
        assert_close(one.weights, seen.maps(one.mechanism, 2).weights[0].mean(0))
        assert one.scores is None  # no softmax of any scores gives a mean of weights
    assert "shown: the last layer, the mean of 2 heads; change with --layer, --head and --mechanism" in shown.notes


def test_one_head_of_one_layer(both):
    shown, seen = look(both, "decoder", 1, 1), weights_seen(both)
    (one,) = shown.maps
    assert (one.mechanism, one.layer, one.head) == ("decoder", 1, 1)
    assert_close(one.weights, seen.maps("decoder", 1).weights[0, 1])
    assert_close(torch.softmax(one.scores.masked_fill(~one.mask, -torch.inf), -1), one.weights)


def test_frames_hold_a_row_of_each_map_and_the_states_of_each_block(both):
    shown = look(both, None, 0, 1)
    encoder, decoder, cross = shown.maps
    for i, frame in enumerate(shown.encoder):
        assert list(frame.states) == ["layer 0", "layer 1", "layer 2"]
        (step,) = frame.attention
        assert torch.equal(step.weights, encoder.weights[i]) and step.mask is None
    seen = weights_seen(both)
    for t, frame in enumerate(shown.decoder):
        first, second = frame.attention
        assert torch.equal(first.weights, decoder.weights[t]) and first.mask.sum() == t + 1
        assert torch.equal(second.weights, cross.weights[t])
        assert_close(second.context, seen.maps("cross", 0).context[0, 1, t])
        assert_close(frame.state, seen.tensors("states")[-1][0, t])  # of the last block


def test_what_the_model_has_not_is_refused(both):
    with pytest.raises(ConfigError, match="no 'words' attention: this model has encoder, decoder, cross"):
        look(both, "words")
    with pytest.raises(ConfigError, match="has 3 layers of encoder attention, 3 layers of decoder attention"):
        look(both, None, 3)
    with pytest.raises(ConfigError, match="no head 2: there are 2 heads, counted from 0"):
        look(both, "cross", 0, 2)
    with pytest.raises(ConfigError, match="no head 1: there is 1 head, counted from 0"):
        Choice(head=1).heads(1)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"head": "0"}, "head is '0'; give a whole number, 'mean' or 'all'"),
        ({"layer": 1.5}, "layer is 1.5; give a whole number, 'all'"),
        ({"layer": "last"}, "layer is 'last'"),
        ({"head": True}, "head is True"),
    ],
)
def test_a_head_or_layer_of_another_type_is_refused_in_words(both, asked, message):
    with pytest.raises(ConfigError, match=message):
        Choice(**asked)


def test_from_the_command_line(tmp_path, capsys):
    fields = ["model.name=transformer", "model.d_model=8", "model.num_heads=2", "model.d_ff=8", "training.steps=2"]
    (tmp_path / "c.yaml").write_text("task: translation\ndata: {name: copy, train: 40, valid: 5, test: 5}\n")
    output_of(capsys, "train", tmp_path / "c.yaml", *fields, "--out", tmp_path / "run")
    options = ["--mechanism", "cross", "--layer", "all", "--head", "0", "--as", "json"]
    maps = json.loads(output_of(capsys, "look", tmp_path / "run", "314", *options))["maps"]
    assert [(m["mechanism"], m["layer"], m["head"]) for m in maps] == [("cross", 0, 0), ("cross", 1, 0)]
    said = failing(capsys, "look", tmp_path / "run", "314", "--layer", "top")
    assert "--layer is 'top'; give a number or all" in said


# --- Overviews: thumbnails of every head, their entropy and remarks, in the order asked for


def layer_map(weights, layer=0, head=0, mechanism="encoder", mask=None):
    weights = torch.as_tensor(weights, dtype=torch.float)
    axes = [Axis("text", "word", tuple(f"w{i}" for i in range(size))) for size in weights.shape]
    return Map(mechanism, layer, head, *axes, weights, mask=mask)


def every(layers=2, heads=3, size=6):
    random = torch.Generator().manual_seed(0)
    draw = lambda: torch.randn(size, size, generator=random).mul(2).softmax(-1)  # noqa: E731
    maps = [layer_map(draw(), layer, head) for layer in range(layers) for head in range(heads)]
    maps[1] = layer_map(torch.eye(size).roll(1, 0) * 0.9 + 0.1 / size, 0, 1)
    return [*maps, layer_map(draw()[:1], 0, 0, "pooling")]


def test_a_thumbnail_keeps_the_strongest_weight_of_each_square():
    weights = torch.zeros(130, 50)
    weights[:, 0], weights[77, 31] = 0.1, 0.9
    mask = torch.ones(130, 50, dtype=torch.bool)
    mask[:, 40:] = False
    found = thumbnail(layer_map(weights, mask=mask), 13, 5)
    assert found.shape == (13, 5) and found[7, 3] == pytest.approx(0.9) and np.isnan(found[:, 4]).all()
    assert np.delete(found[:, :4].ravel(), [31]).tolist() == pytest.approx(
        [0.1, 0, 0, 0] * 7 + [0.1, 0, 0] + [0.1, 0, 0, 0] * 5
    )
    assert thumbnail(layer_map(weights[:4, :5]), 13, 5).shape == (4, 5)


@pytest.mark.parametrize("color", [False, True])
def test_the_terminal_shows_each_map_with_its_entropy_and_remark(color):
    maps = every()
    text = "\n".join(overview_to_text(maps, None, 60, color))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert all(len(line) <= 60 for line in plain.splitlines())
    assert re.findall(r"H(\d) (\.\d\d)", plain) == [(str(map.head), f"{entropy(map):.2f}"[1:]) for map in maps]
    assert "encoder attention: 6 maps, 6 x 6 words" in plain and "pooling attention: 1 map" in plain
    assert re.search(r"^ +prev$", plain, re.MULTILINE) and "prev: L0 H1 0.83" in plain
    assert text.count("\x1b[0m") == text.count("▀") + text.count("▄") and ("\x1b" in text) == color


def test_heads_that_do_not_fit_the_width_go_on_below():
    lines = overview_to_text(every(1, 16), None, 60, False)
    assert max(map(len, lines)) <= 60 and len(re.findall(r"H\d+ \.\d\d", "\n".join(lines))) == 17


def test_an_overview_can_be_ordered_by_entropy():
    maps = every()
    text = "\n".join(overview_to_text(maps, "entropy", 60, False))
    expected = sorted((map for map in maps if map.mechanism == "encoder"), key=entropy)
    shown = re.findall(r"L(\d) H(\d) \.\d\d", text.split("pooling")[0])
    assert shown == [(str(map.layer), str(map.head)) for map in expected] and "Ordered by" in text


def test_the_drawing_has_a_picture_for_each_map():
    axes = Axis("gates", "gate", ("a",)), Axis("text", "word", ("b",))
    gates = Map("forward", 0, None, *axes, torch.rand(1, 1), unit="value")
    shown = ShownLook(Look("a model", "", "", (*every(), gates), (), ()), False, True, "entropy")
    root = ElementTree.fromstring(shown.svg())
    scale = 160  # the width of the colour bar of a map below the overview
    images = [one for one in root.iter("{http://www.w3.org/2000/svg}image") if float(one.get("width")) != scale]
    assert len(images) == 7 and max(float(one.get("width")) for one in images) == 64
    assert any("looks at the previous word: 0.83" in one[0].text for one in images)
    assert shown.svg() == shown.svg() and 'class="figure"' in shown.svg(0)


def test_several_maps_are_drawn_by_their_indices():
    shown = ShownLook(Look("a model", "", "", (*every(),), (), ()), False)
    titles = [one.text for one in shown.scene([3, 0]).items if getattr(one, "style", "") == "title"]
    assert titles == [shown.maps[3].title, shown.maps[0].title] and shown.scene([3]) == shown.scene(3)


def test_labels_of_thumbnails_do_not_overlap():
    maps = [replace(map, layer=11, head=10 + map.head, untrained=0.25) for map in every(1, 4)[:4]]
    items = [one for one in overview_scene(maps, "t", "untrained").items if getattr(one, "text", "").startswith("L11")]
    assert len(items) == 4 and items[0].text == "L11 H10 \u03940.25"
    starts = sorted(one.x for one in items)
    assert all(b - a > 6.2 * len(items[0].text) for a, b in pairwise(starts))


def test_the_command_and_python_draw_all_layers_and_heads(small_run, tmp_path, capsys):
    folder = small_run("translation")
    run = heed.load(folder)
    text = run.examples("valid")[0].source
    every_map = run.look(text, layer="all", head="all").maps
    assert [str(map) for map in run.look(text, overview=True).maps] == [str(map) for map in every_map]
    code, out, err = call(capsys, "look", folder, text, "--overview")
    assert code == 0 and out.count(" H") + out.count("H0") >= len({map.mechanism for map in every_map}), err
    for ending in ("html", "svg", "json"):
        out = tmp_path / f"look.{ending}"
        assert call(capsys, "look", folder, text, "--sort", "entropy", "--out", out)[0] == 0
        assert out.exists()
    code, _, err = call(capsys, "look", folder, text, "--sort", "size")
    assert code == 2 and "sort is 'size'; valid: entropy" in err
    with pytest.raises(ConfigError, match="sort is 'size'"):
        run.look(text, sort="size")


# --- Scores of a run whose attention gives all keys the same weight: `run.equal_weights` and `heed evaluate`


def widened(run, factor=3.0):
    """A run with larger weights, so that its outputs differ between examples and under edits."""
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.mul_(factor)
    return run


@pytest.mark.parametrize(
    ("name", "model", "mechanisms"),
    [
        ("classification", "encoder", {"encoder", "pooling"}),
        ("classification", "han", {"words", "sentences"}),
        ("tagging", "encoder", {"encoder"}),
        ("translation", "luong", {"cross"}),
        ("summarisation", "transformer", {"encoder", "decoder", "cross"}),
        ("dialogue", "hred", {"turns", "words"}),
        ("language_modelling", "gpt", {"decoder"}),
        ("pretraining", "bert", {"encoder"}),
        ("images", "vit", {"encoder"}),
    ],
)
def test_each_attention_is_scored_as_under_the_edit(name, model, mechanisms, untrained):
    run = widened(untrained(name, model))
    found, examples = run.equal_weights("valid"), run.examples("valid")
    whole = run.outcomes(examples)
    assert (found.measure.score(), found.examples) == (whole.measures[0].score(), len(examples))
    places = [(one.mechanism, one.layer) for one in found.effects]
    assert {mechanism for mechanism, _ in places if mechanism} == mechanisms and len(places) == len({*places})
    assert (places[-1] == (None, None)) == (len(places) > 1)
    for one in found.effects:
        with heed.edit(run, heed.Uniform(one.mechanism, one.layer)):
            edited = run.outcomes(examples)
        assert one.score == edited.measures[0].score()
        assert one.change.value == pytest.approx(one.score - whole.measures[0].score())
        if name in ("language_modelling", "pretraining"):  # their outputs are scores
            assert one.outputs_changed is None and "outputs change" not in str(found)
        else:
            different = [a != b for a, b in zip(whole.outputs, edited.outputs, strict=True)]
            assert one.outputs_changed.value == np.mean(different)


def test_intervals_are_paired_by_example(untrained):
    run = widened(untrained("classification", "rnn"), 4.0)
    run.config = run.config.model_copy(
        update={"evaluation": run.config.evaluation.model_copy(update={"bootstrap": 4_000})}
    )
    draw = np.random.default_rng(1)
    texts = [(" ".join(draw.choice(WORDS, draw.integers(3, 9))), "ab"[n % 2]) for n in range(150)]
    (found,) = run.equal_weights(texts).effects
    label = lambda: np.array([one.label for one in run.predict([text for text, _ in texts])])  # noqa: E731
    before, true = label(), np.array([truth for _, truth in texts])
    with heed.edit(run, heed.Uniform()):
        after = label()
    assert 0.02 < np.mean(before != after) < 0.98
    chosen = draw.integers(150, size=(4_000, 150))
    change = ((after == true).astype(float) - (before == true))[chosen].mean(1)
    changed = (before != after)[chosen].mean(1)
    for ours, drawn in ((found.change, change), (found.outputs_changed, changed)):
        assert (ours.low, ours.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.015)
    assert found.outputs_changed.value == np.mean(before != after)


def test_what_no_example_shows_has_the_exact_interval(untrained):
    run = untrained("classification", "rnn")
    with torch.no_grad():
        run.model.output.weight.zero_()  # the label is that of the bias
    found = run.equal_weights([("one two", "a")] * 50)
    assert str(found).splitlines()[1].endswith("[-7.1, +7.1]; 0.0% [0.0%, 7.1%] of outputs change")


def test_the_lines_are_in_the_unit_of_the_measure():
    half = heed.evaluation.significance.Interval(-0.5, -0.625, -0.25)
    found = EqualWeights(share("accuracy", "accuracy", [1.0, 1.0]), 2, [UniformEffect("cross", 0, 0.5, half, None)])
    assert str(found).splitlines() == [
        "accuracy 100.0% on 2 examples; under equal weights:",
        "  cross layer 0: accuracy 50.0%, -50.0 points [-62.5, -25.0]",
    ]


def test_the_command_prints_lines_and_the_same_as_data(data, small_run, capsys):
    run = small_run("translation")
    known = heed.load(run).equal_weights("valid")
    words = ("evaluate", run, "--equal-weights")
    code, out, err = call(capsys, *words, "--split", "valid")
    assert code == 0, err
    assert f"valid: {known}" in out and out.startswith("valid: 6 pairs")
    report = json.loads(call(capsys, *words, "--split", "valid", "--json")[1])["valid"]
    assert report["equal_weights"] == json.loads(to_json(known.to_json())) and "examples" in report
    file = data / SMALL["translation"].train
    report = json.loads(call(capsys, *words, file, "--json")[1])[str(file)]
    assert report["equal_weights"]["examples"] == len(heed.load(run).read([file]))
    assert report["equal_weights"] == json.loads(to_json(heed.load(run).equal_weights(str(file)).to_json()))
    code, _, err = call(capsys, *words, "--with", run, "--split", "valid")
    assert code == 2 and f"equal weights are not available for an ensemble; use one run at a time: {run}, {run}" in err


@pytest.mark.parametrize(("name", "model"), [("images", "cnn"), ("tagging", "rnn"), ("table", "mlp")])
def test_a_model_without_attention_is_refused(name, model, untrained):
    run = untrained(name, model)
    with pytest.raises(ConfigError, match=r"^this model has no attention, so equal weights do not apply$"):
        run.equal_weights("valid")
    with pytest.raises(ConfigError, match="the data has no split 'tset'"):
        run.equal_weights("tset")


# --- What is said of a map holds for it, by the stated number; one definition for looks and `heed heads`


CAUSAL = torch.ones(6, 6, dtype=torch.bool).tril()


def text_map(weights, mask=None, links=None, labels=None, **more):
    weights = torch.as_tensor(weights, dtype=torch.float)
    axes = [Axis("text", "word", labels or tuple("abcdefgh"[:size])) for size in weights.shape]
    return Map("encoder", 0, 0, *axes, weights, mask=mask, links=links, **more)


def peaked(columns, size=6, at=0.8):
    """Rows with `at` of their weight on one key and the rest spread."""
    weights = torch.full((len(columns), size), (1 - at) / (size - 1))
    weights[range(len(columns)), columns] = at
    return weights


EVEN = torch.full((6, 6), 1 / 6)
CASES = {
    "near-uniform": (text_map(EVEN), 1.0),
    "near-uniform under a mask": (text_map(CAUSAL / CAUSAL.sum(-1, keepdim=True), CAUSAL), 1.0),
    "sink": (text_map(peaked([3, 3, 3, 3, 3, 0])), (5 * 0.8 + 0.04) / 6),
    "previous": (text_map(peaked([0, 0, 1, 2, 3, 4])), 5 / 6),
    "next": (text_map(peaked([1, 2, 3, 4, 5, 0])), 5 / 6),
    "same": (text_map(peaked([0, 1, 2, 3, 4, 5])), 1.0),
    "alignment": (text_map(peaked([5, 4, 3, 2, 1, 0]), links=torch.eye(6, dtype=torch.bool).flip(0)), 1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_a_remark_says_its_number_in_every_form(name):
    map, value = CASES[name]
    (found,) = remarks(map)
    assert found.kind == name.split(" ")[0] and found.value == pytest.approx(value, abs=1e-6)
    assert f"{value:.2f}" in found.text
    assert f"remark: {found.text}" in map_to_text(map)
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", to_svg(map_scene(map)).replace("&#x27;", "'"))
    assert f"Remark: {found.text}." in " ".join(lines)
    look = Look("", "", "", (map,), (), ())
    shown = clean(found.text).replace("'", "&#39;")
    assert f'<ul class="remarks"><li dir="auto">{shown}</li></ul>' in look_to_html(look)
    (drawn,) = json.loads(ShownLook(look, False).json())["maps"]
    assert [(one["kind"], one["value"]) for one in drawn["remarks"]] == [(found.kind, pytest.approx(value, abs=1e-6))]


@pytest.mark.parametrize(
    "map",
    [
        text_map(peaked([3, 1, 4, 0, 5, 2])),
        text_map(peaked([2, 2])),  # two rows prove nothing
        text_map(peaked([0, 0, 0])[:, :1] / peaked([0, 0, 0])[:, :1]),  # a single key
        text_map(torch.zeros(4, 4)),
        text_map(torch.zeros(0, 4)),
        text_map(EVEN, unit="value"),
        text_map(peaked([5, 3, 1, 4, 0, 2]), links=torch.eye(6, dtype=torch.bool)),
    ],
)
def test_nothing_is_said_where_nothing_holds(map):
    assert remarks(map) == []
    assert "remark" not in map_to_text(map)
    assert "remarks" not in json.loads(ShownLook(Look("", "", "", (map,), (), ()), False).json())["maps"][0]


def test_rows_with_one_key_and_ties_look_nowhere():
    previous = torch.eye(4).roll(1, 0)
    previous[0] = torch.tensor([1.0, 0, 0, 0])
    at = looks_at(text_map(previous, CAUSAL[:4, :4]))
    assert at["previous"].tolist() == [False, True, True, True] and not at["same"].any()
    assert at["first"].tolist() == [False, True, False, False]
    tied = text_map([[0.5, 0.5, 0.0], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]])
    assert {name for name, rows in looks_at(tied).items() if rows[0]} == set()
    wide = torch.zeros(2, 5)
    wide[:, 4] = 1.0
    assert [name for name, rows in looks_at(text_map(wide)).items() if rows.all()] == ["last"]


def test_a_key_that_was_read_one_step_earlier_is_the_previous_one():
    query, key = (Axis("target", "word", tuple(labels.split())) for labels in ("a b c d end", "start a b c d"))
    written = Map("decoder", 0, 0, query, key, torch.eye(5), mask=torch.ones(5, 5).tril().bool())
    assert [one.kind for one in remarks(written)] == ["previous"]
    other = Map("cross", 0, 0, query, Axis("source", "word", tuple("vwxyz")), torch.eye(5).roll(1, 0))
    assert {"previous", "next"}.isdisjoint(looks_at(other))


def test_a_separator_is_known_by_its_label():
    labels = ("[CLS]", "a", "b", "[SEP]", "c", "[SEP]")
    at = looks_at(text_map(peaked([3, 5, 3, 1, 2, 3]), labels=labels))
    assert at["separator"].tolist() == [True, True, True, False, False, True]
    assert "separator" not in looks_at(text_map(EVEN))


def test_the_alignment_is_known_for_held_out_examples_of_embedded_data(tmp_path):
    small = {"data.name": "reverse", "data.train": 20, "data.valid": 5, "data.test": 5, "data.length": [4, 5]}
    settings = small | {"model.name": "bahdanau", "model.size": "tiny", "training.steps": 1, "training.threads": 1}
    run = heed.train("translation", settings=settings, out=tmp_path / "run", quiet=True)
    pair, known = run.examples("test")[0], run.examples("train")[0]
    (map,) = run.look(pair.source, target=pair.target).maps
    length = len(pair.source)
    assert map.links[:length, :length].int().tolist() == torch.eye(length).flip(0).int().tolist()
    assert map.links.shape == map.weights.shape and not map.links[length:].any()
    assert run.look(known.source, target=known.target).maps[0].links is None
    assert run.look(pair.source, target=pair.source[:-1]).maps[0].links is None


def test_entropy_is_a_share_of_the_largest_possible_over_allowed_keys():
    half = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    assert entropy(text_map(half, CAUSAL[:4, :4])) == pytest.approx((1 + 0 + 1) / 3)
