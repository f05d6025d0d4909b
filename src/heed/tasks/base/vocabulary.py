"""Vocabularies: tokenizers learned from examples or taken from another run, word vectors as initial embeddings."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from heed.config import RunConfig
from heed.config.sections import with_tokenizer
from heed.data.corpus import cached
from heed.data.examples import Example
from heed.data.tokens.special import UNKNOWN
from heed.data.tokens.tokenizer import TextTokenizer, extended
from heed.data.word_vectors import FoundVectors, read_word_vectors, vector_width, vector_words
from heed.errors import ConfigError
from heed.layers import TokenEmbedding


def size_for(count: int, limits: Mapping[str, int] = MappingProxyType({"tiny": 3_000, "small": 100_000})) -> str:
    """The named size for an amount of data, by default of labelled texts: the first with at least that, or base."""
    return next((name for name, limit in limits.items() if count <= limit), "base")


C = TypeVar("C", bound=RunConfig)
Learned = tuple[C, Sequence[TextTokenizer], int]
"""The configuration with the kind and size of the tokenizers, these, and the number of examples in their training."""


def cached_tokenizers(
    config: C, corpora: Sequence[Sequence[Example]], learn: Callable[[], Learned[C]], **what: Any
) -> Learned[C]:
    """The result of `learn` for the texts of corpora, from the cache if it is there.

    Args:
        config: The configuration; its tokenizer section decides the tokenizers.
        corpora: The examples.
        learn: Decides the kind and size, and trains tokenizers.
        what: Further values that determine them (JSON).

    Raises:
        CacheError: Some examples are on disk, and the cache cannot be written to.
    """

    def make(folder: Path) -> dict[str, Any]:
        decided, tokenizers, used = learn()
        for n, tokenizer in enumerate(tokenizers):
            tokenizer.save(folder / f"tokenizer-{n}.json")
        chosen = decided.tokenizer.model_dump(include={"kind", "vocab_size"})
        return {"chosen": chosen, "tokenizers": len(tokenizers), "used": used}

    section = config.tokenizer
    what |= {"section": section.model_dump(mode="json", exclude={"sampling"}), "data": type(config.data).__name__}
    entry = cached(corpora, make, kind="tokenizers", **what)
    if entry is None:
        return learn()
    record = entry.record
    decided = with_tokenizer(config, record["chosen"]["kind"], lambda: record["chosen"]["vocab_size"], None)
    tokenizers = [TextTokenizer.load(entry.path / f"tokenizer-{n}.json") for n in range(record["tokenizers"])]
    if not entry.key:
        shutil.rmtree(entry.path)
    return decided, tokenizers, record["used"]


def overlap(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[str]:
    """Remarks on how a tokenizer that was trained on other text fits these texts."""
    counts: Counter[int] = Counter(chain.from_iterable(tokenizer.encode_all(texts)))
    total, characters = counts.total(), sum(map(len, texts))
    special = {*tokenizer.special}
    used = sum(token not in special for token in counts)
    of = sum(i not in special for i in range(tokenizer.vocab_size)) - len(tokenizer.tags)
    lines = [
        f"the tokenizer comes from another run: {used:,} of its {of:,} tokens occur in the new text, "
        f"{characters / max(1, total):.2f} characters per token"
    ]
    if unknown := counts[tokenizer.special.unknown]:
        pieces = Counter(chain.from_iterable(map(tokenizer.unknown_in, texts)))
        listing = ", ".join(f"{piece!r} ({count:,})" for piece, count in pieces.most_common(10))
        lines.append(
            f"warning: {unknown:,} tokens of the new text ({unknown / total:.2%}) are unknown to this tokenizer, "
            f"{len(pieces):,} different ones: {listing}"
        )
    return lines


def adapted(
    tokenizer: TextTokenizer, texts: Sequence[str], min_count: int | None = None
) -> tuple[TextTokenizer, list[str]]:
    """The tokenizer, extended by the tokens that these texts need if `min_count` is given, and remarks on both.

    `min_count` is how often a word must occur, for a tokenizer of words.
    """
    remarks = overlap(tokenizer, texts)
    if min_count is None:
        return tokenizer, remarks
    result = extended(tokenizer, texts, min_count=min_count if tokenizer.unit == "word" else 1)
    added = result.vocab_size - tokenizer.vocab_size
    return result, [*remarks, f"tokenizer extended by {added:,} tokens to {result.vocab_size:,}"]


_MISSING = 10
"""Most words without a vector that are listed."""


@dataclass(frozen=True)
class Coverage:
    """Coverage of a vocabulary, and of the training text, by word vectors."""

    path: Path  # the file
    vectors: int  # vectors in the file
    words: int  # words of the vocabulary
    exact: int  # words found in the file as they are
    lowered: int  # words found lower-cased
    tokens: int  # tokens of the training text, words outside the vocabulary included
    tokens_exact: int  # tokens whose word was found as it is
    tokens_lowered: int  # tokens whose word was found lower-cased
    missing: tuple[str, ...]  # the most frequent words without a vector

    def __str__(self) -> str:
        def share(exact: int, lowered: int, of: int) -> str:
            return f"{(exact + lowered) / max(1, of):.1%} ({lowered / max(1, of):.1%} lower-cased)"

        missing = f"; not found, the most frequent: {' '.join(self.missing)}" if self.missing else ""
        return (
            f"word vectors {self.path}: {self.exact + self.lowered:,} of {self.words:,} words, "
            f"{share(self.exact, self.lowered, self.words)}; of the training text "
            f"{share(self.tokens_exact, self.tokens_lowered, self.tokens)}{missing}"
        )

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        return {**vars(self), "path": str(self.path), "missing": list(self.missing)}


def with_words(tokenizer: TextTokenizer, section: Any) -> TextTokenizer:
    """The tokenizer, with `model.vector_words` extended by all words of the file of vectors.

    Raises:
        ConfigError: No file is given, or the tokens are not words.
        DataError: The file cannot be read.
    """
    if not getattr(section, "vector_words", False):
        return tokenizer
    if section.word_vectors is None:
        raise ConfigError("model.vector_words is true, but model.word_vectors names no file; give both or neither")
    if tokenizer.unit != "word":
        raise ConfigError("model.vector_words is true, which needs a tokenizer of words; set tokenizer.kind=word")
    return extended(tokenizer, vector_words(Path(section.word_vectors)))


def find_vectors(
    path: Path, tokenizer: TextTokenizer, width: int, field: str, counts: NDArray[np.int64]
) -> tuple[FoundVectors, Coverage]:
    """The vectors of the words of a vocabulary, with their places, and their coverage.

    Args:
        path: The file of vectors.
        tokenizer: The vocabulary.
        width: Width of the model's embeddings.
        field: The field of the model that sets it.
        counts: `(vocab_size,)`, occurrences of each token in the training text.

    Raises:
        ConfigError: The file's vectors have another width.
        DataError: The file cannot be read, or a line is malformed.
    """
    if (file_width := vector_width(path)) != width:
        raise ConfigError(
            f"the vectors of '{path}' have {file_width} numbers, but model.{field} is {width}; "
            f"set model.{field}={file_width}"
        )
    words = ["" if i in tokenizer.special else tokenizer.label(i) for i in range(tokenizer.vocab_size)]
    vectors = read_word_vectors(path, words, width)
    exact, lowered, without = vectors.places[vectors.exact], vectors.places[~vectors.exact], counts.copy()
    without[[*vectors.places, tokenizer.special.unknown]] = 0
    ranked = np.argsort(-without, kind="stable")[:_MISSING].tolist()
    return vectors, Coverage(
        path,
        vectors.read,
        sum(map(bool, words)),
        len(exact),
        len(lowered),
        int(counts.sum()),
        int(counts[exact].sum()),
        int(counts[lowered].sum()),
        tuple(tokenizer.label(token) for token in ranked if without[token]),
    )


@torch.no_grad()
def fill(embedding: TokenEmbedding, word_vectors: FoundVectors, scale: float) -> None:
    """Write vectors into an embedding table; other rows keep random values, scaled to the same variance.

    The model multiplies embeddings by `scale`; vectors are divided by it, so that the model reads them as given.

    Source: Kim 2014 (arXiv:1408.5882), section 4.3, for the variance.
    """
    if not len(word_vectors.places):
        return
    vectors = torch.from_numpy(word_vectors.vectors).to(embedding.weight) / scale
    embedding.weight.mul_(vectors.std(correction=0) / embedding.weight[UNKNOWN:].std(correction=0))
    embedding.weight[torch.from_numpy(word_vectors.places).to(embedding.weight.device)] = vectors


def embedding_of(body: nn.Module) -> TokenEmbedding:
    """The only table of token embeddings of a text model."""
    (embedding,) = (module for module in body.modules() if isinstance(module, TokenEmbedding))
    return embedding


def width_field(fields: Iterable[str]) -> str:
    """The field of a model that is the width of its embeddings."""
    return "d_embedding" if "d_embedding" in fields else "d_model"
