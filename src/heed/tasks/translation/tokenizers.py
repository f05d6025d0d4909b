"""Tokenizers of both sides, and the sizes and settings chosen by the number of training pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch

from heed.config import FilesData, TokenizerConfig
from heed.config.data import EmbeddedData
from heed.data.examples import Pair
from heed.data.sequences import Joined, select
from heed.data.splits.stored import StoredExamples, field_hashes
from heed.data.tokens.token_cache import are_many
from heed.data.tokens.tokenizer import TextTokenizer
from heed.models.base import Body
from heed.storage.cache import CacheError, key_of, make_entry
from heed.tasks.base import vocabulary as sizes
from heed.tasks.base.vocabulary import num_subwords
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


Tokenizers = tuple[TextTokenizer, TextTokenizer]
"""Source and target; the same object twice if the vocabulary is shared."""

_SAMPLE = 20_000_000
"""Most bytes of text, both sides together, that tokenizers of stored corpora are trained on."""
_SOURCE, _TARGET = "tokenizer.source.json", "tokenizer.target.json"


def learn_tokenizers(
    config: TranslationConfig,
    corpora: Sequence[Sequence[Pair]],
    count: int,
    known: Mapping[str, TextTokenizer] | None = None,
) -> tuple[TranslationConfig, Tokenizers, str]:
    """Choose the kind and size of the tokenizers and train them on corpora, or take them from the cache.

    The tokenizer of a side that is `known` is used as it is; the same one for both sides makes a shared vocabulary.

    If not all corpora are in memory, a random sample is used, the same every time.

    Returns:
        The configuration with these choices; the tokenizers; and a remark for the user, or "".
    """
    if known:
        return _with_known(config, corpora, count, known)
    stored = any(isinstance(corpus, StoredExamples) for corpus in corpora)

    def learn() -> tuple[TranslationConfig, Tokenizers, int]:
        sample = _sample(corpora) if stored else Joined(corpora)
        decided = with_tokenizer(config, sample, count)
        return decided, train_tokenizers(decided.tokenizer, sample), len(sample)

    kept = stored or are_many(text for corpus in corpora for pair in corpus for text in (pair.source, pair.target))
    keys = [_key(corpus) if kept else None for corpus in corpora]
    entry = None
    if None not in keys:

        def make(folder: Path) -> dict[str, Any]:
            decided, tokenizers, used = learn()
            save_tokenizers(folder, tokenizers)
            return {"pairs": used, "kind": decided.tokenizer.kind, "vocab_size": decided.tokenizer.vocab_size}

        given = config.tokenizer.model_dump(mode="json", exclude={"sampling"})
        most = _SAMPLE if stored else None
        what = {"tokenizer": given, "data": type(config.data).__name__, "count": count, "most": most}
        with nullcontext() if stored else suppress(CacheError):
            entry = make_entry(key_of(kind="tokenizers", pairs=keys, **what), make)
    if entry is None:
        decided, tokenizers, used = learn()
    else:
        used = entry.record["pairs"]
        section = config.tokenizer.model_copy(update={name: entry.record[name] for name in ("kind", "vocab_size")})
        decided = config.model_copy(update={"tokenizer": section})
        tokenizers = load_tokenizers(entry.path, section)
    if used == count or not stored:
        return decided, tokenizers, ""
    return decided, tokenizers, f"tokenizers trained on a sample of {used:,} of {count:,} pairs"


def _with_known(
    config: TranslationConfig, corpora: Sequence[Sequence[Pair]], count: int, known: Mapping[str, TextTokenizer]
) -> tuple[TranslationConfig, Tokenizers, str]:
    """Use one or both tokenizers as they are, and train the other."""
    section = config.tokenizer
    if len(known) == 2:
        source, target = known["source"], known["target"]
        fields = {"shared": source is target, "vocab_size": max(5, source.vocab_size), "lowercase": False}
        section = section.model_copy(update=fields)
        return config.model_copy(update={"tokenizer": section}), (source, target), ""
    config, (source, target), remark = learn_tokenizers(config, corpora, count)
    return config, (known.get("source", source), known.get("target", target)), remark


def _sample(corpora: Sequence[Sequence[Pair]]) -> Joined[Pair]:
    """The same share of each corpus, drawn with a fixed seed: up to 20 MB of text in all."""
    total = sum(
        corpus.num_bytes if isinstance(corpus, StoredExamples) else sum(len(p.source) + len(p.target) for p in corpus)
        for corpus in corpora
    )
    if total <= _SAMPLE:
        return Joined(corpora)
    generator = torch.Generator().manual_seed(0)
    chosen = [torch.randperm(len(c), generator=generator)[: -(-len(c) * _SAMPLE // total)] for c in corpora]
    return Joined([select(corpus, rows.sort().values.numpy()) for corpus, rows in zip(corpora, chosen, strict=True)])


def _key(corpus: Sequence[Pair]) -> str | None:
    """A cache key for the pairs; None if they are in a file that is not kept."""
    if isinstance(corpus, StoredExamples):
        return corpus.key or None
    return hashlib.blake2b(field_hashes(corpus).tobytes(), digest_size=16).hexdigest()


def train_tokenizers(config: TokenizerConfig, pairs: Iterable[Pair]) -> Tokenizers:
    """Train both tokenizers on pairs, which are read twice."""
    if config.shared:
        both = TextTokenizer.train((text for pair in pairs for text in (pair.source, pair.target)), config)
        return both, both
    source = TextTokenizer.train((pair.source for pair in pairs), config)
    return source, TextTokenizer.train((pair.target for pair in pairs), config, "target")


def load_tokenizers(folder: Path, config: TokenizerConfig) -> Tokenizers:
    """Read both tokenizers of a run folder.

    Raises:
        RunError: A file is missing or is not a tokenizer.
    """
    paths = folder / _SOURCE, folder / _TARGET
    source = TextTokenizer.load(paths[0])
    # Imported tokenizers may share a vocabulary but cut the texts of each side differently.
    if config.shared and (not paths[1].is_file() or paths[0].read_bytes() == paths[1].read_bytes()):
        return source, source
    return source, TextTokenizer.load(paths[1])


def save_tokenizers(folder: Path, tokenizers: Tokenizers) -> None:
    """Write both tokenizers into a run folder."""
    for name, tokenizer in zip((_SOURCE, _TARGET), tokenizers, strict=True):
        tokenizer.save(folder / name)
