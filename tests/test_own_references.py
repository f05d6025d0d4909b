"""Written texts are scored on the user's own references, as sacrebleu scores them, whatever a run reads."""

import json
import unicodedata
from types import SimpleNamespace

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

import heed
from heed.tasks.base.writing import WrittenText

WORDS = "Café RÍO (Ångström) x² Straße".split()
TARGETS = [unicodedata.normalize("NFD", f"{a} {b} {c}.") for a in WORDS for b in WORDS for c in ("Mañana", "NOW")]
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
