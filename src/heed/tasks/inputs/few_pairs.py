"""The start of a translation run: its pairs, settings by their number, tokenizers, and the body of a parent run.

A translator can start from a model of single texts, whose blocks become the encoder, the decoder or both:

| parent's body | taken by default | other fields that it sets |
|---|---|---|
| `bert` | encoder | post-norm, normalised embeddings, positions and activation; each source is framed |
| `encoder` | encoder | its norm, positions and scaled embeddings |
| `gpt` | decoder | pre-norm, positions and activation |

Parts that the parent lacks start at random values: a decoder's attention to the source, and the other half. Both halves
are built alike, since one configuration describes them.

Further training corpora (back-translations, another domain) are weighted, perhaps tagged, and never held out. A weight
is how often a pair is seen in one pass over the training files; the pairs of a fractional part are drawn again in each
pass, by the seed and the number of the pass only. A tag is saved with the tokenizer; no text is ever tokenized into it,
and inputs for prediction have no tag. Tokenizers are trained on all corpora, each pair once. Pairs whose source is in
the validation or test set are left out and counted; shared targets are counted in a warning.

Source: Rothe et al. 2020, Leveraging Pre-trained Checkpoints for Sequence Generation Tasks, arXiv:1907.12461,
section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from heed.config import Extra, TokenizerConfig, sections
from heed.config.sections import num_subwords
from heed.data.corpus import characters_of, sample_of
from heed.data.embedded import PairSource
from heed.data.embedded.pairs import LANGUAGES, DateSource, DigitSource, GrammarSource
from heed.data.examples import Pair
from heed.data.findings import Counts
from heed.data.kinds.contents import Advice, no_advice
from heed.data.kinds.pairs import SIDES, Names, pair_reader
from heed.data.readers import Reader
from heed.data.splits import Candidates, ExtraCorpus, Splits, open_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.models.base import Body
from heed.tasks.base.transfer import Parent
from heed.tasks.base.vocabulary import Learned, cached_tokenizers
from heed.training.device import choose_device


def open_pairs(
    data: Any,
    examples: Mapping[str, Sequence[Pair]] | None = None,
    advice: Advice = no_advice,
    names: Names = SIDES,
) -> Splits[Pair]:
    """Read or generate the examples, unless they are passed; `advice` names commands for other kinds of files.

    `names` are usual names of the columns of both sides.

    Raises:
        DataError: The data cannot satisfy a value of the section; the message names it.
    """
    if not data.is_embedded:
        corpora = [(data.train, data.columns, "data.columns", "data.train")]
        corpora += [(extra.files, extra.columns, "data.extra columns", "files") for extra in data.extra]
        for files, columns, field, files_field in corpora:
            if len(files) == 2 and (columns.source is not None or columns.target is not None):
                raise DataError(
                    f"{field} selects columns of one file, but {files_field} names two parallel files: "
                    f"{', '.join(files)}"
                )
        reader, *others = (pair_reader(columns, advice, names) for _, columns, *_ in corpora)
        splits = open_splits(data, reader, examples)
        if others:
            _read_extra(list(zip(data.extra, others, strict=True)), data, splits)
        return splits
    sizes: dict[str, Any] = {"train": data.train, "valid": data.valid, "test": data.test}
    name: Any = data.name
    counts = ""
    source: PairSource
    if name in ("copy", "reverse"):
        source, what = DigitSource(kind=name, length=data.length, seed=data.seed), f"{name} digits"
    elif name == "grammar":
        source, what = GrammarSource(), "grammar, English to Spanish"
    else:
        languages = LANGUAGES if data.languages is None else data.languages
        source = DateSource(languages, data.unseen, data.styles, data.joined, data.years, data.seed)
        what, counts = "dates", f"\n{source}"
        if source.unseen:
            sizes["unseen"] = data.test
    listing = ", ".join(f"{count} {name}" for name, count in sizes.items())
    drawn = {split: source.sample(split, count) for split, count in sizes.items()}
    return Splits({**drawn}, made=f"{what}: {listing}{counts}")


def _read_extra(extra: Sequence[tuple[Extra, Reader[Pair]]], data: Any, splits: Splits[Pair]) -> None:
    """Read the further corpora, named by their first files, without pairs whose source is held out.

    Raises:
        DataError: A file cannot be read.
    """
    held_out = {
        split: Candidates(Pair, splits.examples[split], Counts())
        for split in ("valid", "test")
        if split in splits.examples
    }
    for number, (section, reader) in enumerate(extra, start=1):
        name = f"extra {Path(section.files[0]).name}"
        name += f" ({number})" if name in splits.extra else ""
        part = Candidates.read(name, section.files, reader, data)
        for split, candidates in held_out.items():
            if len(shared := part.shared(candidates)):
                part.leave_out(shared, f"source in the {split} set")
        # The real side of a back-translation is its target; a model trained on it has seen the reference.
        for split, candidates in held_out.items():
            if count := np.isin(part.hashes[:, 1], candidates.hashes[:, 1]).sum():
                part.remarks.append(f"warning: {count:,} targets of {name} are also in the {split} set")
        if not part.examples:
            part.remarks.append(f"warning: {name} has no pair to train on")
        splits.remarks += part.remarks
        languages = section.source_language, section.target_language
        of_section = section.weight, section.tag, reader.columns, languages
        splits.extra[name] = ExtraCorpus(part.examples, part.counts, *of_section)


FEW_PAIRS = 10_000
"""Settings for few pairs apply below this number of training pairs of text."""
PAIRS_A_MINUTE = 2_000
"""Settings for few pairs also apply from this number of training pairs of text for each minute of a time budget on a
CPU: they learn faster, and a larger model would see each pair too seldom (docs/benchmarks.md has the measurements)."""
_MAX_ALIGNED, _ALIGNED_A_MINUTE = 50_000, 10_000
"""Largest number of pairs whose words are aligned by default, in all or for each minute of a time budget: about a
kilobyte and half a millisecond each, so a tenth of the budget."""
_FOR_FEW_PAIRS: Mapping[str, Any] = {
    "tokenizer.lowercase": "source",
    "training.guided_attention": 1.0,
    "training.label_smoothing": 0.1,
    "training.batch_tokens": 1_000,
    "training.learning_rate": 0.002,
    "generation.beam_size": 5,
}
"""Fields for few pairs, unless the user gave them (docs/benchmarks.md has the effect of each)."""


def few_reason(config: Any, num_pairs: int) -> str | None:
    """Why settings for few pairs apply to this number of training pairs, for people; None if they do not."""
    if num_pairs < FEW_PAIRS:
        return f"fewer than {FEW_PAIRS:,} pairs"
    training = config.training
    if training.steps is not None or training.minutes is None:
        return None
    if num_pairs < PAIRS_A_MINUTE * training.minutes or choose_device(training.device).type != "cpu":
        return None
    return f"{num_pairs:,} pairs are more than a CPU can train on in {training.minutes:g} minutes (training.minutes)"


def for_few_pairs(config: Any, num_pairs: int, body: type[Body]) -> Any:
    """The configuration with settings for few pairs of text, or for more than the time allows; else unchanged.

    They apply if the size is "auto", the model has a size "scarce" and tokens are not characters. Fields that the user
    gave are kept.
    """
    text = not config.data.is_embedded and config.tokenizer.kind != "char"
    fits = text and config.model.size == "auto" and "scarce" in body.config_class.sizes
    if not fits or (why := few_reason(config, num_pairs)) is None:
        return config
    fields = {**_FOR_FEW_PAIRS}
    aligned = max(_MAX_ALIGNED, _ALIGNED_A_MINUTE * (config.training.minutes or 0.0))
    if config.training.alignment.given or num_pairs > aligned:
        del fields["training.guided_attention"]
    if config.tokenizer.shared or config.tokenizer.from_ is not None:
        del fields["tokenizer.lowercase"]
    return config.settle(why, {"model.size": "scarce"}).settle_open(why, fields)


def auto_size(config: Any, num_examples: int) -> str:
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


def with_tokenizer(config: Any, pairs: Iterable[Pair], num_pairs: int) -> Any:
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

    auto = {"grammar": "word"}.get(config.data.name, "char") if config.data.is_embedded else "bpe"
    return sections.with_tokenizer(config, auto, subwords)


Tokenizers = tuple[TextTokenizer, TextTokenizer]
"""Source and target; the same object twice if the vocabulary is shared."""

_SAMPLE = 20_000_000
"""Most bytes of text, both sides together, that tokenizers of stored corpora are trained on, the same share of each."""


def learn_tokenizers(
    config: Any, corpora: Sequence[Sequence[Pair]], tokenizers: Mapping[str, TextTokenizer]
) -> tuple[Any, Tokenizers, str]:
    """Choose the kind and size of the tokenizers and train them on corpora, or take them from the cache.

    `tokenizers` of a parent, by side, are used unchanged; the same object for both sides makes a shared vocabulary. If
    not all corpora are in memory, a fixed random sample is used.

    Returns:
        The configuration with these choices; the tokenizers; and a remark for the user, or "".
    """
    if len(tokenizers) == 2:
        source, target = tokenizers["source"], tokenizers["target"]
        fields = {"shared": source is target, "vocab_size": max(5, source.vocab_size), "lowercase": False}
        known_fields = {f"tokenizer.{name}": value for name, value in fields.items()}
        return config.settle("of the run in model.from", known_fields), (source, target), ""
    count = sum(map(len, corpora))

    def learn() -> Learned[Any]:
        sizes = [*map(characters_of, corpora)]
        budgets = [size * _SAMPLE // max(_SAMPLE, sum(sizes)) for size in sizes]
        sample = [sample_of(corpus, budget) for corpus, budget in zip(corpora, budgets, strict=True)]
        decided = with_tokenizer(config, chain.from_iterable(sample), count)
        return decided, train_tokenizers(decided.tokenizer, sample), sum(map(len, sample))

    decided, trained, used = cached_tokenizers(config, corpora, learn)
    remark = f"tokenizers trained on a sample of {used:,} of {count:,} pairs" if used < count else ""
    return decided, (tokenizers.get("source", trained[0]), tokenizers.get("target", trained[-1])), remark


def train_tokenizers(config: TokenizerConfig, corpora: Sequence[Sequence[Pair]]) -> list[TextTokenizer]:
    """Train both tokenizers, or the one that both sides share, on pairs, which are read twice."""
    if config.shared:
        return [TextTokenizer.train((text for pairs in corpora for pair in pairs for text in pair.texts), config)]
    source = TextTokenizer.train((pair.source for pairs in corpora for pair in pairs), config)
    return [source, TextTokenizer.train((pair.target for pairs in corpora for pair in pairs), config, "target")]


Part = Literal["encoder", "decoder", "both"]
_MODEL = "transformer"
_DEFAULTS: dict[str, Part] = {"bert": "encoder", "encoder": "encoder", "gpt": "decoder"}
"""Models whose blocks can be used, and the part that they become by default."""
_LACKING: dict[str, dict[str, Any]] = {
    "gpt": {"norm": "layer", "bias": True, "positions": ("learned", "sinusoidal")},
    "encoder": {"positions": ("learned", "sinusoidal")},
}
"""Fields that must have one of these values, the only ones of the Transformer."""
_GPT_ACTIVATIONS = {"gelu": "gelu_tanh", "gelu_exact": "gelu"}
"""GPT's names of activations -> their names here, where they differ."""


def inherited_part(config: Any, parent: Parent) -> Part | None:
    """The part to take from a parent; None for all of a translator.

    Raises:
        ConfigError: The parent does not have that part.
    """
    take, parent_model = config.model.take, parent.task.config.model.name
    if parent_model in _DEFAULTS and parent.task.config.task != config.task:
        return _DEFAULTS[parent_model] if take == "auto" else take
    if take == "auto" or take == "both":
        return None
    if parent_model != _MODEL:
        names = ", ".join([*_DEFAULTS, _MODEL])
        raise ConfigError(
            f"model.take is {take}, but {parent.path} is a '{parent_model}', which has no separate encoder or decoder "
            f"to take; models that do: {names}"
        )
    return take  # type: ignore[no-any-return]


def with_body(config: Any) -> Any:
    """The configuration with the model fields that a parent's body sets, except those that the user gave.

    Raises:
        ConfigError: The parent does not exist, or has a field value that the Transformer lacks.
    """
    section = config.model
    if section.from_ is None:
        if section.take != "auto":
            raise ConfigError(f"model.take is {section.take}, but model.from names no run to take it from")
        return config
    parent = Parent.open(section.from_, "model.from")
    part, parent_model = inherited_part(config, parent), parent.task.config.model
    if part is None or parent_model.name not in _DEFAULTS:
        return config
    if "name" in section.model_fields_set and section.name != _MODEL:
        raise ConfigError(
            f"model.name is '{section.name}', but the blocks of {parent.path} ({parent_model.name}) fit '{_MODEL}' only"
        )
    body, _ = parent.task.model_and_head()
    for field, right in _LACKING.get(parent_model.name, {}).items():
        value = getattr(body, field)
        if value not in (right if isinstance(right, tuple) else (right,)):
            raise ConfigError(
                f"model.from: {parent.path} has model.{field}={value}, which '{_MODEL}' lacks; it can start from a "
                f"'{parent_model.name}' with {right if isinstance(right, str | bool) else right[0]}"
            )
    fields = {"name": _MODEL, **_fields(parent_model.name, body, part)}
    set_by_user = section.model_dump(by_alias=True, include=section.model_fields_set)
    config = config.model_copy(update={"model": type(section).model_validate({**fields, **set_by_user})})
    return config.because(f"as in {parent.path}", *(f"model.{name}" for name in fields if name not in set_by_user))


def _fields(name: str, body: Any, part: Part) -> dict[str, Any]:
    """Fields of a Transformer that is built like a parent's body."""
    alike = ("d_model", "num_heads", "num_layers", "dropout", "attention_dropout", "max_length")
    common = {field: getattr(body, field) for field in alike} | {
        "positions": getattr(body, "positions", "learned"),
        "scaled_embeddings": name == "encoder",
        "normalized_embeddings": name == "bert",
    }
    if name == "gpt":
        activation = _GPT_ACTIVATIONS.get(body.activation, body.activation)
        return {**common, "norm": "pre", "norm_eps": body.norm_eps, "activation": activation, "d_ff": body.inner_width}
    common |= {"d_ff": body.d_ff, "norm": getattr(body, "norm", "post")}
    if name == "encoder":
        return common
    frame = "both" if part != "decoder" else "none"
    return {**common, "norm_eps": body.norm_eps, "activation": body.activation, "source_frame": frame}


def counterparts(part: Part, name: str, ours: Iterable[str], prefix: str, theirs: dict[str, Tensor]) -> dict[str, str]:
    """The parent's name of each tensor to copy, by our name.

    `name` is the parent's model, `ours` are the names of our tensors, `prefix` begins those of the parent's body. The
    vector of BERT's first segment is added to the positions in `theirs`, as every token here is in that segment.
    """
    table = f"{prefix}positions.table.weight"
    segments = theirs.get(f"{prefix}segments.weight")
    if name == "bert" and segments is not None:
        theirs[table] = theirs[table] + segments[0]
    halves = {"positions.": "positions."}
    for half in ("encoder", "decoder") if part == "both" else (part,):
        side = "source" if half == "encoder" else "target"
        own_parts = (f"{side}_embedding", f"{side}_embedding_norm", half, f"{half}_norm")
        embedding = "embedding" if name == "gpt" else "inputs.embedding"
        parts = own_parts if name == _MODEL else (embedding, "embedding_norm", "blocks", "norm")
        halves |= {f"{mine}.": f"{other}." for mine, other in zip(own_parts, parts, strict=True)}
    if name == _MODEL and part == "decoder":
        halves["output."] = "output."
    return {
        tensor: called
        for tensor in ours
        for begins, other in halves.items()
        if tensor.startswith(begins) and (called := f"{prefix}{other}{tensor.removeprefix(begins)}") in theirs
    }
