"""Tokenizers, model size and settings for few pairs, chosen by the number of pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from heed.config import FilesData
from heed.config.data import EmbeddedData
from heed.data.examples import Pair
from heed.models.base import Body
from heed.tasks.base import sizes
from heed.tasks.base.sizes import num_subwords
from heed.tasks.translation.config import TranslationConfig
from heed.training.device import choose_device

FEW_PAIRS = 10_000
"""Settings for few pairs apply below this number of training pairs of text."""
PAIRS_A_MINUTE = 2_000
"""Settings for few pairs also apply from this number of training pairs of text for each minute of a time budget on a
CPU: they learn faster, and a larger model would see each pair too seldom (docs/benchmarks.md has the measurements)."""
_FOR_FEW_PAIRS: dict[str, dict[str, Any]] = {
    "tokenizer": {"lowercase": "source"},
    "training": {"guided_attention": 1.0, "label_smoothing": 0.1, "batch_tokens": 1_000, "learning_rate": 0.002},
    "generation": {"beam_size": 5},
}
"""Fields of sections for few pairs, unless the user gave them (docs/benchmarks.md has the effect of each)."""


def few_because(config: TranslationConfig, num_pairs: int) -> str | None:
    """Why settings for few pairs apply to this number of training pairs, for people; None if they do not."""
    if num_pairs < FEW_PAIRS:
        return f"fewer than {FEW_PAIRS:,} pairs"
    training = config.training
    if training.steps is not None or training.minutes is None or getattr(config.data, "stream", False):
        return None
    if num_pairs < PAIRS_A_MINUTE * training.minutes or choose_device(training.device).type != "cpu":
        return None
    return f"{num_pairs:,} pairs are more than a CPU can train on in {training.minutes:g} minutes (training.minutes)"


def for_few_pairs(config: TranslationConfig, num_pairs: int, body: type[Body]) -> TranslationConfig:
    """The configuration with settings for few pairs of text, or for more than the time allows; else unchanged.

    They apply if the size is "auto", the model has a size "scarce" and tokens are not characters. Fields that the user
    gave are kept.
    """
    text = isinstance(config.data, FilesData) and config.tokenizer.kind != "char"
    fits = text and config.model.size == "auto" and "scarce" in body.config_class.sizes
    if not fits or few_because(config, num_pairs) is None:
        return config
    changed: dict[str, Any] = {"model": config.model.model_copy(update={"size": "scarce"})}
    for name, fields in _FOR_FEW_PAIRS.items():
        section = getattr(config, name)
        free = {field: value for field, value in fields.items() if field not in section.model_fields_set}
        if config.tokenizer.sampling or config.training.alignment.given:
            free.pop("guided_attention", None)
        if config.tokenizer.shared or config.tokenizer.from_ is not None:
            free.pop("lowercase", None)
        changed[name] = section.model_copy(update=free)
    return config.model_copy(update=changed)


def auto_size(config: TranslationConfig, num_examples: int) -> str:
    """The named size by the number of examples; characters need less width than words.

    `for_few_pairs` takes precedence.

    | training pairs | char tokenizer | others |
    |---|---|---|
    | up to 100,000 | tiny | small |
    | up to 2,000,000 | small | small |
    | more | small | base |
    """
    if config.tokenizer.kind == "char" and num_examples <= 100_000:
        return "tiny"
    return "small" if num_examples <= 2_000_000 or config.tokenizer.kind == "char" else "base"


def with_tokenizer(config: TranslationConfig, pairs: Iterable[Pair], num_pairs: int) -> TranslationConfig:
    """The configuration with the kind and vocabulary size of the tokenizer set; `pairs` are read once.

    About one vocabulary entry for four pairs, in steps of 500, from 1,000 to 8,000: rarer tokens occur too seldom to
    be learned. At least two for each different character, which matters for scripts with thousands.
    """

    def subwords() -> int:
        sides: tuple[set[str], set[str]] = (set(), set())
        for pair in pairs:
            sides[0].update(pair.source)
            sides[1].update(pair.target)
        characters = len(sides[0] | sides[1]) if config.tokenizer.shared else max(map(len, sides))
        return num_subwords(num_pairs, characters)

    auto = config.data.auto_tokenizer if isinstance(config.data, EmbeddedData) else "bpe"
    return sizes.with_tokenizer(config, auto, subwords)
