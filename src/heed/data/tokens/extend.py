"""Extending a trained tokenizer with tokens for other texts: existing ids stay, new ones follow.

| kind | what is added |
|---|---|
| char, word | unknown characters or words |
| bpe, unigram | unknown characters; in unigram as improbable as the least probable token |
| wordpiece | unknown characters, at the start of a word and within one |
| bpe, byte_bpe | if asked for, further merges, applied after the existing ones |
| byte | nothing: no text has unknown bytes |

Texts without unknown tokens are cut as before, except where new merges join their tokens.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from heed.data.tokens.special import CONTINUED
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError

_TOGETHER = 1_000
_FIRST = 0xF0000
"""First of the private-use characters that represent tokens while merges of them are learned."""
_MOST = 0x10FFFE - _FIRST


def extended(
    tokenizer: TextTokenizer, texts: Sequence[str], most: int | None = None, min_count: int = 1, merges: int = 0
) -> TextTokenizer:
    """A tokenizer with further tokens; texts without anything new have the same tokens as before.

    Args:
        tokenizer: The tokenizer to extend; it is not changed.
        texts: Texts that may contain unknown tokens.
        most: Largest number of characters or words to add, the most frequent; None for all.
        min_count: Least number of occurrences of a character or word to add.
        merges: Number of merges to learn (bpe and byte_bpe only).

    Raises:
        ConfigError: The tokenizer has tags or added tokens, which must be last in the vocabulary; or merges are asked
            of a kind without merges.
    """
    if tokenizer.tags:
        tags = ", ".join(tokenizer.tags)
        raise ConfigError(f"a tokenizer with tags ({tags}) cannot be extended: they must stay last")
    state = json.loads(tokenizer.library.to_str())
    size = tokenizer.library.get_vocab_size(with_added_tokens=False)
    if last := [token["content"] for token in state["added_tokens"] if token["id"] >= size]:
        raise ConfigError(f"a tokenizer with added tokens ({', '.join(last)}) cannot be extended: they must stay last")
    is_bpe = isinstance(tokenizer.library.model, models.BPE)
    if merges and (not is_bpe or tokenizer.unit == "byte"):
        raise ConfigError("only a tokenizer of the kind bpe or byte_bpe can learn further merges")
    new = [] if tokenizer.is_of_bytes else _unknown_pieces(tokenizer, texts, min_count)[:most]
    vocabulary = state["model"]["vocab"]
    if isinstance(vocabulary, list):  # unigram
        least = min(score for _, score in vocabulary)
        vocabulary += [[piece, least] for piece in new]
    else:
        vocabulary.update((piece, i) for i, piece in enumerate(new, start=len(vocabulary)))
    result = _with(tokenizer, state)
    if not merges:
        return result
    for left, right in _new_merges(result, texts, merges):
        state["model"]["merges"].append([left, right])
        vocabulary.setdefault(left + right, len(vocabulary))
    return _with(tokenizer, state)


def _with(tokenizer: TextTokenizer, state: dict[str, object]) -> TextTokenizer:
    return TextTokenizer(Tokenizer.from_str(json.dumps(state)), tokenizer.special, tokenizer.rows)


def _unknown_pieces(tokenizer: TextTokenizer, texts: Iterable[str], min_count: int) -> list[str]:
    """Unknown pieces in texts, as in a vocabulary: the most frequent first, then alphabetically."""
    counts: Counter[str] = Counter()
    library = tokenizer.library
    for text in map(tokenizer.normalize, texts):
        if tokenizer.is_of_pieces:
            for word, _ in library.pre_tokenizer.pre_tokenize_str(text):
                counts.update([word[:1], *(CONTINUED + character for character in word[1:])])
        elif tokenizer.unit != "word":
            counts.update(text)
        elif library.pre_tokenizer is not None:
            counts.update(piece for piece, _ in library.pre_tokenizer.pre_tokenize_str(text))
    if tokenizer.unit == "token":
        del counts[" "]  # known by its mark, U+2581
    known = library.get_vocab()
    # Characters of long words, which are unknown to WordPiece, are added too: other words have them.
    new = [piece for piece, count in counts.items() if count >= min_count and piece not in known]
    return sorted(new, key=lambda piece: (-counts[piece], piece))


def _new_merges(tokenizer: TextTokenizer, texts: Sequence[str], count: int) -> Iterator[tuple[str, str]]:
    """New merges, learned by the library on texts in which each token is written as one character.

    Raises:
        ConfigError: The vocabulary is too large to learn merges.
    """
    if tokenizer.vocab_size > _MOST:
        raise ConfigError(
            f"further merges need a vocabulary of at most {_MOST:,} tokens; this one has {tokenizer.vocab_size:,}"
        )
    seen: set[int] = set()
    unknown = tokenizer.special.unknown

    def written() -> Iterator[str]:
        rest = iter(texts)
        while some := list(islice(rest, _TOGETHER)):
            for encoding in tokenizer.library.encode_batch(some, add_special_tokens=False):
                seen.update(encoding.ids)
                characters = [" " if token == unknown else chr(_FIRST + token) for token in encoding.ids]
                words = groupby(zip(encoding.word_ids, characters, strict=True), key=itemgetter(0))
                yield " ".join("".join(character for _, character in word) for _, word in words)

    lines = list(written())
    size = len(seen - {unknown}) + count
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False, special_tokens=[])
    )
    for left, right in json.loads(learner.to_str())["model"]["merges"]:
        yield _spelled(tokenizer, left), _spelled(tokenizer, right)


def _spelled(tokenizer: TextTokenizer, written: str) -> str:
    return "".join(tokenizer.token(ord(c) - _FIRST) for c in written)
