"""Export of Transformers for CTranslate2, generation with that library, and a check that outputs are the run's.

CTranslate2 has Transformers and no other translation model. It supports every field of `transformer`: pre- and
post-norm, all kinds of positions (always written as tables: its own sinusoids are numbered and laid out differently),
separate, shared, tied and normalised embeddings, stacks of unequal size, every activation.

Its searches are those of `heed.generation`, with the same length normalisation and the end token counted, with two
exceptions: forbidden tokens are left out before probabilities are normalised, not after; and a beam search ends when
`beam_size` outputs have ended, whereas heed's continues while a better one is possible. Greedy outputs are the same;
those of a beam search may differ if one of these exceptions matters.

An output that ends is kept only if it is among the `beam_size` best of its step. The scores and probabilities shown are
the model's own, computed for the outputs found.

The check: both decode 16 sentences of the validation set (random tokens, if the run's data is gone) greedily. For
float32, the run must give every token of the exported model's outputs the same log-probability, to 0.001 nats, and
outputs must be the same tokens unless two are equally probable. For int8, differences are counted and printed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from warnings import warn

import torch
from torch import nn

from heed import folder as folders
from heed.attention import MultiHeadAttention
from heed.data.batch import pad_rows
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, HeedError, HeedWarning, InputError, RunError, suggest
from heed.generation import Hypothesis, SearchOptions, generate, without_gradient
from heed.layers.transformer import Residual
from heed.models.base import PairDecoder
from heed.models.transformer import Transformer
from heed.storage.disk import write_folder
from heed.storage.files import checksum, describe_damage, read_object
from heed.visible import shell_word

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
"""Our names, each with the library's name."""


def need_ctranslate2() -> Any:
    """Import the library, or raise a ConfigError with the command that installs it."""
    try:
        import ctranslate2
    except ImportError:
        raise ConfigError(
            "CTranslate2 exports need the package ctranslate2; install it: pip install -e '.[export]'"
        ) from None
    return ctranslate2


def write_model(
    model: Transformer,
    source: TextTokenizer,
    target: TextTokenizer,
    folder: Path,
    quantization: str,
    num_positions: int,
) -> int:
    """Write a model in CTranslate2's format into an existing folder.

    Sinusoidal positions have no end, so `num_positions` of them are written; a learned table is written whole.

    Returns:
        The number of positions written.

    Raises:
        ConfigError: The library is missing.
    """
    need_ctranslate2()
    from ctranslate2.specs import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    c = model.config
    assert model.source_embedding.num_embeddings == source.vocab_size
    num_positions = c.max_length if c.positions == "learned" else num_positions
    positions = torch.arange(num_positions).unsqueeze(0)
    options = {
        "pre_norm": c.norm == "pre",
        "activation": getattr(Activation, _ACTIVATIONS[c.activation]),
        "layernorm_embedding": c.normalized_embeddings,
    }
    spec = TransformerSpec(
        TransformerEncoderSpec(len(model.encoder), c.num_heads, **options),
        TransformerDecoderSpec(len(model.decoder), c.decoder_heads or c.num_heads, **options),
    )
    sides: tuple[tuple[Any, Any, Literal["source", "target"], str], ...] = (
        (spec.encoder, spec.encoder.embeddings[0], "source", "encoder"),
        (spec.decoder, spec.decoder.embeddings, "target", "decoder"),
    )
    for side_spec, table, side, stack in sides:
        table.weight = getattr(model, f"{side}_embedding").weight.detach().clone()
        side_spec.scale_embeddings = c.scaled_embeddings  # by sqrt(d_model)
        side_spec.position_encodings.encodings = model.positions_of(side)(positions).detach()[0]
        if c.normalized_embeddings:
            _norm(side_spec.layernorm_embedding, getattr(model, f"{side}_embedding_norm"))
        if c.norm == "pre":
            _norm(side_spec.layer_norm, getattr(model, f"{stack}_norm"))
        for part, block in zip(side_spec.layer, getattr(model, stack), strict=True):
            _attention(part.self_attention, block.attention, block.around_attention)
            if stack == "decoder":
                _attention(part.attention, block.cross, block.around_cross, cross=True)
            _linear(part.ffn.linear_0, block.feed_forward.inner)
            _linear(part.ffn.linear_1, block.feed_forward.outer)
            _norm(part.ffn.layer_norm, block.around_feed_forward.norm)
    assert isinstance(model.output, nn.Linear)
    _linear(spec.decoder.projection, model.output)

    spec.register_source_vocabulary(source.tokens)
    spec.register_target_vocabulary(target.tokens)
    # Sources already have the tokens around them: none is added.
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = map(target.token, target.special[1:])
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.layer_norm_epsilon = c.norm_eps
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(folder))
    return num_positions


def _linear(spec: Any, *layers: nn.Linear) -> None:
    """One layer, or several layers over the same input joined into one with concatenated outputs."""
    spec.weight = torch.cat([layer.weight for layer in layers]).detach()
    spec.bias = torch.cat([layer.bias for layer in layers]).detach()


def _norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = norm.weight.detach().clone(), norm.bias.detach().clone()


def _attention(spec: Any, attention: MultiHeadAttention, around: Residual, cross: bool = False) -> None:
    query, key_value = [attention.w_query], [attention.w_key, attention.w_value]
    inputs = [query, key_value] if cross else [[*query, *key_value]]
    for linear, layers in zip(spec.linear, [*inputs, [attention.w_out]], strict=True):
        _linear(linear, *layers)
    _norm(spec.layer_norm, around.norm)


_TOGETHER = 8_000
"""Maximum number of source tokens decoded together, times the beam size."""


class CTranslate2Writer:
    """A `heed.generation.Writer` that reads a folder written by `write_model`.

    `num_positions` is the maximum number of tokens of a source, or of an output with its start token.
    """

    name = "ctranslate2"

    def __init__(self, folder: Path, source: TextTokenizer, target: TextTokenizer, num_positions: int) -> None:
        library = need_ctranslate2()
        self._translator = library.Translator(str(folder), device="cpu", intra_threads=torch.get_num_threads())
        self._source, self._target = source.tokens, target.tokens
        self._numbers = {token: i for i, token in enumerate(self._target)}
        self._special = target.special
        self.num_positions = num_positions

    @property
    def longest_output(self) -> int:
        """The maximum number of tokens of an output; the start token takes one position."""
        return self.num_positions - 1

    def fits(self, sources: Sequence[list[int]], options: SearchOptions) -> bool:
        """Whether there are positions for these sources and for their longest outputs."""
        assert isinstance(options.max_length, int)
        longest = max(map(len, sources), default=0)
        return options.max_length <= self.longest_output and longest <= self.num_positions

    def write(self, sources: Sequence[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
        """Search for the best outputs.

        Returns:
            `num_best` hypotheses per source, best first, with the log-probabilities of the model.

        Raises:
            ConfigError: A source or an output needs more positions than were exported.
        """
        options.check()
        assert isinstance(options.max_length, int)
        if (longest := max(map(len, sources), default=0)) > self.num_positions:
            raise InputError(
                f"a text of {longest:,} tokens does not fit the {self.num_positions:,} positions of the exported "
                "model; shorten it, or use --engine torch"
            )
        limit = min(options.max_length, self.longest_output)
        results = self._translator.translate_batch(
            [[self._source[i] for i in source] for source in sources],
            max_batch_size=max(1, _TOGETHER // options.beam_size),
            batch_type="tokens",
            max_input_length=0,
            beam_size=options.beam_size,
            num_hypotheses=options.num_best,
            length_penalty=options.length_penalty,
            min_decoding_length=options.min_length,
            max_decoding_length=limit,
            disable_unk=self._special.unknown in options.forbidden,
            suppress_sequences=[[self._target[i]] for i in options.forbidden if i != self._special.unknown],
            no_repeat_ngram_size=options.no_repeat_ngram,
            target_prefix=[[self._target[i]] for i in options.forced] or None,
            return_end_token=True,
        )
        written = [[[self._numbers[token] for token in tokens] for tokens in result.hypotheses] for result in results]
        if limit < options.max_length and any(ids[-1:] != [options.end_token] for group in written for ids in group):
            raise ConfigError(
                f"an output does not fit the {self.num_positions:,} positions of the exported model; give max_length "
                f"{limit}"
            )
        return self._scored(sources, written, options)

    def _scored(
        self, sources: Sequence[list[int]], written: list[list[list[int]]], options: SearchOptions
    ) -> list[list[Hypothesis]]:
        """Hypotheses with scores from a teacher-forced pass, since a search returns only sums of renormalised ones.

        A forced token is certain.
        """
        pairs = [(source, ids) for source, group in zip(sources, written, strict=True) for ids in group]
        tokens = [ids[:-1] if ids[-1:] == [self._special.end] else ids for _, ids in pairs]
        scored = self._translator.score_batch(
            [[self._source[i] for i in source] for source, _ in pairs],
            [[self._target[i] for i in ids] for ids in tokens],
            max_batch_size=_TOGETHER,
            batch_type="tokens",
            max_input_length=0,
        )
        hypotheses = []
        for ids, (_, target), result in zip(tokens, pairs, scored, strict=True):
            log_probs = result.log_probs[: len(target)]  # the last one is of an end token
            if options.forced:
                log_probs[0] = 0.0
            score = sum(log_probs) / max(1, len(log_probs)) ** options.length_penalty
            hypotheses.append(Hypothesis(tuple(ids), tuple(log_probs), score, len(ids) < len(target)))
        remaining = iter(hypotheses)
        return [sorted(islice(remaining, len(group)), key=lambda h: -h.score) for group in written]


_SENTENCES = 16
_CLOSE = 1e-3
"""Difference of log-probabilities in nats that float32 rounding may cause."""


@dataclass(frozen=True)
class SelfCheck:
    """The number of greedy outputs that differ, and the largest difference of a log-probability, in nats."""

    sentences: int
    taken_from: str
    greedy: int
    log_prob: float

    def __str__(self) -> str:
        return (
            f"{self.sentences} {self.taken_from}: {self.greedy} outputs differ; log-probabilities of tokens differ by "
            f"at most {self.log_prob:.2g}"
        )


def _sources(task: Any, longest: int) -> tuple[list[list[int]], str]:
    """Validation sentences as tokens, or random tokens if they cannot be read; and which of both they are."""
    tokenizer = task.input.source_tokenizer
    try:
        texts = [pair.source for pair in task.splits.examples["valid"][: 4 * _SENTENCES] if pair.source.strip()]
        encoded = [task.input.framed(ids) for ids in tokenizer.encode_all(texts) if ids]
    except (HeedError, OSError):  # the run was moved away from its data
        encoded = []
    if sources := [ids for ids in encoded if len(ids) <= longest]:
        return sources[:_SENTENCES], "validation sentences"
    drawn = random.Random(1)
    ordinary = [i for i in range(tokenizer.vocab_size) if i not in tokenizer.special]
    random_ids = (drawn.choices(ordinary, k=drawn.randint(1, min(20, longest))) for _ in range(_SENTENCES))
    return [task.input.framed(ids) for ids in random_ids], "sentences of random tokens (the run's data cannot be read)"


def self_check(task: Any, model: Transformer, writer: CTranslate2Writer, exact: bool) -> SelfCheck:
    """Decode validation sentences (or random tokens) with both, greedily, and compare.

    With `exact`, log-probabilities must be the same, and outputs, except where two tokens are equally probable.

    Raises:
        RunError: The outputs differ; the message shows a sentence and both outputs.
    """
    sources, taken_from = _sources(task, writer.num_positions)
    settings, special = task.config.generation, task.input.target_tokenizer.special
    limit = min(settings.max_length or 200, writer.longest_output)
    penalty, never = settings.length_penalty, task.head.never_written(model.eval())
    forced, ngram = (*task.input.target_prefix,) * len(sources), settings.no_repeat_ngram
    further: dict[str, Any] = {"forbidden": never, "forced": forced, "no_repeat_ngram": ngram}
    options = SearchOptions(special.end, limit, settings.min_length, length_penalty=penalty, **further)
    with without_gradient():
        memory = model.encode(*pad_rows(sources))
    ours = generate(model, memory, torch.full((len(sources), 1), special.start), options).hypotheses
    differing, largest = 0, 0.0
    for source, (mine,), (other,) in zip(sources, ours, writer.write(sources, options), strict=True):
        a, b = ([*written.tokens, *[special.end] * written.finished] for written in (mine, other))
        with without_gradient():
            logits = model.logits(model(*pad_rows([source]), torch.tensor([[special.start, *b[:-1]]]))[0])
        log_probs = logits.log_softmax(-1)[range(len(b)), b].tolist()
        log_probs[:1] = [0.0] if forced else log_probs[:1]
        difference = max(abs(x - y) for x, y in zip(log_probs, other.log_probs, strict=True))
        first = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
        tied = first is None or abs(mine.log_probs[first] - log_probs[first]) <= _CLOSE
        if exact and (difference > _CLOSE or not tied):
            decode, text = task.input.target_tokenizer.decode, task.input.source_tokenizer.decode(source)
            raise RunError(
                f"the exported model differs by up to {difference:.2g} in log-probabilities: {decode(other.tokens)!r} "
                f"instead of {decode(mine.tokens)!r} for {text!r}; the export was discarded"
            )
        differing += a != b
        largest = max(largest, difference)
    return SelfCheck(len(sources), taken_from, differing, largest)


ENGINES = {"ctranslate2": "float32", "ctranslate2-int8": "int8"}
"""Engines other than torch, with the storage of their matrices: float32, or 8 bits with one scale for each row."""
_DESCRIPTION = "export.json"
_POSITIONS = 4_096
"""Number of sinusoidal positions to export: more than sentences have, and small compared with the weights."""


@dataclass(frozen=True)
class Exported:
    """An export of a run: name of the engine, bytes of the model file, result of the self-check."""

    folder: Path
    engine: str
    size: int
    check: SelfCheck

    def __str__(self) -> str:
        return f"wrote {self.folder} ({self.size / 2**20:,.1f} MiB)\n{self.check}"


def export_translation(
    folder: Path, task: Any, model: PairDecoder, to: str = "ctranslate2", quantization: str = "float32"
) -> Exported:
    """Export a translation run for another program, and check that its outputs are the run's.

    Raises:
        ConfigError: The library is missing, it does not support the model, or there is no such quantization.
        RunError: The outputs differ from the run's; nothing is kept.
        DiskError: The disk is full or cannot be written to.
    """
    if to != "ctranslate2":
        raise ConfigError(f"cannot export to '{to}'{suggest(to, ['ctranslate2'])}")
    if quantization not in ENGINES.values():
        raise ConfigError(f"quantization is '{quantization}'{suggest(quantization, ENGINES.values())}")
    if not isinstance(model, Transformer):
        name = task.config.model.name
        raise ConfigError(f"model '{name}' cannot be exported: CTranslate2 supports only the model 'transformer'")
    transformer = deepcopy(model).cpu()
    library = need_ctranslate2()
    tokenizers = task.input.source_tokenizer, task.input.target_tokenizer
    final = _place(folder, quantization)
    needed = sum(p.numel() for p in model.parameters()) * (4 if quantization == "float32" else 1)
    with write_folder(final, needed) as part:
        limit = max(_POSITIONS, task.config.generation.max_length or 0)
        positions = write_model(transformer, *tokenizers, part, quantization, limit)
        task.save(part)
        writer = CTranslate2Writer(part, *tokenizers, positions)
        check = self_check(task, transformer, writer, exact=quantization == "float32")
        description = {
            "engine": to,
            "quantization": quantization,
            "positions": positions,
            "weights": checksum(folder / folders.WEIGHTS),
            "check": asdict(check),
            "versions": {"heed": metadata.version("heed-attention"), to: library.__version__},
        }
        (part / _DESCRIPTION).write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
        size = (part / "model.bin").stat().st_size
    name = next(name for name, storage in ENGINES.items() if storage == quantization)
    return Exported(final, name, size, check)


def open_engine(folder: Path, task: Any, engine: str) -> CTranslate2Writer:
    """Open the export of a run, ready to generate.

    Raises:
        ConfigError: There is no such engine, or its library is missing.
        RunError: The run was not exported for it, its weights have changed since, or a file is missing or altered.
    """
    if engine not in ENGINES:
        raise ConfigError(f"unknown engine '{engine}'{suggest(engine, ['torch', *ENGINES])}")
    quantization = ENGINES[engine]
    path = _place(folder, quantization)
    command = f"heed export {shell_word(folder)} --to ctranslate2 --quantization {quantization}"
    if not os.path.isdir(path):
        raise RunError(f"'{folder}' was not exported for {engine}; export it with: {command}")
    again = f"export the run again with: {command}"
    for name, problem in describe_damage(path).items():
        raise RunError(f"{path / name} is {problem}; {again}")
    description = read_object(path / _DESCRIPTION)
    if description["weights"] != checksum(folder / folders.WEIGHTS):
        raise RunError(f"the weights of {folder} have changed since it was exported; {again}")
    return CTranslate2Writer(path, task.input.source_tokenizer, task.input.target_tokenizer, description["positions"])


def open_present(folder: Path, task: Any) -> CTranslate2Writer | None:
    """The float32 export of a run, None without it or its library; a HeedWarning says that it is there, or why not."""
    if not has_export(folder):
        return None
    try:
        writer = open_engine(folder, task, "ctranslate2")
    except HeedError as error:
        warn(f"{error}; until then torch computes the outputs", HeedWarning, stacklevel=2)
        return None
    note = "a few texts at a time are written by the run's export (ctranslate2); --engine torch does without it"
    warn(note, HeedWarning, stacklevel=2)
    return writer


def has_export(folder: Path) -> bool:
    """Whether a run has a float32 export, and the library that reads it is installed."""
    return os.path.isdir(_place(folder, "float32")) and importlib.util.find_spec("ctranslate2") is not None


def _place(folder: Path, quantization: str) -> Path:
    return folder / folders.EXPORT / f"ctranslate2-{quantization}"
