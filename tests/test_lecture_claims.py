"""examples/claims: rules change their verdict with the numbers, finished cells are kept, the page shows the records."""

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from heed import registry

ROOT = Path(__file__).parents[1]
SCRIPTS, RECORDS = ROOT / "examples" / "claims", ROOT / "docs" / "claims"
PAGE = runpy.run_path(str(ROOT / "docs" / "claims.py"))  # which puts the scripts on the path
CLAIMS = {claim.name: claim for claim in PAGE["claims"]()}
harness = sys.modules["harness"]


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run a script in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(name, *words):
        monkeypatch.setattr("sys.argv", [name, *map(str, words)])
        runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")

    return run


def rows_of(name):
    return [dict(row) for row in PAGE["record"](CLAIMS[name]).results.rows]


def verdict(name, rows):
    return CLAIMS[name].judge(harness.Results(rows))


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("forgetting", "model", "seq2seq"),
        ("forgetting", "model", "bahdanau"),
        ("both-sides", "network", "forward"),
        ("both-sides", "network", "both"),
        ("scaling", "divided", "not"),
        ("rollout", "by", "last layer"),
        ("local-cnn", "network", "cnn, 1"),
        ("explanation", "method", "attention"),
        ("explanation", "encoder", "Transformer"),
        ("leak", "direction", "forward"),
        ("residual", "connections", "none"),
        ("self-attentive", "network", "LSTM"),
        ("supervised", "links", "none"),
    ],
)
def test_without_the_effect_the_verdict_changes(name, setting, value):
    """Every value of the setting gets the numbers of one of them."""
    rows = rows_of(name)
    values = {row[setting] for row in rows if setting in row}
    without = [{**row, setting: other} for row in rows if row.get(setting) == value for other in values]
    assert verdict(name, without)[::3] != verdict(name, rows)[::3]


_VIT_ON_FEW = {"model": "vit", "pictures": 250}
_WORDS, _BOTH = {"pretraining": "masked words"}, {"pretraining": "masked words, next sentence"}
PLANTED = {  # rows with these settings get these numbers, with which the rule gives another verdict
    "vanishing": [
        ("gradient", -1.0, {"training": "after"}),
        ("gradient", -9.0, {"training": "after", "network": "rnn"}),
    ],
    "clauses": [("both", 1.0, {}), ("both", 0.3, {"pooling": "last state", "filler": 100})],
    "heads": [("accuracy", 0.5, {"texts": "it", "heads": 1})],
    "hierarchy": [("accuracy", 0.5, {}), ("accuracy", 1.0, {"network": "hierarchical"}), ("first", 1.0, {})],
    "vit-or-cnn": [("accuracy", 0.5, {}), ("accuracy", 0.9, {"model": "vit"}), ("accuracy", 0.4, _VIT_ON_FEW)],
    "scores": [("exact", 0.5, {}), ("exact", 0.9, {"score": "additive"})],
    "pretraining": [("accuracy", 0.5, {}), ("accuracy", 0.7, _WORDS), ("accuracy", 0.9, _BOTH)],
    "decoder-training": [("leak", 0.5, {"way": "one masked pass"})],
    "gru-or-lstm": [("right", 1.0, {"task": "counting", "network": "LSTM"})],
}


@pytest.mark.parametrize("name", PLANTED)
def test_with_the_effect_planted_a_claim_that_was_not_confirmed_holds(name):
    rows = rows_of(name)
    before = verdict(name, rows).kind
    for number, value, where in PLANTED[name]:
        for row in rows:
            if number in row and where.items() <= row.items():
                row[number] = [value] * len(row[number])
    assert before != "holds" and verdict(name, rows).kind == ("holds only" if name == "gru-or-lstm" else "holds")


def test_every_claim_has_a_record_with_all_cells_and_a_current_figure():
    figures = {f"{name}.svg" for name, claim in CLAIMS.items() if claim.figure}
    assert {path.name for path in RECORDS.glob("*")} == {f"{name}.json" for name in CLAIMS} | figures
    for name, claim in CLAIMS.items():
        assert "does not hold here" in claim.rule.lower()
        measured = PAGE["record"](claim)
        assert (measured.seeds, measured.quick) == (claim.seeds, False)
        assert measured.json() == (RECORDS / f"{name}.json").read_text(encoding="utf-8")
        if claim.figure:
            assert measured.svg() == (RECORDS / f"{name}.svg").read_text(encoding="utf-8"), "run python docs/claims.py"
        rows = measured.results.rows
        assert all(any(cell.items() <= row.items() for row in rows) for cell in claim.grid)
        assert all(len(value) == claim.seeds for row in rows for value in row.values() if isinstance(value, list))


def test_the_page_is_that_of_the_records():
    assert (ROOT / "docs" / "claims.md").read_text(encoding="utf-8") == PAGE["page"](), "run python docs/claims.py"


def test_an_interrupted_measurement_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    measured, limit = [], 3

    def measure(cell):
        if len(measured) == limit:
            raise KeyboardInterrupt
        measured.append(cell.key)
        return CLAIMS["decoder-training"].measure(cell)

    claim = replace(CLAIMS["decoder-training"], measure=measure)
    with pytest.raises(KeyboardInterrupt):
        claim.run(seeds=2)
    limit = 100
    first = claim.run(seeds=2)
    assert first.verdict.kind == "does not hold here" and len(measured) == len({*measured}) == 2 * len(claim.grid)
    assert claim.run(seeds=2).json() == first.json() and len(measured) == 2 * len(claim.grid)


def test_a_quick_run_is_shown_recorded_and_drawn(command, capsys):
    command("leak", "--quick", "--out", "leak.json")
    text = capsys.readouterr().out
    assert "Verdict: " in text and "not the recorded one" in text and "both" in text
    command("leak", "--from-file", "leak.json", "--out", "leak.svg")
    assert capsys.readouterr().out == text and Path("leak.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seeds", "1"), "needs 2 or more"),
        (("--out", "leak.txt"), "a record is .json, a figure .svg"),
        (("--from-file", "none.json"), "none.json"),
        (("--from-file", RECORDS / "scores.json"), "not a record of the claim leak"),
    ],
)
def test_errors_are_explained(command, capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        command("leak", *words)
    assert said in capsys.readouterr().err and ended.value.code == 2


def test_the_interval_over_seeds_is_students():
    found = harness.over_seeds([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.776445 * (2.5 / 5) ** 0.5
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0 - half, 3.0 + half), abs=1e-5)


def test_the_networks_of_local_cnn_see_what_the_claim_says():
    seen = {}
    for name, (model, _, settings) in sys.modules["local_cnn"].NETWORKS.items():
        pairs = (field.partition("=") for field in settings.split() if field.startswith("model."))
        fields = {key.removeprefix("model."): yaml.safe_load(value) for key, _, value in pairs}
        body = registry.body_class(model, ("image_encoder",))
        seen[name] = body(body.config_class(num_channels=1, height=24, width=24, **fields)).receptive_field()
    assert seen == {"cnn, 1": 3, "cnn, 2": 5, "cnn, 4": 9, "cnn, 7": 15, "resnet, 8": 25, "vit, 2": None}
