"""Extending a trained tokenizer with tokens for other texts: existing ids stay, new ones follow.

| kind | what is added |
|---|---|
| char, word | unknown characters or words |
| bpe, unigram | unknown characters; in unigram as improbable as the least probable token |
| wordpiece | unknown characters, at the start of a word and within one |
| byte, byte_bpe | nothing: no text has unknown bytes |

Texts without unknown tokens are cut as before.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer

from heed.data.tokens.special import CONTINUED
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError


def extended(
    tokenizer: TextTokenizer, texts: Sequence[str], most: int | None = None, min_count: int = 1
) -> TextTokenizer:
    """A tokenizer with further tokens; texts without anything new have the same tokens as before.

    Args:
        tokenizer: The tokenizer to extend; it is not changed.
        texts: Texts that may contain unknown tokens.
        most: Largest number of characters or words to add, the most frequent; None for all.
        min_count: Least number of occurrences of a character or word to add.

    Raises:
        ConfigError: The tokenizer has tags or added tokens, which must be last in the vocabulary.
    """
    if tokenizer.tags:
        tags = ", ".join(tokenizer.tags)
        raise ConfigError(f"a tokenizer with tags ({tags}) cannot be extended: they must stay last")
    state = json.loads(tokenizer.library.to_str())
    size = tokenizer.library.get_vocab_size(with_added_tokens=False)
    if last := [token["content"] for token in state["added_tokens"] if token["id"] >= size]:
        raise ConfigError(f"a tokenizer with added tokens ({', '.join(last)}) cannot be extended: they must stay last")
    new = [] if tokenizer.is_of_bytes else _unknown_pieces(tokenizer, texts, min_count)[:most]
    vocabulary = state["model"]["vocab"]
    if isinstance(vocabulary, list):  # unigram
        least = min(score for _, score in vocabulary)
        vocabulary += [[piece, least] for piece in new]
    else:
        vocabulary.update((piece, i) for i, piece in enumerate(new, start=len(vocabulary)))
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
