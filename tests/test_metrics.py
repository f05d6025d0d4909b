"""Scores: by hand, with intervals, ROUGE, the user's own references, and the baseline beside every score."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER

import heed
from contract import write_lines
from heed.comparison.results import Resampling, results_of
from heed.data.examples import Link, Sentence
from heed.evaluation.measures import Outcomes, length_buckets, share
from heed.evaluation.significance import intervals, summarise
from heed.evaluation.text_scores import commonest_outputs, commonest_share, distinct, rouge_measures, rouge_words
from heed.tasks.base.report import best_baseline
from heed.tasks.base.writing import NearestSentence, WrittenText
from heed.tasks.heads.alignment import aligned_characters
from heed.tasks.tagging import frequent_tags

# --- bootstrap


def bootstrap(top, bottom, resamples=1000, seed=1):
    (found,) = intervals([share("ratio", "ratio", top, bottom)], resamples, seed)
    return found


def test_the_interval_covers_a_known_proportion_as_often_as_it_says():
    p, size, tests = 0.7, 200, 200
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for seed in range(tests):
        sample = (torch.rand(size, generator=generator) < p).double().tolist()
        interval = bootstrap(sample, [1.0] * size, resamples=200, seed=seed)
        covered += interval.low <= p <= interval.high
    # 95 % of 200 is 190; five standard deviations are 15
    assert 175 <= covered < tests


# --- buckets


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), max_size=80), st.integers(1, 8))
def test_buckets_cover_every_length_once(lengths, most):
    buckets = length_buckets(lengths, most)
    assert len(buckets) <= most
    for length in lengths:
        assert sum(first <= length <= last for first, last in buckets) == 1
    for (_, last), (first, _) in itertools.pairwise(buckets):
        assert first == last + 1
    if lengths:
        assert (buckets[0][0], buckets[-1][1]) == (min(lengths), max(lengths))


def test_buckets_hold_about_equally_many():
    assert length_buckets(list(range(100)), 5) == [(0, 19), (20, 39), (40, 59), (60, 79), (80, 99)]
    assert length_buckets([3] * 50, 5) == [(3, 3)]


# --- alignment


def spans(*cuts):
    return list(zip((0, *cuts), cuts, strict=False))


@pytest.mark.parametrize(
    ("best", "query", "key", "links", "expected"),
    [
        # characters: "ab" from "ba", each target character comes from the other side
        ([1, 0], spans(1, 2), spans(1, 2), [((0, 1), (1, 2)), ((1, 2), (0, 1))], (2, 2)),
        ([0, 0], spans(1, 2), spans(1, 2), [((0, 1), (1, 2)), ((1, 2), (0, 1))], (1, 2)),
        # a token of three characters counts three
        ([0], spans(3), spans(2, 4), [((0, 3), (0, 2))], (3, 3)),
        ([1], spans(3), spans(2, 4), [((0, 3), (0, 2))], (0, 3)),
        # a token half inside the link counts the half that is
        ([0, 1], spans(2, 4), spans(1, 2), [((1, 3), (0, 1))], (1, 2)),
        # a source token that overlaps the linked span is right, one that touches it is not
        ([0], spans(1), spans(3, 6), [((0, 1), (2, 4))], (1, 1)),
        ([1], spans(1), spans(3, 6), [((0, 1), (2, 4))], (1, 1)),
        ([1], spans(1), spans(3, 6), [((0, 1), (0, 3))], (0, 1)),
        # what has no known source does not count, and neither do further queries (the end token)
        ([0, 0, 0], spans(1, 2, 3), spans(1), [((1, 2), (0, 1))], (1, 1)),
        ([0, 5], spans(1), spans(1), [((0, 1), (0, 1))], (1, 1)),
        ([0], spans(1), spans(1), [], (0, 0)),
    ],
)
def test_aligned_characters_by_hand(best, query, key, links, expected):
    assert aligned_characters(best, query, key, [Link(*link) for link in links]) == expected


# --- the report


def make_outcomes(linked=True):
    wrong, known = ([0, 2, 1, 0], [2, 3, 1, 4]) if linked else ([0] * 4, [0] * 4)
    measures = (
        share("exact_match", "exact match", [1, 0, 1, 1]),
        share("token_accuracy", "token accuracy", [3, 1, 4, 5], [3, 4, 4, 5]),
        share("alignment_error", "alignment error", wrong, known, higher_is_better=False),
    )
    details = {"perplexity": math.exp(8 / 16), "token_accuracy": 0.5}
    return Outcomes(("a", "b", "c", "d"), measures, lengths=(2, 3, 3, 9), details=details)


def test_a_report_by_hand():
    report = summarise(make_outcomes(), resamples=20, by_length=["exact_match"])
    assert report["examples"] == 4
    assert report["exact_match"]["value"] == 0.75
    assert report["alignment_error"]["value"] == pytest.approx(3 / 10)
    assert report["token_accuracy"] == 0.5  # a detail wins
    assert sum(bucket["examples"] for bucket in report["by_source_length"]) == 4
    threes = next(b for b in report["by_source_length"] if b["first"] <= 3 <= b["last"])
    assert threes["exact_match"]["value"] == pytest.approx(1 / 2) and threes["examples"] == 2
    assert "by_source_length" not in summarise(make_outcomes(), resamples=5)
    json.dumps(report, allow_nan=False)


def test_what_cannot_be_scored_is_0_in_a_report():
    assert summarise(make_outcomes(linked=False), resamples=5)["alignment_error"]["value"] == 0.0


# --- ROUGE: the words it counts in any script, its scores by hand and against rouge-score's own


def scores(outputs, references, **options):
    return {measure.name: measure.score() for measure in rouge_measures(outputs, references, **options)}


def test_the_scores_are_those_worked_out_by_hand():
    # 3 of 4 words and 1 of 3 pairs of neighbours are shared with a reference of 5 words; "cat on mat" is in both.
    found = scores(["the cat on mat"], ["a cat on the mat"])
    assert found["rouge1"] == pytest.approx(100 * 2 * (4 / 4) * (4 / 5) / (4 / 4 + 4 / 5))
    assert found["rouge2"] == pytest.approx(100 * 2 * (1 / 3) * (1 / 4) / (1 / 3 + 1 / 4))
    assert found["rougeL"] == pytest.approx(100 * 2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5))


def test_the_score_of_a_set_is_the_mean_over_its_examples():
    outputs, references = ["a b", "c", ""], ["a b", "d", "e f"]
    assert scores(outputs, references)["rouge1"] == pytest.approx(100 / 3)
    each = rouge_measures(outputs, references)[0].each()
    np.testing.assert_allclose(each, [100, 0, 0])


@given(st.text(st.characters(codec="ascii"), max_size=60))
def test_english_has_the_words_of_rouge_score(text):
    from rouge_score.tokenizers import DefaultTokenizer

    assert rouge_words(text) == DefaultTokenizer(use_stemmer=False).tokenize(text)


@pytest.mark.parametrize("stem", [False, True])
def test_english_has_the_scores_of_rouge_score(stem):
    from rouge_score.rouge_scorer import RougeScorer

    output, reference = "Meetings on Monday's budgets: 3 reports", "The meeting about Monday's budget (3 report)"
    theirs = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stem).score(reference, output)
    ours = scores([output], [reference], stem=stem)
    assert ours == pytest.approx({name: 100 * score.fmeasure for name, score in theirs.items()})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Réunion déplacée à 10h", ["réunion", "déplacée", "à", "10h"]),
        ("Πρόγραμμα, συνάντηση!", ["πρόγραμμα", "συνάντηση"]),
        ("मेरा घर", ["मेरा", "घर"]),  # vowel signs are marks, which Python's \\w leaves out
        ("会议改到3点", ["会", "议", "改", "到", "3", "点"]),
        ("ミーティング", list("ミーティング")),
        ("회의 시간", ["회의", "시간"]),
        ("ประชุม", ["ป", "ร", "ะ", "ชุ", "ม"]),
        ("it's e-mail_2", ["it", "s", "e", "mail", "2"]),
        (" \u0301 ... ", []),
    ],
)
def test_every_script_keeps_its_words(text, words):
    assert rouge_words(text) == words


def test_an_accent_counts_the_same_however_it_is_encoded():
    composed = "Réunion à Málaga"
    assert scores([unicodedata.normalize("NFD", composed)], [composed])["rouge2"] == pytest.approx(100)


def test_a_report_shows_points_with_an_interval_and_how_they_were_computed():
    outputs, references = ["a b c", "d e", "f g h"], ["a b c", "x y", "f g i"]
    measures = [*rouge_measures(outputs, references), share("exact_match", "exact match", [1, 0, 0])]
    report = summarise(Outcomes(tuple(outputs), tuple(measures)), 200)
    assert report["rouge2"]["value"] == pytest.approx(50)
    assert 0 <= report["rouge2"]["low"] < 50 < report["rouge2"]["high"] <= 100
    assert report["rouge2"]["signature"].startswith("rouge-score:0.1.2|F1|mean|no stems")


# --- how varied outputs are


OUTPUTS = ["I do not know.", "I do.", "i do not know", "Yes"]


def test_distinct_n_is_the_number_of_different_n_grams_over_all():
    # words: i do not know / i do / i do not know / yes
    assert distinct(OUTPUTS, 1).score() == pytest.approx(5 / 11)
    assert distinct(OUTPUTS, 2).score() == pytest.approx(3 / 7)  # i do, do not, not know
    assert distinct(["Yes", "No"], 2).score() == 0
    assert distinct([], 1).score() == 0
    assert distinct(["я не знаю", "我不知道"], 1).score() == 1
    (found,) = intervals([distinct(OUTPUTS, 1)], 200)
    assert found.low < found.value < found.high


def test_the_share_of_the_ten_commonest_outputs():
    outputs = [*"aaab", *map(str, range(20))]
    assert commonest_outputs(outputs)[0] == ("a", 3) and len(commonest_outputs(outputs)) == 10
    assert commonest_share(outputs).score() == pytest.approx((3 + 1 + 8) / 24)
    assert commonest_share(["same"] * 5).score() == 1


# --- Written texts are scored on the user's own references, as sacrebleu scores them, whatever a run reads


ACCENTED = "Café RÍO (Ångström) x² Straße".split()
TARGETS = [unicodedata.normalize("NFD", f"{a} {b} {c}.") for a in ACCENTED for b in ACCENTED for c in ("Mañana", "NOW")]
TINY = {f"model.d_{part}": 6 for part in ("embedding", "hidden", "attention")} | {
    "tokenizer.kind": "char",
    "tokenizer.normalization": "nfkc",  # reads "x2" for "x²", and one letter where the files have a combining accent
    "training.threads": 1,
    "training.device": "cpu",
    "evaluation.bootstrap": 5,
    "generation.max_length": 30,
}
TASKS = {
    "translation": ("luong", lambda text, n: {"source": f"text {n % 7} {n}", "target": text}, {}),
    "summarisation": ("bahdanau", lambda text, n: {"document": f"a text {n % 7} {n}", "summary": text}, {}),
    "dialogue": ("hred", lambda text, n: {"turns": [f"text {n % 7} {n}?", text]}, {"model.d_context": 6}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of a task, lower-casing or not, with its examples and what it wrote; made once."""
    folder, runs = tmp_path_factory.mktemp("references"), {}

    def run_of(task, lowercase):
        if (task, lowercase) in runs:
            return runs[task, lowercase]
        model, row, more = TASKS[task]
        file, test = folder / f"{task}.jsonl", folder / f"{task}-test.jsonl"
        for path, step in ((file, 1), (test, 5)):
            rows = [row(text, n) for n, text in enumerate(TARGETS)][::step]
            path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
        settings = TINY | more | {"tokenizer.lowercase": lowercase, "data.valid": str(file)}
        out = folder / f"{task}-{lowercase}"
        run = heed.train(task, train=file, model=model, steps=2, out=out, settings=settings, quiet=True)
        tokenizer, references = [*run.task.tokenizers().values()][-1], TARGETS[::5]
        outputs = [tokenizer.normalize(text) for text in [*references[1:], references[0]]]
        outputs[0] = tokenizer.normalize(references[0])
        runs[task, lowercase] = SimpleNamespace(
            run=run, test=test, examples=run.read([test]), references=references, outputs=outputs
        )
        return runs[task, lowercase]

    return run_of


def check(measures, outputs, references, lowercase):
    """Compare with sacrebleu; `outputs` are as written, `references` as in the file."""
    found = {measure.name: measure for measure in measures}
    metrics = {"bleu": BLEU(lowercase=lowercase), "chrf": CHRF(lowercase=lowercase), "ter": TER()}
    compared = found.keys() & metrics.keys()
    for name in compared:
        assert found[name].score() == pytest.approx(metrics[name].corpus_score(outputs, [references]).score, abs=1e-9)
        assert found[name].note == str(metrics[name].get_signature())
    return compared


def written(task, texts):
    made = [WrittenText(text, 0.0, 0.0, (), (), True, ()) for text in texts]
    return [[one] for one in made] if task == "dialogue" else made


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_scores_are_those_of_sacrebleu_on_the_file_of_references(made, task, lowercase):
    one = made(task, lowercase)
    measures = one.run.outcomes(one.examples, written(task, one.outputs)).measures
    assert check(measures, one.outputs, one.references, lowercase) >= {"bleu", "chrf"}
    (exact,) = (measure for measure in measures if measure.name == "exact_match")
    assert exact.score() == 1 / len(one.references)  # the first, but for what the tokenizer does not distinguish
    for outcomes in one.run.baselines(one.examples).values():
        texts = [text for answer in outcomes.outputs for text in answer.split("\n")]
        assert check(outcomes.measures, texts, one.references, lowercase)


@pytest.mark.parametrize("task", ["translation", "dialogue"])
def test_reports_say_that_case_is_ignored(made, task):
    for lowercase in (False, True):
        one = made(task, lowercase)
        text = "\n".join(one.run.head.report(one.run.evaluate([one.test])))
        assert ("case:lc|eff:no" in text) == lowercase
        assert ("BLEU and chrF ignore case, because the run writes lower case only" in text) == lowercase


@pytest.mark.parametrize("task", ["translation", "dialogue"])
def test_a_comparison_of_runs_that_differ_in_case_distinguishes_case(made, task):
    both = [made(task, lowercase) for lowercase in (False, True)]
    comparison = heed.compare([one.run for one in both], test=[both[0].test], resamples=20)
    for entry in comparison.outcomes:
        texts = [text for answer in entry[0].outputs for text in answer.split("\n")]
        assert check(entry[0].measures, texts, both[0].references, lowercase=False)
    assert "The runs normalise text differently" in comparison.text().replace("\n", " ")
    run = both[1].run
    assert not run.task.task.examiner_class()([run, run], both[1].examples).literal


@pytest.mark.parametrize("task", ["translation", "dialogue"])
def test_validation_scores_the_users_own_references(made, task):
    one = made(task, True).run.task
    assert one.input.to_write(one).references == TARGETS


# --- `heed evaluate`, `heed compare` and validation score the same outputs alike to the last digit, intervals
# included


@pytest.fixture
def run(case):
    return heed.load(case / "finished")


def same(score, value):
    """Whether an entry of a report has these numbers, whole or, where a report has no interval, the value alone."""
    return (
        (score == value["value"]) if not isinstance(score, dict) else all(score.get(key) == value[key] for key in value)
    )


def test_evaluate_and_compare_give_the_same_numbers(run, tmp_path):
    report = json.loads(json.dumps(run.evaluate("test")))
    if run.can("examiner"):
        shutil.copytree(run.folder, tmp_path / "again")
        comparison = heed.compare([run, tmp_path / "again"])
        for row in comparison.rows:
            for name in (measure.name for measure in comparison.measures):
                found = {"value": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"]}
                assert same(report[name], found), name
        # The main score by length too, where lengths are counted alike.
        main, (row, _) = comparison.measures[0].name, comparison.rows
        for bucket in report.get("by_source_length", []):
            at = f"{main}_length_{bucket['first']}_{bucket['last']}"
            assert same(bucket[main], {"value": row[at], "low": row[f"{at}_low"], "high": row[f"{at}_high"]})
        return
    outcomes = run.outcomes(run.examples("test"))
    resampling = Resampling(run.config.evaluation.bootstrap, 1)
    result = results_of({0: [outcomes]}, [1] * len(outcomes.outputs), 0, resampling)[0][0]
    assert result.scores
    for name, score in result.scores.items():
        if "columns" in report:  # of a series: "sold_mae"
            column, kind = name.rsplit("_", 1)
            entry = report["columns"][column]["model"][kind]
        else:
            entry = report[name]
        assert same(entry, {"value": score.value, "low": score.low, "high": score.high}), name


def test_validation_and_evaluation_give_the_same_numbers(run):
    validated, report = run.task.validate(run.model), run.evaluate("valid")
    shared = set(validated) & set(report)
    if run.config.task == "translation" and run.config.generation.beam_size > 1:
        shared -= {"bleu", "chrf", "exact_match"}  # validation searches greedily
    assert shared or run.config.task == "series"  # whose report has no loss
    for name in shared:
        assert report[name]["value"] == validated[name], name


def test_resamples_are_the_run_s_own_unless_they_are_given(run, tmp_path):
    if not run.can("examiner"):
        return
    shutil.copytree(run.folder, tmp_path / "again")
    pair = [run, tmp_path / "again"]
    assert heed.compare(pair).resampling == Resampling(run.config.evaluation.bootstrap, 1)
    assert heed.compare(pair, resamples=30, seed=2).resampling == Resampling(30, 2)


# --- A plain baseline beside every score: what it computes, where it is shown, and when a model is below it


WORDS = "one two three four five six seven eight nine ten".split()


def _jaccard(a, b):
    a, b = set(a.lower().split()), set(b.lower().split())
    return len(a & b) / len(a | b) if a | b else 0.0


def test_the_nearest_sentence_is_the_one_of_largest_jaccard_index():
    generator = np.random.default_rng(1)
    draw = [" ".join(generator.choice(WORDS, size=generator.integers(1, 7))) for _ in range(200)]
    train, tests = draw[:120], [*draw[120:], "Unseen words only", "ONE Two"]
    found = NearestSentence((source, str(place)) for place, source in enumerate(train)).translate(tests)
    for sentence, place in zip(tests, found, strict=True):
        similar = [_jaccard(sentence, source) for source in train]
        assert int(place) == int(np.argmax(similar)), sentence
    assert NearestSentence([]).translate(["one"]) == [""]


def test_a_word_has_its_most_frequent_tag_and_an_unseen_one_the_most_frequent_of_all():
    seen = [Sentence(("bear", "Bear", "bear"), ("O", "PER", "ANIMAL")), Sentence(("bear", "a"), ("ANIMAL", "O"))]
    (said,) = frequent_tags(seen)([Sentence(("bear", "Bear", "new"), ())])
    assert said.tags == ("ANIMAL", "PER", "ANIMAL")
    (ties,) = frequent_tags([Sentence(("x", "x"), ("B", "A"))])([Sentence(("x", "y"), ())])
    assert ties.tags == ("A", "A")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    texts = [f"{a} {b} {c} and so on" for a in WORDS for b in WORDS[:4] for c in WORDS[4:6]]
    return write_lines(folder / "a.tsv", *(f"{text}\t{text.upper()}" for text in texts))


@pytest.fixture(scope="module")
def translator(pairs, tmp_path_factory):
    settings = {"model.d_hidden": 8, "model.d_embedding": 8, "tokenizer.kind": "char"}
    out = tmp_path_factory.mktemp("baselines") / "run"
    return heed.train("translation", train=pairs, steps=1, out=out, settings=settings, quiet=True)


def test_a_translation_below_its_baselines_is_reported(translator):
    report = translator.evaluate("valid")
    copied, nearest = report["baselines"].values()
    assert copied["exact_match"]["value"] == 0.0 and 0 < nearest["bleu"]["value"] < 100
    assert report["better_baselines"]["nearest training sentence"] == ["bleu"]
    assert report["examples"] == translator.outcomes(translator.examples("valid")).measures[0].statistics.shape[0]


def test_without_a_test_set_the_validation_scores_stand_beside_the_baselines(translator):
    valid = translator.report["scores"]["valid"]
    nearest = valid["baselines"]["nearest training sentence"]["bleu"]
    assert nearest["value"] == translator.evaluate("valid")["baselines"]["nearest training sentence"]["bleu"]["value"]
    card = (translator.folder / "README.md").read_text()
    assert "valid: loss " in card and "  baseline (nearest training sentence): BLEU " in card
    assert f"the model is worse than this baseline: BLEU {valid['bleu']:.4g}, baseline {nearest['value']:.4g}" in card


def test_baselines_of_a_file_learn_from_the_training_data_alone(translator, tmp_path):
    source = next(iter(translator.examples("train"))).source
    own = write_lines(tmp_path / "own.tsv", f"{source}\tsomething else")
    made = translator.baselines(translator.read([own]))
    assert made["nearest training sentence"].outputs == (source.upper(),)


def test_the_best_baseline_is_the_one_with_the_best_first_score():
    scores = {"a": {"bleu": {"value": 9.0}, "chrf": {"value": 1.0}}, "b": {"bleu": {"value": 10.0}}}
    assert best_baseline({"bleu": {"value": 3.0}, "baselines": scores}) == "b"
    assert best_baseline({"chrf": {"value": 3.0}, "baselines": {"a": scores["a"]}}) == "a"
    assert best_baseline({"loss": 3.0, "baselines": scores}) is None and best_baseline({"bleu": 3.0}) is None


def test_without_its_data_only_copying_is_left(translator, tmp_path, monkeypatch):
    opened = heed.load(translator.folder)
    gone = opened.task.config.data.model_copy(update={"train": [str(tmp_path / "gone.tsv")]})
    monkeypatch.setattr(opened.task, "config", opened.task.config.model_copy(update={"data": gone}))
    assert [*opened.baselines(translator.examples("valid"))] == ["copying the source"]


def test_tags_and_rows_have_baselines(tmp_path):
    sentences = [f"{a} B-X\n{b} O\n" for a in WORDS for b in WORDS[:5]]
    columns = write_lines(tmp_path / "tags.conll", *"\n".join(sentences).splitlines())
    tagger = heed.train("tagging", train=columns, steps=1, out=tmp_path / "tags", quiet=True)
    report = tagger.evaluate("valid")
    frequent = report["baselines"]["most frequent tag of each word"]
    examples: list[Sentence] = list(tagger.examples("train"))
    valid = list(tagger.examples("valid"))
    pairs = zip(frequent_tags(examples)(valid), valid, strict=True)
    right = [said == true for one, e in pairs for said, true in zip(one.tags, e.tags, strict=True)]
    assert frequent["accuracy"]["value"] == pytest.approx(sum(right) / len(right))

    rows = [f"{i % 7},{i % 5},{'yes' if i % 3 else 'no'}" for i in range(90)]
    table = write_lines(tmp_path / "rows.csv", "a,b,label", *rows)
    run = heed.train("table", train=table, test=table, steps=1, out=tmp_path / "table", quiet=True)
    majority = run.report["scores"]["test"]["baselines"]["majority class"]
    assert majority["accuracy"]["value"] == pytest.approx(60 / 90)
    assert "baseline (majority class): accuracy 66.67%" in (run.folder / "README.md").read_text()
