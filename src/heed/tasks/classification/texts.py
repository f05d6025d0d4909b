"""Texts as a classifier reads them: split into sentences if the model reads sentences, cut to a maximum length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from heed.data.batch.texts import fit, frame_size
from heed.data.examples import Text, split_sentences, without_breaks
from heed.data.findings import Findings
from heed.data.kinds.inputs import parted
from heed.data.kinds.texts import TextFormat, text_reader
from heed.data.readers import Held, check_order, hold
from heed.data.tokens.token_cache import encode_cached
from heed.data.tokens.tokenizer import END, TextTokenizer
from heed.tasks.base.capabilities import suggest_task
from heed.tasks.classification.config import TextOptions

Cut = tuple[list[list[int]], int]
"""A text as sentences of tokens, and the number of its tokens that are not read."""


def cut_texts(
    tokenizer: TextTokenizer,
    texts: Sequence[str],
    data: TextOptions,
    hierarchical: bool,
    kept: bool,
    most: int,
    double: bool = False,
) -> list[Cut]:
    """Texts as sentences of tokens, and the number of tokens cut off after the first `most`.

    Without `hierarchical` a text is one sentence; `kept` caches the tokens of many texts on disk. The texts of a pair
    are separated by the end token, twice with `double`.
    """
    if data.columns.second is None:
        sentences = _sentences(tokenizer, texts, data, hierarchical, kept)
        return [_first_tokens(one, most) for one in sentences]
    parts = [part for text in texts for part in parted(text)]
    both = _sentences(tokenizer, parts, data, hierarchical, kept)
    pairs = zip(both[::2], both[1::2], strict=True)
    return [_pair(first, second, most, double, hierarchical) for first, second in pairs]


def _pair(first: list[list[int]], second: list[list[int]], most: int, double: bool, hierarchical: bool) -> Cut:
    """Two texts joined by end tokens (with `hierarchical`, as a separate sentence); the longer text is cut first."""
    between = [END] * (1 + double)
    lengths = [sum(map(len, one)) for one in (first, second)]
    fitted = fit(range(lengths[0]), range(lengths[1]), most + frame_size(False), double)
    kept = [len(one or ()) for one in fitted]
    whole, other = (_first_tokens(one, count)[0] for one, count in zip((first, second), kept, strict=True))
    sentences = [*whole, between, *other]
    return sentences if hierarchical else [list(chain(*sentences))], sum(lengths) - sum(kept)


def _sentences(
    tokenizer: TextTokenizer, texts: Sequence[str], data: TextOptions, hierarchical: bool, kept: bool
) -> list[list[list[int]]]:
    """Texts as sentences of tokens, none empty."""
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
        result.append(sentences)
    return result


def split_texts(text: str, data: TextOptions) -> list[str]:
    """The text, or both texts of a pair, without line breaks."""
    return [without_breaks(part) for part in ((text,) if data.columns.second is None else parted(text))]


def text_format(data: TextOptions, labels: Sequence[str] = ()) -> TextFormat:
    """The format of a configuration's files; `labels` are those of the training set."""
    columns, given = data.columns, (data.several_labels, data.label_separator, frozenset(labels), suggest_task)
    return TextFormat(data.format, columns.text, columns.label, *given, columns.second)


def hold_texts(data: Any, split: str, section: TextOptions, findings: Findings) -> Held[Text]:
    """Texts with labels from Python data, in one of the forms of `heed.data.readers`.

    Raises:
        DataError: The data cannot be used; the message names the place and the value.
    """
    columns = section.columns
    second = {} if columns.second is None else {"second": columns.second}
    wanted = {"text": columns.text, **second, "label": columns.label}
    held = hold(data, split, text_reader(text_format(section)), [*wanted], findings)
    check_order([one.text for one in held], [",".join(one.labels) for one in held], split)
    return held


def _first_tokens(sentences: list[list[int]], most: int) -> tuple[list[list[int]], int]:
    """The sentences up to a number of tokens, and the number of tokens cut off."""
    kept: list[list[int]] = []
    left = most
    for sentence in sentences:
        if left > 0:
            kept.append(sentence[:left])
        left -= len(sentence)
    return kept, max(0, -left)
