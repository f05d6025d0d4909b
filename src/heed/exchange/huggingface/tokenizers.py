"""Tokenizer folders of Hugging Face: read into a `TextTokenizer` and its numbering, and written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heed.data.tokens.tokenizer import TextTokenizer
from heed.exchange.huggingface.numbering import Numbering


def read_tokenizer(folder: Path, config: Mapping[str, Any]) -> tuple[TextTokenizer, Numbering]:
    """Read the tokenizer of a checkpoint, renumbered.

    Args:
        folder: The checkpoint's folder: `tokenizer.json`, or `vocab.txt`, or `vocab.json` and `merges.txt`, or
            `sentencepiece.bpe.model`; with `tokenizer_config.json`, which wins, `special_tokens_map.json` and
            `added_tokens.json` where it has them.
        config: Its `config.json`: `model_type` and `vocab_size`.

    Returns:
        The tokenizer, and where each of its tokens stands in the checkpoint's vocabulary: one for every row of its
        embedding, also for rows that its tokenizer has no token for.

    Raises:
        RunError: There is no tokenizer, a file is damaged, or it is of a kind that heed lacks.
    """
    raise NotImplementedError


def write_tokenizer(tokenizer: TextTokenizer, numbering: Numbering | None, folder: Path, family: str) -> None:
    """Write what `AutoTokenizer.from_pretrained` reads, so that it cuts texts the same.

    Args:
        tokenizer: A tokenizer that was imported or trained here.
        numbering: What `read_tokenizer` gave, while the vocabulary is the same; None for our own order.
        folder: The folder of the checkpoint.
        family: Its `model_type`, such as "bert" or "roberta".

    Raises:
        RunError: The family has no form for this kind of tokenizer.
    """
    raise NotImplementedError
