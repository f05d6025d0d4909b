"""Special tokens, how words, pieces and bytes are written as tokens, and raw text cut into words.

The `tokenizers` library represents bytes by printable letters, as GPT-2's code did. Printable characters of Latin-1
represent themselves; the 68 other bytes are U+0100 and the characters after it.

A token of bytes may be part of a character: outputs that end within a character show U+FFFD, and where tokens are shown
one by one, such bytes are shown by number in angle brackets. The words of a look are whole characters.
"""

from __future__ import annotations

import codecs
import json
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from itertools import accumulate, count, pairwise
from typing import Any, NamedTuple

from tokenizers import Regex, Tokenizer, normalizers

from heed.errors import InputError

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
BERT_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
"""Names of the same four tokens in a vocabulary of word pieces."""
PADDING, UNKNOWN, START, END = range(4)


class Special(NamedTuple):
    """Ids of a tokenizer's special tokens; those of heed's own tokenizers by default.

    An imported vocabulary keeps its ids. Where it lacks a token, its end token takes that role.
    """

    padding: int = PADDING
    unknown: int = UNKNOWN  # -1 if nothing is unknown
    start: int = START
    end: int = END

    @property
    def unseen(self) -> int:
        """The token of a word without tokens: unknown, or end if nothing is unknown."""
        return self.end if self.unknown < 0 else self.unknown

    @property
    def never_written(self) -> tuple[int, ...]:
        """Tokens that no output contains."""
        return tuple(i for i in self[:3] if i not in (-1, self.end))


OWN = Special()
"""The ids of heed's own tokenizers."""
MASK = "[MASK]"
MASKS = (MASK, "<mask>")
"""Names of the mask token, in vocabularies trained here and in imported ones."""
BLANK = "\u2581"
"""Represents the space before a word, as in SentencePiece."""
CONTINUED = "##"
"""Prefix of a word piece that is not the first of its word (WordPiece)."""
SIGNS = "$+<=>^`|~\u20ac\u00a3"
"""Characters that are punctuation marks in addition to those of Unicode."""


_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = count(0x100)
LETTERS = "".join(chr(byte if byte in _PRINTABLE else next(_OTHERS)) for byte in range(256))
"""The letter of each byte."""
BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}
"""The byte of each letter."""


def _shown(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"\u27e8{byte:02x}\u27e9" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("heed-bytes", _shown)


def readable(raw: bytes) -> str:
    """Bytes as text; those that are not UTF-8, such as parts of a character, by number: \u27e8e2\u27e9."""
    return raw.decode("utf-8", "heed-bytes")


def whole_characters(tokens: Iterable[bytes]) -> list[range]:
    """The indices of tokens, given by their bytes, in groups of whole characters; a token without bytes is alone."""
    starts, waiting, n = [], b"", -1
    for n, raw in enumerate(tokens):
        if not (waiting and raw and 0x80 <= raw[0] < 0xC0):  # it does not continue an incomplete character
            starts.append(n)
            waiting = b""
        waiting = _unfinished(waiting + raw)
    return [range(start, end) for start, end in pairwise([*starts, n + 1])]


def _unfinished(raw: bytes) -> bytes:
    """The last bytes if they are the beginning of an incomplete character, else none."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(raw)
    return decoder.getstate()[0]


_BEFORE, _AFTER = re.compile(r" (?=[.,:;!?%)\]}\u2026\u3002\uff0c])"), re.compile(r"(?<=[(\[{$\u00bf\u00a1]) ")
"""Spaces to leave out: before the first kind of marks, and after the second."""
_INSIDE = re.compile(r"(?<=\w) (['\u2019]) (?=\w)")
"""An apostrophe within a word."""


def joined(pieces: Iterable[str]) -> str:
    """Word pieces as text: spaces between words, except next to marks where English has none."""
    text = "".join(piece.removeprefix(CONTINUED) if is_continued(piece) else f" {piece.strip()}" for piece in pieces)
    return _INSIDE.sub(r"\1", _AFTER.sub("", _BEFORE.sub("", text))).strip()


def is_continued(piece: str) -> bool:
    """True if a word piece continues the word before it ("##" alone is two characters of a text)."""
    return piece.startswith(CONTINUED) and piece != CONTINUED


def around_masks(text: str, mask: str, with_blank: bool) -> list[str]:
    """The parts of a text between its masks, "[MASK]" or `mask`; `with_blank` removes the spaces before each mask."""
    names = "|".join(map(re.escape, {MASK, mask}))
    return re.split(rf"\s*(?:{names})" if with_blank else names, text)


_LONGEST, _GROWTH = 1_000, 100
"""Most characters that one replacement inserts, and most times that all together lengthen a text."""
_HIGHEST = 1 << 24
"""Highest id of a token: the library counts up to it, and no vocabulary has 17 million tokens."""


def check_ids(vocabulary: Any) -> None:
    """Refuse a vocabulary with an id that none has; lists, which have no ids, are fine.

    Raises:
        ValueError: The message names token and id.
    """
    for token, i in vocabulary.items() if isinstance(vocabulary, dict) else ():
        if type(i) is not int or not 0 <= i <= _HIGHEST:
            raise ValueError(f"token {token!r:.50} has the id {i!r:.50}, expected at most {_HIGHEST:,}")


@contextmanager
def refused_texts(*texts: str) -> Iterator[None]:
    """Explain errors of the library for a text with half of a surrogate pair, or that a regular expression fails on.

    Raises:
        InputError: A text has such a half, which typed bytes that are not UTF-8 become; or the library panicked.
    """
    try:
        yield
    except (TypeError, UnicodeEncodeError):
        for text in texts:
            if isinstance(text, str) and (match := re.search("[\ud800-\udfff]", text)):
                what = f"has {match[0]!a} at position {match.start() + 1}, which is not a character"
                raise InputError(f"the text {text[:40]!a} {what}; give it in UTF-8") from None
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, a BaseException of no module that can be imported
            raise
        named = f"the text {texts[0][:40]!r}" if len(texts) == 1 else "a text"
        raise InputError(f"the tokenizer's own rules fail on {named} ({error}); use another tokenizer") from None


def library_of(state: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of the library from its JSON.

    Raises:
        ValueError: An id is too high, or its replacements lengthen texts so much that reading one might never end, or
            fail on printable characters.
        Exception: It is not such JSON; the library has no narrower error.
    """
    for part in ("normalizer", "decoder"):
        steps = [(*step["pattern"].popitem(), step["content"]) for step in _replacements(deepcopy(state.get(part)))]
        probe = text = string.printable + "".join(pattern[:_GROWTH] + new[:_GROWTH] for _, pattern, new in steps)
        for kind, pattern, new in steps:
            step = normalizers.Replace(Regex(pattern) if kind == "Regex" else pattern, new)
            with refused_texts(text):
                text = step.normalize_str(text) if len(new) <= _LONGEST else text
            if len(new) > _LONGEST or len(text) > _GROWTH * len(probe):
                what = f"its {part} replaces {pattern!r:.50} by {new!r:.50}"
                raise ValueError(f"{what}, which lengthens texts without end")
    check_ids(state["model"].get("vocab"))
    return Tokenizer.from_str(json.dumps(state))


def _replacements(step: Any) -> Iterator[Any]:
    """The steps of a kind that replaces, in their order."""
    if step is not None and step["type"] == "Replace":
        yield step
    for inner in (step or {}).get("normalizers") or (step or {}).get("decoders") or ():
        yield from _replacements(inner)


def without_prefix(library: Tokenizer) -> Tokenizer:
    """The tokenizer without the space that it prepends to texts; unchanged if it prepends none."""
    state = json.loads(library.to_str())
    cutter = state["pre_tokenizer"] or {}
    first = cutter["pretokenizers"][0] if cutter.get("type") == "Sequence" else cutter
    if first.get("type") != "Metaspace" or first["prepend_scheme"] == "never":
        return library
    first["prepend_scheme"] = "never"
    result = Tokenizer.from_str(json.dumps(state))
    result.encode_special_tokens = True
    return result


_PATTERN = (
    r"(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?')\]]"  # an address
    r"|[@#]\w+"  # a name or a tag of social media
    r"|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # scripts without spaces: each character
    r"|\d+(?:[.,:/]\d+)*%?"
    r"|(?:[^\W\d_]\.){2,}"  # U.S.
    r"|\w+?(?=n['\u2019]t\b)|n['\u2019]t\b"  # do n't
    r"|['\u2019](?:s|m|re|ve|ll|d)\b"  # it 's
    r"|[^\W_](?:[\wMARKS]|-(?=\w)|['\u2019](?!(?:s|m|re|ve|ll|d|t)\b)(?=\w))*"
    r"|\.{2,}|(\S)\1*"
)

_ESCAPED = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), _PATTERN)
WORD = "(?i:" + _ESCAPED.replace("MARKS", r"\p{M}") + ")"
"""The words of `split_words` as an expression for the `tokenizers` library, which knows the class of marks."""


@cache
def _pattern() -> re.Pattern[str]:
    """The expression with all vowel signs and accents, which are part of a word; `re` has no class for them."""
    marks = "".join(c for c in map(chr, range(0x300, 0x12000)) if unicodedata.category(c) in ("Mn", "Mc"))
    return re.compile(_PATTERN.replace("MARKS", re.escape(marks)), re.IGNORECASE)


def split_words(text: str) -> list[tuple[int, int]]:
    """The spans `(start, end)` of the words and marks of a text.

    Words keep hyphens and apostrophes inside them; English clitics ('s, n't) are separate words, as in most corpora; so
    is every other mark, together with repeats of it. Each Chinese or Japanese character is a word.
    """
    return [match.span() for match in _pattern().finditer(text)]


_UNCUT = re.compile(r"[\u0e01-\u0edf\u1000-\u109f\u1780-\u17d3]")
"""Letters and marks of Thai, Lao, Burmese and Khmer."""


def lack_spaces(texts: Iterable[str]) -> bool:
    """True if most characters are of scripts without spaces between words that `split_words` does not cut."""
    return sum(2 * len(_UNCUT.findall(text)) - len(text) for text in texts) > 0


def join_words(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Words joined by spaces, and the span `(start, end)` of each."""
    ends = accumulate(len(word) + 1 for word in words)
    return " ".join(words), [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]
