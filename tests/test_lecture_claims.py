"""Claims: the rules change their verdict with the numbers, cells are kept, and what is recorded is what is shown."""

import runpy
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

import heed
from commands import call
from heed.claims import Results, harness, read_claim
from heed.claims.harness import ClaimResult, read_texts
from heed.data.embedded import recall, texts
from heed.errors import ConfigError, DataError
from heed.evaluation.significance import over_seeds

RECORDS = Path(__file__).parents[1] / "docs" / "claims"
EXPECTED = {
    "cost": "holds",
    "parameters": "holds",
    "order": "holds only",
    "scaling": "holds",
    "which-root": "does not hold here",
    "decoder-training": "does not hold here",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", EXPECTED)
def test_claims_without_training(name, here, monkeypatch):
    experiment = read_claim(name)[1]
    computed = tuple(cell for cell in experiment.grid if cell.get("queries") != "learned")
    monkeypatch.setattr(f"heed.claims.{name.replace('-', '_')}.EXPERIMENT", replace(experiment, grid=computed))
    result = heed.claim(name, seeds=3)
    assert result.verdict.kind == EXPECTED[name]
    assert f"Verdict: {result.verdict.kind}" in result.text()
    assert result.svg().startswith("<svg")
    again = here / "again.json"
    result.save(again)
    assert heed.claim(name, from_file=again).json() == result.json()


def test_parameters_are_those_of_the_closed_form(here):
    results = heed.claim("parameters").results
    assert [results.mean("parameters", network="mlp", length=t).value for t in (5, 50, 500)] == [10954, 103114, 1024714]
    assert {results.mean("parameters", network="gru", length=t).value for t in (5, 50, 500)} == {19466}


def recorded(name):
    return heed.claim(name, from_file=RECORDS / f"{name}.json")


def planted(rows, name, values):
    """The rows with the effect removed: every value of a setting has the numbers of one of them."""
    settings = {row[name] for row in rows if name in row}
    return [{**row, name: value} for row in rows if row.get(name) == values for value in settings]


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("forgetting", "model", "seq2seq"),
        ("forgetting", "model", "bahdanau"),
        ("both-sides", "network", "forward"),
        ("both-sides", "network", "both"),
        ("order", "encoder", "GRU"),
        ("scaling", "divided", "not"),
        ("which-root", "divisor", "none"),
        ("cost", "model", "no attention"),
        ("parameters", "network", "mlp"),
        ("rollout", "by", "last layer"),
        ("local-cnn", "network", "cnn, 1"),
        ("explanation", "method", "attention"),
        ("explanation", "encoder", "Transformer"),
        ("leak", "direction", "forward"),
        ("parallel", "network", "LSTM"),
        ("residual", "connections", "none"),
        ("self-attentive", "network", "LSTM"),
        ("supervised", "links", "none"),
    ],
)
def test_without_the_effect_the_verdict_changes(name, setting, value):
    result = recorded(name)
    without = Results(planted(result.results.rows, setting, value))
    assert result.experiment.decide(without)[::3] != result.verdict[::3]


_VIT_ON_FEW = {"model": "vit", "pictures": 250}
_WORDS, _BOTH = {"pretraining": "masked words"}, {"pretraining": "masked words, next sentence"}
PLANTED = {  # rows with these settings get these numbers, with which the sentence would be true
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
}


@pytest.mark.parametrize("name", PLANTED)
def test_with_the_effect_planted_a_claim_that_was_not_confirmed_holds(name):
    result = recorded(name)
    rows = [dict(row) for row in result.results.rows]
    for number, value, where in PLANTED[name]:
        for row in rows:
            if number in row and where.items() <= row.items():
                row[number] = value
    assert result.verdict.kind != "holds" and result.experiment.decide(Results(rows)).kind == "holds"


def test_a_decoder_that_sees_ahead_changes_the_verdict():
    result = recorded("decoder-training")
    leaking = [{**row, "leak": 0.5} if "leak" in row else row for row in result.results.rows]
    assert (result.verdict.kind, result.experiment.decide(Results(leaking)).kind) == ("does not hold here", "holds")


def test_counting_beyond_training_would_change_the_verdict_of_gru_or_lstm():
    result = recorded("gru-or-lstm")
    counts = [
        {**row, "right": 1.0} if row["task"] == "counting" and row["network"] == "LSTM" else row
        for row in result.results.rows
    ]
    assert (result.verdict.kind, result.experiment.decide(Results(counts)).kind) == ("does not hold here", "holds only")


def test_a_record_without_its_numbers_is_refused_by_its_name(here):
    Path("mine.json").write_text('{"format": "heed-claim-1", "claim": "cost", "rows": [], "quick": false}')
    with pytest.raises(ConfigError, match=r"^'mine\.json' lacks numbers that the rule of cost needs: "):
        heed.claim("cost", from_file="mine.json")


@pytest.mark.slow
def test_shuffled_labels_change_the_verdict_of_a_trained_claim(here, monkeypatch):
    experiment = read_claim("both-sides")[1]
    few = tuple(cell for cell in experiment.grid if cell["decided_by"] == "after")
    monkeypatch.setattr("heed.claims.both_sides.EXPERIMENT", replace(experiment, grid=few))
    assert heed.claim("both-sides", seeds=2).verdict.kind == "holds only"
    made = texts.pair_of

    def shuffled(beginning, rng):
        person, thing = made(beginning, rng)
        if rng.random() < 0.5:
            return person, thing
        without, tags = ("O",) * len(person.words), list("O" * len(thing.words))
        place = thing.words.index("Teddy")
        tags[place : place + 2] = ["B-person", "I-person"]
        return replace(person, tags=without), replace(thing, tags=tuple(tags))

    monkeypatch.setattr(texts, "pair_of", shuffled)
    monkeypatch.setattr(harness, "_folder", lambda name, quick: here / "shuffled")
    assert heed.claim("both-sides", seeds=2).verdict.kind == "does not hold here"


def test_an_interrupted_claim_goes_on(here, monkeypatch):
    experiment, measured = read_claim("order")[1], []

    def measure(cell):
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(cell.key)
        return experiment.measure(cell)

    monkeypatch.setattr("heed.claims.order.EXPERIMENT", replace(experiment, measure=measure))
    with pytest.raises(KeyboardInterrupt):
        heed.claim("order")
    assert harness.state_of("order") == "3 of 25 cells"
    monkeypatch.setattr("heed.claims.order.EXPERIMENT", experiment)
    assert heed.claim("order").verdict.kind == "holds only"
    monkeypatch.setattr("heed.claims.order.EXPERIMENT", replace(experiment, measure=measure))
    heed.claim("order")  # complete, so nothing is measured again
    assert harness.state_of("order").endswith(f": {heed.claim('order').verdict}")


def test_the_command(here, capfd):
    assert "not run" in call(capfd, "claim")[1]
    assert call(capfd, "claim", "cost", "--out", "cost.svg")[0] == 0
    assert Path("cost.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "Verdict: holds" in call(capfd, "claim", "cost", "--from-file", str(RECORDS / "cost.json"))[1]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("forgeting", {}, "unknown claim 'forgeting'; did you mean 'forgetting'"),
        ("both-sides", {"seeds": 1}, "seeds is 1; an interval over seeds needs 2 or more"),
        ("order", {"from_file": "none.json"}, "no file 'none.json'"),
        ("order", {"from_file": RECORDS / "cost.json"}, "is no record of claim order: .*claim 'cost'"),
    ],
)
def test_errors(name, options, said, here):
    with pytest.raises(ConfigError, match=said):
        heed.claim(name, **options)


def test_a_quick_result_says_so():
    rows = list(recorded("order").results.rows)
    assert "not the recorded one" in ClaimResult("order", rows, quick=True).text()


def test_every_claim_has_a_rule_and_every_experiment_a_text():
    texts_of = read_texts()
    assert len(texts_of) == 24
    assert all("does not hold here" in one.rule.lower() and "holds" in one.rule.lower() for one in texts_of.values())
    folder = Path(harness.__file__).parent
    files = {path.stem.replace("_", "-") for path in folder.glob("*.py")} - {"--init--", "harness", "experiment"}
    assert files <= set(texts_of)


def test_the_interval_over_seeds_is_students():
    found = over_seeds([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.776445 * (2.5 / 5) ** 0.5
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0 - half, 3.0 + half), abs=1e-5)
    assert over_seeds([7.0]).low == over_seeds([7.0]).high == 7.0


def test_texts_to_remember():
    for text, symbol in islice(recall.delayed_recall((1, 5), 1), 50):
        words = text.split()
        assert (words[0], words[-1]) == (symbol, "?") and len(words) - 1 in (1, 5)
    for text, total in islice(recall.adding((2, 9), 1), 50):
        marked = [int(word[1:]) for word in text.split() if word.startswith("x")]
        assert len(marked) == 2 and sum(marked) == int(total)
    for text, answer in islice(recall.look_ups(3, 2, 1), 50):
        things, asked = (part.split() for part in text.split(" ? "))
        colour, shape = things[things.index(asked[1]) + 1], things[things.index(asked[3]) + 2]
        assert answer == f"{colour}-{shape}" and asked[1] != asked[3]
    for text, answer in islice(recall.two_clauses((0, 4), 1), 50):
        assert answer == f"{text.split()[0]}-{text.split()[-1]}"
    for text in islice(recall.counted((3,), 1), 2):
        assert text == "a a a b b b"
    first = list(islice(recall.delayed_recall((4,), 1), 5))
    assert first == list(islice(recall.delayed_recall((4,), 1), 5)) != list(islice(recall.delayed_recall((4,), 2), 5))
    with pytest.raises(DataError, match="lag is"):
        next(recall.delayed_recall((0,), 1))
    with pytest.raises(DataError, match="9 things"):
        next(recall.look_ups(9, 2, 1))


def test_the_page_is_that_of_the_records():
    made = runpy.run_path(str(RECORDS.with_suffix(".py")))["page"]()
    assert RECORDS.with_suffix(".md").read_text(encoding="utf-8") == made, "run python docs/claims.py"


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_records_are_complete_and_their_figures_current(path):
    result = heed.claim(path.stem, from_file=path)
    assert not result.quick
    assert result.json() == path.read_text(encoding="utf-8")
    assert result.svg() == path.with_suffix(".svg").read_text(encoding="utf-8")
    cells = [cell | {"seed": seed} for cell in result.experiment.grid for seed in result.results.of("seed")]
    assert all(any(cell.items() <= row.items() for row in result.results.rows) for cell in cells)
    assert len(result.results.of("seed")) == (harness.SEEDS if result.experiment.seeded else 1)
