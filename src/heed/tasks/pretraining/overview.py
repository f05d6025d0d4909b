"""Overview of the documents of pretraining: as text, and as numbers for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heed.data.read.findings import found_table
from heed.tasks.base.overview import SideCounts, shown, token_lines
from heed.tasks.pretraining.batch import collate_rows
from heed.tasks.pretraining.rows import FOLLOWS, FOLLOWS_NOT, NO_QUESTION

if TYPE_CHECKING:
    from heed.tasks.pretraining.task import Pretraining

_SHOWN = {
    FOLLOWS: "the second text follows",
    FOLLOWS_NOT: "the second text is from another document",
    NO_QUESTION: "one text",
}


def overview(task: Pretraining) -> str:
    """Counts, problems found in the files, lengths, unknown tokens, rows as the model sees them."""
    sides = [_counts(task, split) for split in task.splits.examples]
    return "\n".join(
        [
            task.splits.summary,
            *found_table(task.splits.found),
            *token_lines(task.config.tokenizer.kind, task.tokenizer, sides),
            f"\n{_rows(task)}",
            "\nsamples as the model sees them in the first pass; below each, the masked words to predict:",
            *_samples(task),
        ]
    )


def _counts(task: Pretraining, split: str) -> SideCounts:
    """Count tokens and document lengths."""
    passages, counts = task.passages(split), SideCounts(split, "text")
    own = np.bincount(passages.ids, minlength=task.tokenizer.vocab_size)
    counts.tokens.update({token: int(count) for token, count in enumerate(own) if count})
    counts.lengths.update(np.diff(passages.starts).tolist())
    return counts


def _rows(task: Pretraining) -> str:
    """Describe the number and kinds of rows in the first pass."""
    rows = task.pass_of(0).rows
    follow, other, single = (int((rows.labels == label).sum()) for label in (FOLLOWS, FOLLOWS_NOT, NO_QUESTION))
    mean = float(rows.lengths.mean())
    kinds = (
        f"{follow:,} pairs that follow, {other:,} that do not, {single:,} single texts" if follow + other else "texts"
    )
    return f"a pass has {len(rows):,} rows of {mean:.0f} tokens on average: {kinds}"


def _samples(task: Pretraining) -> list[str]:
    """The first row of each kind."""
    one, lines = task.pass_of(0), []
    for label, what in _SHOWN.items():
        found = np.flatnonzero(one.rows.labels == label)[:1].tolist()
        if not found:
            continue
        batch = collate_rows(one.passages, one.rows, found, task.masking, (task.config.training.seed, 0))
        words = [task.tokenizer.token(i) for i in batch.words.tolist()]
        read = [task.tokenizer.token(i) for i in batch.tokens[0].tolist()]
        lines += [f"  {what}", f"    {shown(' '.join(read))}", *([f"    {shown(' '.join(words))}"] if words else [])]
    return lines
