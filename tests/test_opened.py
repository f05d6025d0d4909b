"""A weight opens into what it came from: every mechanism and score, from NumPy lines too, and clear refusals."""

import json

import pytest
import torch

import heed
from commands import call
from heed.attention import SCORES
from heed.errors import ConfigError
from heed.watch.edits import Uniform
from opening import open_all, open_each, run_numpy
from small_runs import SMALL

CASES = [
    ("translation", "bahdanau", {}, {"cross"}),
    ("translation", "transformer", {}, {"encoder", "decoder", "cross"}),
    ("summarisation", "bahdanau", {"pointer": True}, {"cross", "copy"}),
    ("classification", "encoder", {"pooling": "attention"}, {"encoder", "pooling"}),
    ("classification", "rnn", {"pooling": "attention", "pooling_score": "dot"}, {"pooling"}),
    ("classification", "rnn", {"pooling": "attention", "pooling_score": "self_attentive"}, {"pooling"}),
    ("classification", "han", {}, {"words", "sentences"}),
    ("classification", "lstmn", {}, {"self", "pooling"}),
    ("tagging", "self_rnn", {}, {"self"}),
    ("language_modelling", "gpt", {}, {"decoder"}),
    ("language_modelling", "gpt", {"positions": "rotary"}, {"decoder"}),
    ("language_modelling", "lstmn", {}, {"self"}),
    ("pretraining", "bert", {}, {"encoder"}),
    ("dialogue", "hred", {"turn_attention": True}, {"words", "turns"}),
    ("dialogue", "transformer", {}, {"encoder", "decoder", "cross"}),
    ("images", "vit", {}, {"encoder"}),
]


@pytest.mark.parametrize(("task", "model", "head", "mechanisms"), CASES)
def test_every_weight_is_what_its_numbers_give(untrained, data, task, model, head, mechanisms):
    run = untrained(task, model, **head)
    (given,) = SMALL[task].look
    options = {"map": "attention"} if task == "images" else {}
    several = ["one two", "three one two", "two"]  # turns: the words of each have a softmax of their own
    given = several if model == "hred" else given.replace("DATA/", f"{data}/")
    assert open_each(run, given, **options) == mechanisms


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("task", "model"), [("translation", "luong"), ("tagging", "self_rnn"), ("dialogue", "hred")])
def test_every_score_opens(untrained, task, model, score):
    one_way = {"bidirectional": False} if model == "hred" else {}  # a dot product needs equal widths
    run = untrained(task, model, score=score, **one_way)
    assert open_each(run, "one two three")
    look = run.look("one two three", mechanism=run.look("one two three").maps[0].mechanism)
    one = look.number(0, 0).breakdown.number
    assert one.formula == SCORES[score].formula
    products = one.products
    assert float(products.sum()) * (1 if one.scale is None else one.scale) == pytest.approx(one.score, abs=1e-9)


def test_a_masked_key_has_weight_0_and_what_there_is_not_is_named(untrained):
    run = untrained("language_modelling", "gpt")
    look = run.look("one two three", given=True, layer=0, head=0)
    number = look.number(0, 2)
    assert number.weight == run_numpy(number) == 0 and "may not attend to this key" in number.text()
    whole = look.number(2, 0, every=True)
    assert "the other" not in whole.text() and "self-check" in whole.text()
    for row, column, said in (
        (9, 0, "no row 9: the rows of decoder attention, layer 0, head 0 are 0 end, 1 one, "),
        (0, -1, "no column -1: the columns of"),
        ("two", 0, "the row is 'two'; give its number in the map, counted from 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            look.number(row, column)
    with pytest.raises(ConfigError, match="one weight is not drawn as a picture"):
        number.svg()


def test_a_mean_over_heads_opens_into_its_heads(untrained):
    run = untrained("translation", "transformer")
    with pytest.raises(ConfigError, match="several attentions are shown, so choose one with mechanism, layer and head"):
        run.look("one two three").number(0, 0)
    with pytest.raises(ConfigError, match="no weight can be opened"):
        run.look("one two three", mechanism="rollout").number(0, 0)
    look = run.look("one two three", mechanism="cross")
    assert open_all(look)
    number = look.number(0, 1)
    heads = [
        run.look("one two three", mechanism="cross", head=h).number(0, 1).weight
        for h in range(len(number.breakdown.number.heads))
    ]
    assert number.breakdown.parts.flatten().tolist() == pytest.approx(heads)
    assert number.weight == pytest.approx(sum(heads) / len(heads), abs=1e-6)
    content = json.loads(number.json())
    assert content["format"] == "heed-number-1" and content["drawn"] == pytest.approx(number.weight, abs=1e-6)


def test_the_output_row_is_the_heads_joined_and_projected(untrained):
    run = untrained("translation", "transformer")
    one = run.look("one two three", mechanism="encoder").number(1, 0).breakdown.number
    heads = [run.look("one two three", mechanism="encoder", head=h).number(1, 0) for h in range(len(one.heads))]
    joined = torch.cat([each.breakdown.number.context for each in heads])
    (layer,) = [m for m in run.model.modules() if getattr(m, "mechanism", "") == "encoder"][-1:]
    weight, bias = layer.w_out.weight.double(), layer.w_out.bias.double()
    torch.testing.assert_close(one.output, joined @ weight.T + bias, atol=1e-6, rtol=0)
    for each in heads:
        n = each.breakdown.number
        weights = torch.softmax(n.scores.masked_fill(~n.allowed, -torch.inf), 0)
        torch.testing.assert_close(n.context, weights @ n.values, atol=1e-6, rtol=0)


def test_an_edited_weight_says_so(untrained):
    run = untrained("translation", "luong")
    look = run.look("one two three", edits=[Uniform("cross")])
    number = look.number(0, 0)
    assert "an edit has replaced the weight" in number.text() and "# an edit replaced it" in number.numpy()
    assert run_numpy(number) == pytest.approx(number.weight, abs=1e-6) == pytest.approx(1 / len(look.maps[0].key))


def test_the_command_prints_and_writes_a_number(small_run, tmp_path, capsys):
    run = small_run("translation")
    base = ["look", str(run), "one two", "--number", "0", "1"]
    code, out, _ = call(capsys, *base)
    look = heed.load(run).look("one two")
    assert code == 0 and out == look.number(0, 1).text() + "\n" and f"weight {look.number(0, 1).weight:.6f}" in out
    code, out, _ = call(capsys, *base, "--numpy")
    found = {}
    exec(out, found)
    assert code == 0 and found["weight"] == pytest.approx(float(look.maps[0].weights[0, 1]), abs=1e-5)
    for ending in ("html", "json", "txt"):
        assert call(capsys, *base, "--all", "--out", str(tmp_path / f"one.{ending}"))[0] == 0
        assert "product" in (tmp_path / f"one.{ending}").read_text()
    for further, said in (
        (["--out", str(tmp_path / "a.svg")], "one weight is not drawn as a picture"),
        (["--steps"], None),
    ):
        code, _, err = call(capsys, *base, *further)
        assert (code == 0) == (said is None) and (said or "") in err
    assert "--numpy goes with --number QUERY KEY" in call(capsys, *base[:3], "--numpy")[2]
    assert "--number 0 99: no column 99" in call(capsys, *base[:-1], "99")[2]
    assert "--number needs a text to look at" in call(capsys, *base[:2], *base[3:])[2]
