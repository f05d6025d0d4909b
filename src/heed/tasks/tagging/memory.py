"""Tagged sentences from Python data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heed.data.examples import Sentence
from heed.data.read.conll import in_bio
from heed.data.read.findings import BadLine, Findings
from heed.data.read.memory import Held, Table, plain, text_at
from heed.data.read.tags import OUTSIDE, find_scheme, is_entity_tag
from heed.data.read.values import described

_ALIASES = {"words": ("tokens", "text", "sentence"), "tags": ("labels", "ner_tags", "pos_tags", "label", "tag")}


def hold_sentences(data: Any, split: str, scheme: str, findings: Findings) -> Held[Sentence]:
    """Sentences from data in a form of `heed.data.read.memory`, or lists of (word, tag); entities are converted to BIO.

    Raises:
        DataError: A sentence cannot be used; the message names it, the word and the value.
    """
    columns, remark = Table.of(_as_columns(data), split, ("words", "tags")).choose(
        {"words": None, "tags": None}, _ALIASES, setting=""
    )
    findings.remarks += [remark] if remark else []
    sentences: list[Sentence] = []
    for i, (words, tags) in enumerate(zip(columns["words"], columns["tags"], strict=True)):
        sentence = _sentence(words, tags, f"{split}[{i}]", findings)
        if isinstance(sentence, BadLine):
            findings.leave_out(sentence.rule)
        else:
            sentences.append(sentence)
    found = find_scheme(one.tags for one in sentences) if scheme == "auto" else scheme
    if found == "plain":
        return Held(sentences, findings)
    legal = [one for one in sentences if not _illegal(one, findings)]
    places = [("", one.origin) for one in legal]
    return Held(in_bio(legal, places, found, findings), findings)


def _as_columns(data: Any) -> Any:
    """Convert lists of (word, tag), one per sentence, to lists of words and lists of tags; keep other forms."""
    rows = data if isinstance(data, list) else ()
    if not rows or not all(isinstance(row, list) and all(_is_word(word) for word in row) for row in rows):
        return data
    return [tuple(zip(*row, strict=True)) if row else ((), ()) for row in rows]


def _is_word(word: Any) -> bool:
    return isinstance(word, tuple) and len(word) == 2 and isinstance(word[0], str)


def _sentence(words: Any, tags: Any, place: str, findings: Findings) -> Sentence | BadLine:
    lists: list[list[Any]] = []
    for name, values in (("words", words), ("tags", tags)):
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            message = f"{place}: the {name} are {described(values)}, expected a list of texts, one for each word"
            return findings.bad(f"no list of {name}", "", place, message)
        lists.append([*values])
    if len(lists[0]) != len(lists[1]):
        counts = (f"{len(values)} {name}{'' if len(values) == 1 else 's'}"
                  for name, values in zip(("word", "tag"), lists, strict=True))  # fmt: skip
        message = f"{place} has {' and '.join(counts)}; each word needs one tag"
        return findings.bad("different numbers of words and tags", "", place, message)
    read: list[list[str]] = []
    for name, values in zip(("word", "tag"), lists, strict=True):
        texts = []
        for number, value in enumerate(values):
            whole = plain(value)
            whole = str(whole) if name == "tag" and isinstance(whole, int) else whole
            text = text_at(whole, f"{place}: {name} {number}", place, findings)
            if isinstance(text, BadLine):
                return text
            texts.append(text)
        read.append(texts)
    return Sentence(tuple(read[0]), tuple(read[1]), origin=place)


def _illegal(sentence: Sentence, findings: Findings) -> bool:
    """True if a tag is neither an entity tag nor O; this is an error, or counted as a bad line."""
    wrong: Sequence[tuple[int, str]] = [
        (n, tag) for n, tag in enumerate(sentence.tags) if tag != OUTSIDE and not is_entity_tag(tag)
    ]
    if wrong:
        number, tag = wrong[0]
        message = f"{sentence.origin}: tag {number} is '{tag}', expected O, or B-, I-, E- or S- followed by a type "
        message += "(data.scheme=plain accepts any tag)"
        findings.leave_out(findings.bad("illegal tag", "", sentence.origin, message).rule)
    return bool(wrong)
