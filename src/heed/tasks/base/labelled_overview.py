"""The overview of labelled texts that `heed check` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from heed.data.read.findings import found_table
from heed.tasks.base.overview import SideCounts, sample_lines, token_lines
from heed.visible import escaped

if TYPE_CHECKING:
    from heed.tasks.base.labelled import LabelledTask

    Labelled = LabelledTask[Any, Any, Any, Any]


def overview_of(task: Labelled) -> str:
    """Counts, findings in the files, lengths, labels, samples as the model sees them."""
    rows = [SideCounts.of(split, "text", map(task.tokens_of, task.encoded(split))) for split in task.split_names]
    counted = "\n".join(
        f"{split:20}" + "  ".join(f"{escaped(label)} {count:,}" for label, count in task.label_counts(split).items())
        for split in task.split_names
    )
    return "\n".join(
        [
            task.splits.summary,
            *found_table(task.splits.found),
            *token_lines(task.config.tokenizer.kind, task.tokenizer, rows),
            *([f"\n{task.vectors()[1]}"] if task.config.model.word_vectors is not None else []),
            f"\nlabels:\n{counted}",
            "\nas read and, below, as the model sees them:",
            *(_sample(task, example, tokens) for example, tokens in _samples(task)),
        ]
    )


def _samples(task: Labelled) -> Iterator[tuple[Any, Any]]:
    """A few training examples, and the first of each other set."""
    train, encoded = task.splits.examples["train"], task.encoded("train")
    yield from ((train[i], encoded[i]) for i in range(0, len(train), max(1, len(train) // 3)))
    yield from (
        (task.splits.examples[name][0], task.encoded(name)[0]) for name in task.split_names[1:] if task.encoded(name)
    )


def _sample(task: Labelled, example: Any, encoded: Any) -> str:
    labels = " ".join(dict.fromkeys(task.labels_of(example)))
    text = " ".join(task.texts_of(example))
    return sample_lines(example.origin, labels, [("", text, task.tokenizer, task.tokens_of(encoded))])
