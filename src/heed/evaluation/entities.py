"""Scores of predicted tags against true ones: entities by seqeval's default mode, plain tags by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heed.data.read.tags import Entity, entities
from heed.evaluation.measures import Measure, share
from heed.evaluation.metrics import bootstrap

__all__ = ["EntityError", "entity_errors", "entity_f1", "score_tags", "score_words", "tag_measures"]

Tags = Sequence[Sequence[str]]


def score_tags(true: Tags, predicted: Tags, *, plain: bool = False, resamples: int = 1000) -> dict[str, Any]:
    """The report of one test set, as plain values.

    Args:
        true: The tags of each sentence.
        predicted: The same.
        plain: Whether tags mark no entities (parts of speech).
        resamples: Bootstrap resamples over sentences for the intervals.

    Returns:
        examples, words, accuracy of tags; and for entities precision, recall, entity_f1 (of all together, exact spans
        and types) and per_type; for plain tags per_tag. What cannot be divided (a type that nobody predicts) is 0.
    """
    words = [len(tags) for tags in true]
    right = [sum(t == p for t, p in zip(*pair, strict=True)) for pair in zip(true, predicted, strict=True)]
    report: dict[str, Any] = {"task": "tagging", "examples": len(true), "words": sum(words)}
    accuracy = asdict(bootstrap(right, words, resamples))
    if plain:
        return {**report, "accuracy": accuracy, "per_tag": _plain_report(true, predicted)}
    from seqeval.metrics import classification_report

    both = [(set(entities(t)), set(entities(p))) for t, p in zip(true, predicted, strict=True)]
    hits = [2 * len(t & p) for t, p in both]
    values = (
        classification_report(
            [list(tags) for tags in true], [list(tags) for tags in predicted], output_dict=True, zero_division=0
        )
        if any(t or p for t, p in both)
        else {"micro avg": _NOTHING, "macro avg": _NOTHING}
    )
    whole, macro = _numbers(values.pop("micro avg")), _numbers(values.pop("macro avg"))
    values.pop("weighted avg", None)
    interval = asdict(bootstrap(hits, [len(t) + len(p) for t, p in both], resamples))
    return {
        **report,
        "entity_f1": {**interval, "value": whole["f1"]},
        "precision": whole["precision"],
        "recall": whole["recall"],
        "macro_f1": macro["f1"],
        "accuracy": accuracy,
        "per_type": {kind: _numbers(numbers) for kind, numbers in values.items()},
    }


_NOTHING = {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 0}


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    return {
        "precision": float(values["precision"]),
        "recall": float(values["recall"]),
        "f1": float(values["f1-score"]),
        "support": int(values["support"]),
    }


def _plain_report(true: Tags, predicted: Tags) -> dict[str, Any]:
    from sklearn.metrics import classification_report

    flat = [[tag for tags in side for tag in tags] for side in (true, predicted)]
    names = sorted(set(flat[0]) | set(flat[1]))
    values = classification_report(*flat, labels=names, output_dict=True, zero_division=0)
    return {name: _numbers(values[name]) for name in names}


def entity_f1(true: Tags, predicted: Tags) -> float:
    """F1 of exact entities, all types together, as seqeval's; 0 where there are none."""
    both = [(set(entities(t)), set(entities(p))) for t, p in zip(true, predicted, strict=True)]
    return 2 * sum(len(t & p) for t, p in both) / max(1, sum(len(t) + len(p) for t, p in both))


def score_words(
    words: Sequence[Sequence[str]], true: Tags, predicted: Tags, chosen: Sequence[str], resamples: int = 1000
) -> dict[str, Any]:
    """How often the tag of some words is right, with intervals over the sentences.

    Args:
        words: The words of each sentence.
        true: Their tags.
        predicted: Those that were said.
        chosen: Which words are counted.
        resamples: Bootstrap resamples for the intervals.

    Returns:
        Per word how often it occurs, and the share of right tags (NaN where it never does).
    """
    result: dict[str, Any] = {}
    for word in chosen:
        there = [[i for i, one in enumerate(sentence) if one == word] for sentence in words]
        right = [sum(t[i] == p[i] for i in at) for at, t, p in zip(there, true, predicted, strict=True)]
        counts = [len(at) for at in there]
        result[word] = {"support": sum(counts), "accuracy": asdict(bootstrap(right, counts, resamples))}
    return result


def tag_measures(true: Tags, predicted: Tags, plain: bool) -> tuple[Measure, ...]:
    """The scores of `score_tags` as measures, the one that matters most first: for comparisons."""
    right = [sum(t == p for t, p in zip(*pair, strict=True)) for pair in zip(true, predicted, strict=True)]
    accuracy = share("accuracy", "accuracy of tags", right, [len(tags) for tags in true])
    if plain:
        return (accuracy,)
    both = [(set(entities(t)), set(entities(p))) for t, p in zip(true, predicted, strict=True)]
    hits = [len(t & p) for t, p in both]
    return (
        share("entity_f1", "entity F1", [2 * n for n in hits], [len(t) + len(p) for t, p in both]),
        share("precision", "precision", hits, [len(p) for _, p in both]),
        share("recall", "recall", hits, [len(t) for t, _ in both]),
        accuracy,
    )


@dataclass(frozen=True)
class EntityError:
    """One entity that is not as it should be.

    Attributes:
        kind: "missed", "spurious", "type" (right words, wrong type) or "span" (overlapping words).
        true: The true entity, or None.
        predicted: The predicted one, or None.
    """

    kind: str
    true: Entity | None
    predicted: Entity | None

    def context(self, words: Sequence[str], around: int = 5) -> str:
        """The words with some on both sides, true entities in [ ], predicted ones in { }."""
        spans = [span for span in (self.true, self.predicted) if span is not None]
        first, last = min(span[1] for span in spans), max(span[2] for span in spans)
        shown = []
        for i in range(max(0, first - around), min(len(words), last + around)):
            word = words[i]
            for entity, signs in ((self.predicted, "{}"), (self.true, "[]")):
                if entity is not None:
                    word = (signs[0] if i == entity[1] else "") + word + (signs[1] if i == entity[2] - 1 else "")
            shown.append(word)
        return " ".join(shown)


def entity_errors(true: Sequence[str], predicted: Sequence[str]) -> list[EntityError]:
    """Every entity of one sentence that was missed, made up, given another type or cut elsewhere."""
    there, said = entities(true), entities(predicted)
    errors = []
    used: set[Entity] = set()
    for entity in there:
        if entity in said:
            continue
        over = [other for other in said if other not in there and other[1] < entity[2] and entity[1] < other[2]]
        nearest = next((o for o in over if o[1:] == entity[1:]), over[0] if over else None)
        if nearest is None:
            errors.append(EntityError("missed", entity, None))
        else:
            used.update(over)
            errors.append(EntityError("type" if nearest[1:] == entity[1:] else "span", entity, nearest))
    errors += [EntityError("spurious", None, other) for other in said if other not in there and other not in used]
    return sorted(errors, key=lambda error: (error.true or error.predicted or ("", 0, 0))[1])
