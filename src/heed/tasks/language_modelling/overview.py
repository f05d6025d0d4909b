"""Overview of a language model's documents: as text, and as numbers for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heed.data.read.findings import found_table
from heed.data.tokens.tokenizer import UNKNOWN
from heed.tasks.base.overview import SideCounts, length_table, sample_lines, vocabulary_warnings

if TYPE_CHECKING:
    from heed.tasks.language_modelling.task import LanguageModelling


def overview(task: LanguageModelling) -> str:
    """Counts, problems found in the files, lengths, unknown tokens, samples as the model sees them."""
    tokenizer = task.tokenizer
    rows = [_counts(task, split) for split in task.splits.examples]
    return "\n".join(
        [
            task.splits.summary,
            *found_table(task.splits.found),
            f"\ntokenizer {task.config.tokenizer.kind}: {tokenizer.vocab_size:,} tokens\n",
            length_table(rows),
            *vocabulary_warnings(rows, {"text": tokenizer}),
            "\nas read and, below, as the model sees them:",
            *(_sample(task, split) for split in task.splits.examples),
        ]
    )


def _counts(task: LanguageModelling, split: str) -> SideCounts:
    """Count tokens and document lengths, without end tokens."""
    stream, counts = task.stream(split), SideCounts(split, "text")
    own = np.bincount(stream.ids, minlength=task.tokenizer.vocab_size)
    lengths = np.diff(stream.starts) - task.end_token
    if task.end_token:
        own[task.first_token] -= stream.num_documents
    counts.tokens.update({token: int(count) for token, count in enumerate(own) if count})
    counts.lengths.update(lengths.tolist())
    return counts


def _sample(task: LanguageModelling, split: str) -> str:
    document = task.splits.examples[split][0]
    text = document.text[:120]
    return sample_lines(document.origin, "", [("text", text, task.tokenizer, task.tokenizer.encode(text).ids)])


def report_counts(task: LanguageModelling) -> dict[str, Any]:
    """Per split: documents, and those left out by each rule; tokens without end tokens; unknown tokens."""
    result: dict[str, Any] = {}
    for name in task.splits.examples:
        stream, counts = task.stream(name), task.splits.counts.get(name)
        endless = name == "train" and task.splits.stream is not None
        entry: dict[str, Any] = {"examples": stream.num_documents}
        if counts is not None:
            entry |= counts.as_values()
            entry["examples"] = counts.kept if endless else stream.num_documents
        entry["tokens"] = len(stream) - task.end_token * stream.num_documents
        entry["unknown"] = int((np.asarray(stream.ids) == UNKNOWN).sum())
        result[name] = entry
    return result
