"""Scores of predicted labels, tags and word alignments, with intervals.

Labels are scored by scikit-learn, entities by seqeval's default mode.

A gold alignment marks links as sure or possible; every sure link is also possible. With A the scored links, S the sure
and P the possible gold links:

    precision = |A and P| / |A|        recall = |A and S| / |S|        AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)

Source: Och and Ney 2003 (Computational Linguistics 29(1)), section 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from heed.data.examples import OUTSIDE, is_entity_tag
from heed.data.kinds.pairs import WordLink
from heed.data.kinds.tagged import Entity, entities
from heed.errors import DataError
from heed.evaluation.measures import Measure, Outcomes, ratio, share, values_of
from heed.evaluation.significance import intervals

Array = np.ndarray[Any, Any]
_BINS = 15
_SCORES = ("precision", "recall", "f1")
"""Names of the scores of a label."""


def f1_measures(true: Array, predicted: Array) -> tuple[Measure, Measure, Measure]:
    """Accuracy (all labels of an example correct), macro F1 and micro F1.

    F1 = 2 correct / (predicted + true). Macro F1 is the mean over the labels that were predicted or are true for some
    example; micro F1 is over all decisions together.

    Args:
        true: `(examples, labels)` of bool.
        predicted: `(examples, labels)` of bool.
    """
    hits, both = (true & predicted).astype(float), predicted.astype(float) + true
    return (
        share("accuracy", "accuracy", (true == predicted).all(1).astype(float).tolist()),
        Measure("macro_f1", "macro F1", np.concatenate([hits, both], axis=1), _macro, is_share=True),
        share("micro_f1", "micro F1", (2 * hits.sum(1)).tolist(), both.sum(1).tolist()),
    )


def _macro(sums: Array) -> Array:
    right, both = np.split(sums, 2, axis=1)
    occurs = both > 0
    each = np.where(occurs, 2 * right / np.maximum(both, 1), 0.0)
    macro: Array = each.sum(1) / np.maximum(1, occurs.sum(1))
    return macro


def label_outcomes(
    outputs: Sequence[str], true: Array, predicted: Array, probabilities: Array, labels: Sequence[str], several: bool
) -> Outcomes:
    """Labels of examples with their scores.

    Args:
        outputs: Readable outputs.
        true: `(examples, labels)` of bool, one True in each row unless `several`.
        predicted: As `true`.
        probabilities: `(examples, labels)`.
        labels: Names of the labels.
        several: True if an example may have several labels, or none.

    Returns:
        accuracy, macro_f1, micro_f1 (equal to accuracy unless `several`) and calibration_error; the details have
        per_label precision, recall, f1 and support, and unless `several` the confusion matrix, rows true.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    accuracy, macro, micro = f1_measures(true, predicted)
    calibration = calibration_error(true, predicted, probabilities, several)
    measures = (micro, macro, accuracy, calibration) if several else (accuracy, macro, calibration)
    of_labels = precision_recall_fscore_support(true.astype(int), predicted.astype(int), average=None, zero_division=0)
    details: dict[str, Any] = {
        **values_of([calibration]),
        "per_label": {
            label: {**dict(zip(_SCORES, map(float, scores), strict=True)), "support": int(support)}
            for label, *scores, support in zip(labels, *of_labels, strict=True)
        },
    }
    if not several:
        matrix = confusion_matrix(true.argmax(1), predicted.argmax(1), labels=range(len(labels)))
        details["confusion"] = {"labels": list(labels), "matrix": matrix.tolist()}
    return Outcomes(tuple(outputs), measures, () if several else (micro,), details=details)


def calibration_error(true: Array, predicted: Array, probabilities: Array, several: bool = False) -> Measure:
    """Expected calibration error: the difference between accuracy and confidence, averaged over bins of confidence.

    `sum over bins of (share of decisions in the bin) * |accuracy - mean confidence|`, 15 bins of equal width. A
    decision is the predicted label of an example; with `several`, each label of each example (confidence p or 1 - p).

    Source: Guo et al. 2017 (arXiv:1706.04599), equation 3.
    """
    if several:
        right, confidence = true == predicted, np.where(predicted, probabilities, 1 - probabilities)
    else:
        chosen = predicted.argmax(1)[:, None]
        right, confidence = (np.take_along_axis(array, chosen, 1) for array in (true, probabilities))
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    statistics = np.zeros((len(true), _BINS + 1))  # correct decisions minus confidence in each bin, number of decisions
    np.add.at(statistics, (np.arange(len(true))[:, None], bins), right - confidence)
    statistics[:, _BINS] = right.shape[1]
    gap = lambda sums: np.abs(sums[:, :_BINS]).sum(1) / np.maximum(1, sums[:, _BINS])  # noqa: E731
    return Measure("calibration_error", "calibration error", statistics, gap, higher_is_better=False, is_share=True)


Tags = Sequence[Sequence[str]]


def tag_measures(true: Tags, predicted: Tags, plain: bool) -> tuple[Measure, ...]:
    """Entity F1 (all types together, exact spans and types), precision, recall and accuracy; plain tags: only accuracy.

    Args:
        true: The true tags of each sentence.
        predicted: The predicted tags of each sentence.
        plain: True if tags mark no entities (parts of speech).
    """
    right = [sum(t == p for t, p in zip(*pair, strict=True)) for pair in zip(true, predicted, strict=True)]
    accuracy = share("accuracy", "accuracy of tags", right, [len(tags) for tags in true])
    if plain:
        return (accuracy,)
    both = [(set(entities(t)), set(entities(p))) for t, p in zip(true, predicted, strict=True)]
    hits = [len(t & p) for t, p in both]
    num_predicted, num_true = [len(p) for _, p in both], [len(t) for t, _ in both]
    counts = np.array([hits, num_predicted, num_true], dtype=np.float64).T
    return (
        Measure("entity_f1", "entity F1", counts, _f1, is_share=True),
        share("precision", "precision", hits, num_predicted),
        share("recall", "recall", hits, num_true),
        accuracy,
    )


def _f1(sums: Array) -> Array:
    """2 P R / (P + R), computed in seqeval's order to round alike; 0 without correct entities, NaN without entities."""
    hits, num_predicted, num_true = sums.T
    precision, recall = hits / np.maximum(num_predicted, 1), hits / np.maximum(num_true, 1)
    f1: Array = 2.0 * precision * recall / np.where(hits > 0, precision + recall, 1.0)
    return np.where(num_predicted + num_true > 0, f1, np.nan)


def tag_outcomes(outputs: Sequence[str], true: Tags, predicted: Tags, plain: bool) -> Outcomes:
    """Tags of sentences with their scores.

    Args:
        outputs: Readable outputs.
        true: The true tags of each sentence.
        predicted: The predicted tags of each sentence.
        plain: True if tags mark no entities.

    Returns:
        `tag_measures`; the details have words, and for entities precision, recall, macro_f1 and per_type, for plain
        tags per_tag. Undefined ratios (the precision of a type that was never predicted) are 0.
    """
    details: dict[str, Any] = {"words": sum(map(len, true))}
    measures, sides = tag_measures(true, predicted, plain), [[*map(list, side)] for side in (true, predicted)]
    if plain:
        from sklearn.metrics import classification_report

        flat = [[*chain(*side)] for side in sides]
        names = sorted({*flat[0], *flat[1]})
        values = classification_report(*flat, labels=names, output_dict=True, zero_division=0)
        details["per_tag"] = {name: _numbers(values[name]) for name in names}
        return Outcomes(tuple(outputs), measures, details=details)
    from seqeval.metrics import classification_report

    has_entities = any(entities(tags) for side in sides for tags in side)
    values = classification_report(*sides, output_dict=True, zero_division=0) if has_entities else {}
    macro_f1 = float(values["macro avg"]["f1-score"]) if has_entities else 0.0
    types = {kind: _numbers(numbers) for kind, numbers in values.items() if kind not in _MEANS}
    details |= {**values_of(measures[1:3]), "macro_f1": macro_f1, "per_type": types}
    return Outcomes(tuple(outputs), measures, details=details)


_MEANS = ("micro avg", "macro avg", "weighted avg")


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    scores = {name: float(values[key]) for name, key in zip(_SCORES, ("precision", "recall", "f1-score"), strict=True)}
    return {**scores, "support": int(values["support"])}


def score_words(
    words: Sequence[Sequence[str]], true: Tags, predicted: Tags, chosen: Sequence[str], resamples: int = 1000
) -> dict[str, Any]:
    """Tag accuracy of chosen words, with intervals over the sentences.

    Args:
        words: The words of each sentence.
        true: The true tags of each sentence.
        predicted: The predicted tags of each sentence.
        chosen: The words to score.
        resamples: Bootstrap resamples for the intervals.

    Returns:
        For each chosen word, its number of occurrences and the share of correct tags (NaN if it never occurs).
    """
    measures = []
    for word in chosen:
        places = [[i for i, other in enumerate(sentence) if other == word] for sentence in words]
        right = [sum(t[i] == p[i] for i in at) for at, t, p in zip(places, true, predicted, strict=True)]
        measures.append(share(word, word, right, [len(at) for at in places]))
    return {
        measure.name: {"support": int(measure.statistics[:, 1].sum()), "accuracy": accuracy.as_values()}
        for measure, accuracy in zip(measures, intervals(measures, resamples), strict=True)
    }


@dataclass(frozen=True)
class EntityError:
    """One wrong entity.

    Attributes:
        kind: "missed", "spurious", "type" (right words, wrong type) or "span" (overlapping words).
        true: The true entity, or None.
        predicted: The predicted entity, or None.
    """

    kind: str
    true: Entity | None
    predicted: Entity | None

    def context(self, words: Sequence[str], around: int = 5) -> str:
        """The entity with `around` words on both sides, true entities in [ ], predicted ones in { }."""
        spans = [span for span in (self.true, self.predicted) if span is not None]
        first, last = min(span[1] for span in spans), max(span[2] for span in spans)
        shown = list(words)
        for entity, signs in ((self.predicted, "{}"), (self.true, "[]")):
            if entity is not None:
                shown[entity[1]] = signs[0] + shown[entity[1]]
                shown[entity[2] - 1] += signs[1]
        return " ".join(shown[max(0, first - around) : last + around])


def entity_errors(true: Sequence[str], predicted: Sequence[str]) -> list[EntityError]:
    """Every entity of one sentence that was missed, is spurious, or has a wrong type or span."""
    true_entities, predicted_entities = entities(true), entities(predicted)
    errors = []
    used: set[Entity] = set()
    wrong = [entity for entity in predicted_entities if entity not in true_entities]
    for entity in true_entities:
        if entity in predicted_entities:
            continue
        over = [other for other in wrong if other[1] < entity[2] and entity[1] < other[2]]
        nearest = next((o for o in over if o[1:] == entity[1:]), over[0] if over else None)
        if nearest is None:
            errors.append(EntityError("missed", entity, None))
        else:
            used.update(over)
            errors.append(EntityError("type" if nearest[1:] == entity[1:] else "span", entity, nearest))
    errors += [EntityError("spurious", None, other) for other in wrong if other not in used]
    return sorted(errors, key=lambda error: (error.true or error.predicted or ("", 0, 0))[1])


def mark_entities(words: Sequence[str], tags: Sequence[str]) -> str:
    """A sentence with its entities in brackets, `[Ann Lee]person left .`; plain tags as `word/tag`."""
    if not all(tag == OUTSIDE or is_entity_tag(tag) for tag in tags):
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
    shown = list(words)
    for kind, start, end in entities(tags):
        shown[start] = "[" + shown[start]
        shown[end - 1] += f"]{kind}"
    return " ".join(shown)


# Word alignments

Cell = tuple[int, int]
"""A link (source word, target word), counted from 0."""


def alignment_measures(links: Sequence[Iterable[Cell]], gold: Sequence[Iterable[WordLink]]) -> list[Measure]:
    """Alignment error rate, precision and recall of the links of some pairs.

    Args:
        links: For each pair, the links to score.
        gold: For each pair, the gold links.

    Returns:
        `aer` (lower is better), `alignment_precision` and `alignment_recall`, with statistics for each pair, so that
        all of them have intervals.

    Raises:
        DataError: The numbers of alignments and of gold alignments differ.
    """
    if len(links) != len(gold):
        raise DataError(f"{len(links):,} alignments but {len(gold):,} gold alignments; give as many of both")
    rows = [_counts(set(pair_links), [*true]) for pair_links, true in zip(links, gold, strict=True)]
    counts = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return [
        Measure("aer", "alignment error rate", counts, _error_rate, higher_is_better=False, is_share=True),
        Measure("alignment_precision", "alignment precision", counts, lambda n: ratio(n[:, 1], n[:, 2]), is_share=True),
        Measure("alignment_recall", "alignment recall", counts, lambda n: ratio(n[:, 0], n[:, 3]), is_share=True),
    ]


def _counts(links: set[Cell], gold: Sequence[WordLink]) -> tuple[int, int, int, int]:
    """|A and S|, |A and P|, |A| and |S| of one pair."""
    sure = {(link.source, link.target) for link in gold if link.sure}
    possible = {(link.source, link.target) for link in gold}
    return len(links & sure), len(links & possible), len(links), len(sure)


def _error_rate(sums: Array) -> Array:
    return 1 - ratio(sums[:, 0] + sums[:, 1], sums[:, 2] + sums[:, 3])
