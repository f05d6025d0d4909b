"""Texts as a classifier reads them: cut into sentences where the model wants them, to a largest length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heed.data.examples import Text
from heed.data.read.findings import Findings
from heed.data.read.layout import TextFormat
from heed.data.read.memory import Held, check_order, hold, labelled_columns
from heed.data.read.sentences import split_sentences, without_breaks
from heed.data.read.texts import text_reader
from heed.data.tokens.token_cache import encode_cached
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.base.contents import advice
from heed.tasks.classification.config import TextOptions


def cut_texts(
    tokenizer: TextTokenizer, texts: Sequence[str], data: TextOptions, hierarchical: bool, kept: bool
) -> list[tuple[list[list[int]], int]]:
    """Texts as sentences of tokens, and how many tokens behind `data.max_length` were left away.

    Without `hierarchical` a text is one sentence; `kept` keeps the tokens of many texts on disk.
    """
    if hierarchical:
        spans = [split_sentences(text, data.sentence_separator) for text in texts]
    else:
        texts = [without_breaks(text) for text in texts]
        spans = [[(0, len(text))] for text in texts]
    sentences_of_all = [text[a:b] for text, inside in zip(texts, spans, strict=True) for a, b in inside]
    encode = encode_cached if kept else TextTokenizer.encode_all
    rows = encode(tokenizer, sentences_of_all)
    result, start = [], 0
    for inside in spans:
        sentences = [row for row in rows[start : start + len(inside)] if row]
        start += len(inside)
        if hierarchical:
            sentences = [
                row[i : i + data.max_sentence] for row in sentences for i in range(0, len(row), data.max_sentence)
            ]
        result.append(_first_tokens(sentences, data.max_length))
    return result


def text_format(data: TextOptions, labels: Sequence[str] = ()) -> TextFormat:
    """How the files of a configuration are written; `labels` are known of the training set."""
    several = data.several_labels, data.label_separator
    return TextFormat(data.format, data.columns.text, data.columns.label, *several, frozenset(labels), advice)


def hold_texts(data: Any, split: str, section: TextOptions, findings: Findings) -> Held[Text]:
    """Texts with labels of data in one of the forms of `heed.data.read.memory`.

    Raises:
        DataError: It cannot be used; the message names the place and the value.
    """
    wanted = {"text": section.columns.text, "label": section.columns.label}
    held = hold(data, split, text_reader(text_format(section)), wanted, findings, guess=labelled_columns)
    check_order([one.text for one in held], [",".join(one.labels) for one in held], split)
    return held


def _first_tokens(sentences: list[list[int]], most: int) -> tuple[list[list[int]], int]:
    """The sentences up to a number of tokens, and how many tokens were left away."""
    kept: list[list[int]] = []
    left = most
    for sentence in sentences:
        if left > 0:
            kept.append(sentence[:left])
        left -= len(sentence)
    return kept, max(0, -left)
