"""examples/claims: rules change their verdict with the numbers, finished cells are kept, the page shows the records."""

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import t

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
        ("forgetting", "model", "seq2seq"), ("forgetting", "model", "bahdanau"), ("both-sides", "network", "forward"),
        ("both-sides", "network", "both"), ("scaling", "divided", "not"), ("rollout", "by", "last layer"),
        ("local-cnn", "network", "cnn, 1"), ("explanation", "method", "attention"), ("vit-or-cnn", "model", "cnn"),
        ("explanation", "encoder", "Transformer"), ("leak", "direction", "forward"), ("scores", "score", "additive"),
        ("residual", "connections", "none"), ("self-attentive", "network", "LSTM"), ("supervised", "links", "none"),
    ],
)  # fmt: skip
def test_without_the_effect_the_verdict_changes(name, setting, value):
    """Every value of the setting gets the numbers of one of them."""
    rows = rows_of(name)
    values = {row[setting] for row in rows if setting in row}
    without = [{**row, setting: other} for row in rows if row.get(setting) == value for other in values]
    without += [row for row in rows if setting not in row]
    assert verdict(name, without)[::3] != verdict(name, rows)[::3]


_OUTSIDE = {"future": "outside"}
_LSTMS = ("LSTM", "LSTM, forget bias log 100")
PLANTED = {
    "vanishing": [("gradient", -1.0, {"training": "after"}),
                  ("gradient", -9.0, {"training": "after", "network": "rnn"})],
    "clauses": [("both", 1.0, {"texts": "mixed"}), ("both", 0.5, {"pooling": "last state", "filler": 100})],
    "heads": [("accuracy", value, {"texts": "it, fewer", "heads": heads}) for value, heads in ((0.6, 1), (0.9, 8))],
    "hierarchy": [("accuracy", 0.7, {}), ("accuracy", 0.8, {"network": "hierarchical"})],
    "decoder-training": [("leak", 0.5, {"way": "one masked pass"})],
    "gru-or-lstm": [("right", 0.99, {"task": "adding", "network": "LSTM"}),
                    ("right", 0.5, {"task": "adding", "network": "GRU"}),
                    ("right", 1.0, {"task": "adding", "network": "GRU", "distance": 5})],
    "explanation": [("precision", 1.0, {"network": "trained", "method": "attention"})],
    "leak": [("error", 0.9, {"series": "random walk", "direction": "both", **_OUTSIDE}),
             ("error", 0.3, {"series": "trend", "direction": "both", **_OUTSIDE})],
    "local-cnn": [("accuracy", 0.6, {"network": "cnn, 7"})],
    "self-attentive": [("recalled", 0.5, {"network": name, "lag": 100}) for name in _LSTMS],
}  # fmt: skip
"""Rows with these settings get these numbers, with which the rule gives another verdict."""


@pytest.mark.parametrize("name", PLANTED)
def test_with_the_effect_planted_a_claim_that_was_not_confirmed_holds(name):
    rows = rows_of(name)
    before = verdict(name, rows).kind
    for number, value, where in PLANTED[name]:
        for row in rows:
            if number in row and where.items() <= row.items():
                row[number] = [value] * len(row[number])
    assert before != "holds" and verdict(name, rows).kind == "holds"


def test_next_sentences_that_add_nothing_leave_masked_words():
    rows = [{**row, "accuracy": [0.7] * 5} if row["task"] == "pair" else row for row in rows_of("pretraining")]
    assert verdict("pretraining", rows)[::3] == ("holds only", "for masked words")


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
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert page == PAGE["page"](), "run python docs/claims.py"
    assert len(page.split()) <= 2_500


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


def interval(low, high):
    return harness.Interval((low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("low", "high", "side", "settled"),
    [
        (0.11, 0.3, "above", True),
        (0.05, 0.3, "above", None),
        (-0.3, 0.09, "above", False),
        (-0.3, 0.09, "below", True),
        (-0.19, 0.4, "below", None),
        (0.11, 0.3, "below", False),
        (0.1, 0.1, "above", False),  # all seeds agree, and on the threshold
        (0.1, 0.1, "below", False),
    ],
)
def test_an_interval_with_the_threshold_inside_settles_nothing(low, high, side, settled):
    part = harness.Part("a difference", interval(low, high), side, 0.1)
    assert part.settled is settled
    kinds = {True: "holds", False: "does not hold here", None: "undecided"}
    assert harness.judge(("", [part])).kind == harness.judge_each({"it": part}).kind == kinds[settled]


YES, NO, OPEN = (
    harness.Part(what, interval(*ends), "above", 0)
    for what, ends in zip("yno", ((1, 2), (-2, -1), (-1, 1)), strict=True)
)


def test_a_rule_takes_the_first_branch_that_is_not_ruled_out():
    assert harness.judge(("", [YES, NO]), ("when deep", [YES]))[::3] == ("holds only", "when deep")
    undecided = harness.judge(("", [YES, OPEN]), ("when deep", [YES]))
    assert str(undecided) == "undecided (interval): o (threshold 0) 0 [-1, 1]"
    assert str(harness.judge(("", [YES, NO]), ("when deep", [NO]))) == "does not hold here: n -1.5 [-2, -1]"


def test_what_is_compared_with_several_others_is_judged_against_each():
    said = harness.judge_each({"dot": NO, "scaled": YES, "general": OPEN})
    assert str(said) == "holds only against scaled (undecided against general): y 1.5 [1, 2]"
    assert harness.judge_each({"dot": NO, "general": OPEN}).kind == "undecided"
    assert harness.judge_each({"dot": NO, "general": NO}).kind == "does not hold here"


PAIR = harness.Pair("accuracy", {"heads": 8}, {"heads": 1})


def claim_of(eight, few, *checks):
    """The verdict on accuracies of eight heads and of one head, for each seed, and a claim that eight are better."""
    results = harness.Results([{"heads": 8, "accuracy": eight}, {"heads": 1, "accuracy": few}])

    def decide(results):
        return harness.judge(("", [harness.Part("more", PAIR.difference(results), "above", 0.1)]))

    return replace(CLAIMS["heads"], decide=decide, checks=checks).judge(results)


FAR, NEAR = [0.9, 0.91, 0.92], [0.6, 0.65, 0.64]
HEADROOM, POWER = harness.headroom("accuracy", PAIR, 0.5), harness.power(PAIR, 0.3, 0.1, "Who 2000")


@pytest.mark.parametrize(
    ("eight", "few", "check", "said"),
    [
        (FAR, NEAR, HEADROOM, "holds: more 0.28 ["),
        ([1, 1, 1], [0.96, 1, 1], HEADROOM, "undecided (headroom): accuracy of the weaker"),
        (FAR, [0.5, 0.55, 0.51], HEADROOM, "undecided (headroom): accuracy of the weaker"),
        (FAR, NEAR, harness.solved("accuracy", PAIR, 0.9), "holds"),
        (FAR, NEAR, harness.solved("accuracy", PAIR, 0.95), "undecided (solved task): accuracy of the better above"),
        (FAR, NEAR, harness.control("by chance", "accuracy", {"heads": 1}, high=0.7), "holds"),
        (FAR, NEAR, harness.control("by chance", "accuracy", {"heads": 1}, high=0.6), "undecided (control): by chance"),
        (FAR, NEAR, POWER, "holds"),
        (FAR, [0.2, 0.9, 0.7], POWER, "undecided (power): probability of seeing a"),
    ],
)
def test_a_check_that_fails_leaves_a_claim_undecided(eight, few, check, said):
    assert str(claim_of(eight, few, check)).startswith(said)
    assert claim_of(eight, few).kind in ("holds", "undecided", "does not hold here")


def test_the_checks_are_printed_with_their_numbers():
    text = " ".join(PAGE["record"](CLAIMS["clauses"]).text().split())
    assert "headroom: both clauses known of the weaker above 0.3 and below 0.95: 0." in text and "failed" not in text


@pytest.mark.parametrize(
    ("distance", "spread", "seeds"), [(0.3, 0.3, 5), (0.1, 0.3, 15), (-4.0, 4.8, 15), (0.2, 0.1, 5)]
)
def test_power_is_the_share_of_simulated_experiments_that_see_the_effect(distance, spread, seeds):
    drawn = np.random.default_rng(1).normal(abs(distance), spread, (20_000, seeds))
    half = t.ppf(0.975, seeds - 1) * drawn.std(axis=1, ddof=1) / seeds**0.5
    seen = (drawn.mean(axis=1) - half > 0).mean()
    expected = t.ppf(0.975, seeds - 1) * spread / seeds**0.5
    assert harness.power_of(distance, expected, seeds) == pytest.approx(seen, abs=0.015)
    assert (harness.power_of(0.1, 0.0, 5), harness.power_of(0.0, 0.0, 5)) == (1, 0)


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
