"""Overview of a language model's documents: as text, and as numbers for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heed.data.read.findings import found_table
from heed.tasks.base.overview import SideCounts, sample_lines, token_lines

if TYPE_CHECKING:
    from heed.tasks.language_modelling.task import LanguageModelling


def overview(task: LanguageModelling) -> str:
    """Counts, problems found in the files, lengths, unknown tokens, samples as the model sees them."""
    rows = [_counts(task, split) for split in task.splits.examples]
    return "\n".join(
        [
            task.splits.summary,
            *found_table(task.splits.found),
            *token_lines(task.config.tokenizer.kind, task.tokenizer, rows),
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
