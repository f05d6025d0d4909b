"""The estimators follow scikit-learn's protocol: its own checks, clones, searches, pipelines, copies."""

import random
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

from heed.sklearn import Classifier, Tagger

SETTINGS = {
    "model.d_embedding": 8,
    "model.d_hidden": 8,
    "tokenizer.min_count": 1,
    "training.threads": 1,
    "training.device": "cpu",
    "training.warmup": 0,
    "training.learning_rate": 0.05,
    "training.validate_every": 1_000,
    "evaluation.bootstrap": 10,
}
FAST = (
    "check_estimators_overwrite_params",
    "check_dont_overwrite_parameters",
    "check_estimators_unfitted",
    "check_n_features_in_after_fitting",
    "check_estimators_pickle",
    "check_classifiers_one_label",
    "check_classifiers_regression_target",
    "check_methods_sample_order_invariance",
    "check_fit_idempotent",
    "check_requires_y_none",
)
"""Checks that are made each time; the others are made with the slow tests."""


def texts(count=40):
    drawn = random.Random(1)
    labels = [drawn.choice([0, 1]) for _ in range(count)]
    words = [[drawn.choice("the a film plot was very".split()) for _ in range(4)] for _ in labels]
    return [" ".join([*some, ["awful", "fine"][label]]) for some, label in zip(words, labels, strict=True)], labels


def classifier(steps=3, **others):
    return Classifier("rnn", size="tiny", steps=steps, settings=SETTINGS, **others)


class OfNumbers(Classifier):
    """The classifier for rows of numbers, each written as a text, as scikit-learn's checks have them."""

    def __init__(self, model="rnn", *, steps=3, settings=None):
        super().__init__(model, size="tiny", steps=steps, settings=settings)

    def _train(self, examples):
        settings, self.settings = self.settings, SETTINGS
        try:
            super()._train(examples)
        finally:
            self.settings = settings

    def fit(self, X, y):  # noqa: N803
        if y is None:
            return super().fit(["a"], y)
        X, y = validate_data(self, X, y)  # noqa: N806
        return super().fit(written(X), y)

    def predict_proba(self, X):  # noqa: N803
        check_is_fitted(self, "run_")
        return super().predict_proba(written(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = True, False
        tags.classifier_tags.poor_score = True  # of three updates
        return tags


def written(rows):
    return [" ".join(f"{chr(97 + i % 26)}{round(2 * value)}" for i, value in enumerate(row)) for row in rows.tolist()]


@pytest.mark.parametrize("estimator", [Classifier(steps=1), Tagger(steps=1)], ids=["Classifier", "Tagger"])
def test_the_check_of_scikit_learn_passes(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that texts are no arrays
        results = check_estimator(estimator, on_skip=None)
    assert results and all(one["status"] == "passed" for one in results)


def checks(slow):
    found = []
    for estimator, check in estimator_checks_generator(OfNumbers()):
        name = getattr(check, "func", check).__name__
        if name != "check_array_api_input" and (name in FAST) != slow:
            found.append(pytest.param(estimator, check, id=name))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), checks(slow=False))
def test_checks_of_scikit_learn_pass_on_numbers_written_as_texts(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), checks(slow=True))
def test_all_other_checks_of_scikit_learn_pass_on_numbers_written_as_texts(estimator, check):
    check(estimator)


def test_a_classifier_learns_and_its_probabilities_follow_the_order_of_its_classes():
    given, labels = texts()
    names = np.array(["neg", "pos"])[labels]
    fitted = classifier(steps=20).fit(np.array(given), names)
    assert fitted.score(given, names) > 0.9 and fitted.predict(["a fine film"]).tolist() == ["pos"]
    probabilities = fitted.predict_proba(["a fine film", "awful", ""])
    assert probabilities.shape == (3, 2) and np.allclose(probabilities.sum(1), 1)
    assert (probabilities.argmax(1)[:2] == [1, 0]).all()
    assert np.allclose(probabilities[2], [np.mean(names == "neg"), np.mean(names == "pos")])  # a blank text
    numbers = classifier(steps=20).fit(given, labels)
    assert numbers.classes_.tolist() == [0, 1] and numbers.predict(["fine"]).dtype == np.asarray(labels).dtype
    assert "awful" in str(fitted.run_.look("an awful film"))


def test_cross_validation_searches_and_pipelines_work():
    given, labels = texts()
    scores = cross_val_score(classifier(steps=20), given, labels, cv=2, error_score="raise")
    assert len(scores) == 2 and scores.mean() > 0.7
    search = GridSearchCV(classifier(), {"steps": [1, 20]}, cv=2, error_score="raise").fit(given, labels)
    assert search.best_params_ == {"steps": 20}
    pandas = pytest.importorskip("pandas")
    pipe = Pipeline([("classify", classifier(steps=20))]).fit(pandas.DataFrame({"text": given}), labels)
    assert pipe.score(pandas.Series(given), labels) > 0.7
    copy = clone(pipe.set_params(classify__steps=2))
    assert copy.get_params()["classify__steps"] == 2 and copy.get_params()["classify__settings"] == SETTINGS
    with pytest.raises(NotFittedError):
        copy["classify"].predict(given)


def test_each_fit_has_a_folder_of_its_own(tmp_path):
    given, labels = texts()
    fitted = classifier(folder=tmp_path / "runs").fit(given, labels)
    assert fitted.run_.folder == tmp_path / "runs" / "fit-1"
    assert fitted.fit(given, labels).run_.folder == tmp_path / "runs" / "fit-2"
    folder = classifier().fit(given, labels).run_.folder
    assert not folder.exists()  # it lives as long as the estimator


def test_a_copy_by_joblib_predicts_without_the_folder(tmp_path):
    given, labels = texts()
    fitted = classifier().fit(given, labels)
    expected, folder = fitted.predict_proba(given), fitted.run_.folder
    joblib.dump(fitted, tmp_path / "fitted.joblib")
    del fitted
    assert not folder.exists()
    copy = joblib.load(tmp_path / "fitted.joblib")
    assert (copy.predict_proba(given) == expected).all() and copy.get_params() == classifier().get_params()
    joblib.dump(copy, tmp_path / "again.joblib")
    assert (joblib.load(tmp_path / "again.joblib").predict_proba(given) == expected).all()


@pytest.mark.slow
def test_estimators_that_other_processes_fit_predict_here():
    given, labels = texts()
    found = cross_validate(classifier(20), given, labels, cv=2, n_jobs=2, return_estimator=True, error_score="raise")
    assert [one.score(given, labels) > 0.7 for one in found["estimator"]] == [True, True]


@pytest.mark.parametrize(
    ("given", "labels", "message"),
    [
        ([["a"], ["b"]], [0, 1], r"X\[0\]: the text is the list \['a'\], expected text"),
        (np.zeros((2, 2)), [0, 1], r"X\[0\]: the text is the list \[0.0, 0.0\], expected text"),
        ("a text", [0], r"X is the text 'a text'; expected a list of texts"),
        (["a", "b"], [0], "there are 2 texts and 1 labels"),
        (["a", "b"], [0, 0], "y has one class, "),
        (["a", "b"], None, "requires y to be passed, but the target y is None"),
        ([], [], "X has 0 texts; a minimum of 1 is required"),
        (["a", "b"], [0.5, 1.7], "Unknown label type: continuous"),
    ],
)
def test_input_that_is_no_list_of_texts_is_refused(given, labels, message):
    with pytest.raises(ValueError, match=message):
        classifier().fit(given, labels)


def test_a_tagger_tags_words_and_is_searched_and_copied(tmp_path):
    sentences = [["Ada", "met", "Turing"], ["nobody", "saw", "Paris"], ["Paris", "is", "nice"], ["he", "likes", "Ada"]]
    tags = [["B-PER", "O", "B-PER"], ["O", "O", "B-LOC"], ["B-LOC", "O", "O"], ["O", "O", "B-PER"]]
    sentences, tags = sentences * 12, tags * 12
    tagger = Tagger("rnn", size="tiny", steps=60, settings=SETTINGS)
    assert cross_val_score(tagger, sentences, tags, cv=2, error_score="raise").mean() > 0.7
    fitted = clone(tagger).fit(sentences, tags)
    assert fitted.predict([["Paris", "likes", "Ada"], ["saw"]]) == [["B-LOC", "O", "B-PER"], ["O"]]
    (probabilities,) = fitted.predict_proba([["saw", "Ada"]])
    assert probabilities.shape == (2, len(fitted.classes_)) and np.allclose(probabilities.sum(1), 1, atol=1e-5)
    assert fitted.classes_[probabilities[1].argmax()] == "B-PER"
    joblib.dump(fitted, tmp_path / "fitted.joblib")
    assert joblib.load(tmp_path / "fitted.joblib").predict(sentences[:3]) == fitted.predict(sentences[:3])
    with pytest.raises(ValueError, match=r"X\[0\] is the text 'Ada met', expected a list of words"):
        fitted.predict(["Ada met"])
    with pytest.raises(NotFittedError):
        tagger.predict(sentences)
