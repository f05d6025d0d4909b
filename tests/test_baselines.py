"""A plain baseline beside every score: what it computes, where it is shown, and when a model is below it."""

from __future__ import annotations

import numpy as np
import pytest

import heed
from contract import write_lines
from heed.data.examples import Sentence
from heed.tasks.base.report import best_baseline
from heed.tasks.base.writing import NearestSentence
from heed.tasks.tagging.task import frequent_tags

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
