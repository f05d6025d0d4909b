"""Overview of the data of a translation, for people and as counts for the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heed.data.batch.pairs import TokenPair
from heed.data.examples import Pair
from heed.data.read.findings import found_table
from heed.data.tokens.tokenizer import UNKNOWN
from heed.tasks.base.overview import SideCounts, length_table, sample_lines, vocabulary_warnings
from heed.tasks.base.training_set import some_of
from heed.tasks.translation.data import TranslationData


def overview(task: TranslationData) -> str:
    """Counts, findings in the files, lengths, unknown tokens, samples as the model sees them."""
    tokenizer = task.config.tokenizer
    tokenizers = {"source": task.source_tokenizer, "target": task.target_tokenizer}
    rows, counted = [], []
    for split in (*task.splits.examples, *task.splits.extra):
        encoded = some_of(task.encoded(split))
        if len(encoded) < len(task.encoded(split)):
            counted.append(f"({split}: tokens of {len(encoded):,} of {len(task.encoded(split)):,} pairs)")
        rows += [SideCounts.of(split, side, (getattr(pair, side) for pair in encoded)) for side in tokenizers]
    return "\n".join(
        [
            task.splits.summary,
            *found_table(task.splits.found),
            f"\ntokenizer {tokenizer.kind}: {task.source_tokenizer.vocab_size:,} source tokens, "
            f"{task.target_tokenizer.vocab_size:,} target tokens{' (shared)' if tokenizer.shared else ''}\n",
            length_table(rows),
            *counted,
            *vocabulary_warnings(rows, tokenizers),
            "\nas read and, below, as the model sees them:",
            *(_sample(task, *one) for one in _samples(task)),
        ]
    )


def _samples(task: TranslationData) -> Iterator[tuple[Pair, TokenPair, str]]:
    """A few training examples, with the links that guide attention; the first example of each other split."""
    training = task.training
    chosen = training.samples()
    for index, pair, tokens in zip(chosen, training.examples_at(chosen), training.tokens_at(chosen), strict=True):
        yield pair, tokens, task.links_shown(index, pair)
    for name in task.split_names[1:]:
        if encoded := task.encoded(name):
            yield task.splits.examples[name][0], encoded[0], ""


def _sample(task: TranslationData, pair: Pair, tokens: TokenPair, links: str) -> str:
    source = ("source", pair.source, task.source_tokenizer, tokens.source)
    shown = sample_lines(pair.origin, "", [source, ("target", pair.target, task.target_tokenizer, tokens.target)])
    return f"{shown}\n    links   {links}" if links else shown


def report_counts(task: TranslationData) -> dict[str, Any]:
    """For each split and further corpus: examples, tokens, unknown tokens; for files, also those left out by each rule.

    A corpus's tag counts as a source token. If pairs are not in memory, tokens are counted on an even sample of
    `counted` pairs.
    """
    result: dict[str, Any] = {}
    extra = task.splits.extra
    every_count = task.splits.counts | {name: corpus.counts for name, corpus in extra.items()}
    for name in (*task.splits.examples, *extra):
        encoded = task.encoded(name)
        endless = name == "train" and task.splits.stream is not None
        entry: dict[str, Any] = {"examples": every_count["train"].kept if endless else len(encoded)}
        counted = some_of(encoded)
        if len(counted) < len(encoded):
            entry["counted"] = len(counted)
        if name in every_count:
            entry |= every_count[name].as_values()
        if name in extra:
            entry |= {"weight": extra[name].weight, "tag": extra[name].tag}
        for side in ("source", "target"):
            tokens: list[list[int]] = [getattr(pair, side) for pair in counted]
            entry[f"{side}_tokens"] = sum(map(len, tokens))
            entry[f"{side}_unknown"] = sum(ids.count(UNKNOWN) for ids in tokens)
        result[name] = entry
    return result
