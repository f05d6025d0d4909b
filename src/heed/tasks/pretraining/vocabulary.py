"""The tokenizer of pretraining: its kind and size by the amount of text."""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.read.documents import Document
from heed.data.store.documents import sample_texts
from heed.data.store.store import StoredExamples
from heed.data.tokens.token_cache import learn_cached
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.base.sizes import with_tokenizer
from heed.tasks.pretraining.config import PretrainingConfig
from heed.tasks.pretraining.passages import plain_text


def learn_tokenizer(
    config: PretrainingConfig, documents: Sequence[Document]
) -> tuple[PretrainingConfig, TextTokenizer, str]:
    """Decide the kind and size of the tokenizer and train it, or take it from the cache.

    Returns:
        The configuration with kind and size; the tokenizer; and a remark for the user, or "".
    """
    texts, remark = sample_texts(documents)
    size = sum(map(len, texts))
    if isinstance(documents, StoredExamples):
        size = max(size, documents.num_bytes)
    config = with_tokenizer(config, "wordpiece", lambda: num_pieces(size), words=None)
    section = config.tokenizer
    settings = {"to": "pretrain", **section.model_dump(mode="json", exclude={"sampling"})}
    plain = [plain_text(text)[0] for text in texts]
    tokenizer = learn_cached(plain, settings, lambda: TextTokenizer.train_to_read(plain, section, mask=True))
    return config, tokenizer, remark


def num_pieces(characters: int) -> int:
    """The vocabulary size: one piece per 4,000 characters of text, from 1,000 to 30,000."""
    return min(30_000, max(1_000, characters // 4_000 // 500 * 500))
