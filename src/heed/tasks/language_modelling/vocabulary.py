"""The tokenizer of a language model: trained, its kind and size by the amount of text, or taken from another run."""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.read.documents import Document
from heed.data.store.documents import sample_texts
from heed.data.store.store import StoredExamples
from heed.data.tokens.token_cache import learn_cached
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.tasks.base.sizes import with_tokenizer
from heed.tasks.base.transfer import Parent, Transfers, with_parents
from heed.tasks.base.vocabulary import taken
from heed.tasks.language_modelling.config import LanguageModelConfig, MealsData

_FEW_CHARACTERS = 100_000
"""Up to this much text, tokens are characters. From 200,000 characters of Shakespeare a tiny gpt learned, in 160
updates of 2,048 tokens, 2.65 bits per byte with 1,000 subwords and 3.16 with characters; from 1.1 million, in 250, 2.55
and 2.95."""
_GROWTH = ("extend", "new_merges")
"""Fields that extend the tokenizer of another run."""


def learn_tokenizer(
    config: LanguageModelConfig, documents: Sequence[Document]
) -> tuple[LanguageModelConfig, TextTokenizer, str]:
    """Decide the kind and size of the tokenizer and train it, or take it from the cache.

    For documents that are not held in memory a random sample is used, the same every time.

    Returns:
        The configuration with kind and size; the tokenizer; and a remark for the user, or "".
    """
    texts, remark = sample_texts(documents)
    size = sum(map(len, texts))
    if isinstance(documents, StoredExamples):
        size = max(size, documents.num_bytes)
    auto = "word" if isinstance(config.data, MealsData) else "char" if size <= _FEW_CHARACTERS else "byte_bpe"
    config = with_tokenizer(config, auto, lambda: num_tokens(size), words=None)
    section = config.tokenizer
    settings = {"to": "continue", **section.model_dump(mode="json", exclude={"sampling"})}
    tokenizer = learn_cached(texts, settings, lambda: TextTokenizer.train(texts, section, exact=True))
    return config, tokenizer, remark


def open_parents(
    config: LanguageModelConfig, task: type[Transfers]
) -> tuple[LanguageModelConfig, Parent | None, Parent | None]:
    """Open the runs of `model.from` and `tokenizer.from`, and set the configuration fields that follow from them.

    The tokenizer of a run of this task is taken with its weights, unless a tokenizer is configured.

    Raises:
        ConfigError: A run cannot be opened, or a field contradicts it; or there is no tokenizer to extend.
    """
    asked = config.tokenizer
    values = asked.model_dump(by_alias=True, include=asked.model_fields_set - set(_GROWTH))
    if config.model.from_ is not None and not values:
        parent = Parent.open(config.model.from_, "model.from")
        if parent.task.config.task == config.task:
            values["from"] = config.model.from_
    growth = {name: getattr(asked, name) for name in _GROWTH}
    if growth["extend"] and "from" not in values:
        raise ConfigError(
            "tokenizer.extend is true, but there is no tokenizer to extend; give --from RUN, or set tokenizer.from"
        )
    config, parent_of_model, spoken = with_parents(
        config.model_copy(update={"tokenizer": type(asked).model_validate(values)}), task
    )
    section = {**config.tokenizer.model_dump(by_alias=True), **growth}
    config = config.model_copy(update={"tokenizer": type(asked).model_validate(section)})
    return config, parent_of_model, spoken


def take_tokenizer(
    config: LanguageModelConfig, tokenizer: TextTokenizer, documents: Sequence[Document]
) -> tuple[TextTokenizer, list[str]]:
    """Take the tokenizer of another run, extended from the documents if asked for; with remarks for the user."""
    section = config.tokenizer
    texts, _ = sample_texts(documents)
    return taken(tokenizer, texts, section.min_count if section.extend else None, section.new_merges)


def num_tokens(characters: int) -> int:
    """The vocabulary size of subwords or words: one per 2,000 characters of text, from 1,000 to 32,000."""
    return min(32_000, max(1_000, characters // 2_000 // 500 * 500))
