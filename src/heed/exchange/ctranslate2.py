"""Export of Transformers for CTranslate2, generation with that library, and a check that outputs are the run's.

CTranslate2 has Transformers and no other translation model. It supports every field of `transformer`: pre- and
post-norm, both kinds of positions (always written as a table: its own sinusoids are numbered and laid out differently),
separate, shared, tied and normalised embeddings, stacks of unequal size, every activation.

Its searches are those of `heed.generation`, with the same length normalisation and the end token counted, with two
exceptions: forbidden tokens are left out before probabilities are normalised, not after; and a beam search ends when
`beam_size` outputs have ended, whereas heed's continues while a better one is possible. Greedy outputs are the same;
those of a beam search may differ if one of these exceptions matters.

An output that ends is kept only if it is among the `beam_size` best of its step. The scores and probabilities shown are
the model's own, computed for the outputs found.

The check: both decode 16 sentences of the validation set (random tokens, if the run's data is gone). For float32, every
token of the run's outputs must have the same log-probability, to 0.001 nats. Greedy outputs must be the same tokens
unless two are equally probable. Outputs of a beam of 5, where both search exhaustively and remove forbidden tokens
before probabilities are normalised, must be the same tokens or be among the run's five (one in 16 may differ, if
rounding decides what stays in the beam). For int8, differences are counted and printed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any
from warnings import warn

import torch
from torch import Tensor, nn

from heed import folder as folders
from heed.attention import MultiHeadAttention
from heed.data.batch import pad_rows
from heed.data.tokens.special import Special
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, HeedError, HeedWarning, InputError, RunError, suggest
from heed.generation import Hypothesis, SearchOptions, generate, without_gradient
from heed.layers.embeddings import LearnedPositions, sinusoids
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


def vocabulary(tokenizer: TextTokenizer) -> list[str]:
    """Each token's text by its number."""
    return [tokenizer.token(i) for i in range(tokenizer.vocab_size)]


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
    # A copy, because the library quantizes arrays in place.
    learned = model.positions.table.weight.detach().clone() if isinstance(model.positions, LearnedPositions) else None
    positions = sinusoids(torch.arange(num_positions), c.d_model) if learned is None else learned
    both = {
        "pre_norm": c.norm == "pre",
        "activation": getattr(Activation, _ACTIVATIONS[c.activation]),
        "layernorm_embedding": c.normalized_embeddings,
    }
    spec = TransformerSpec(
        TransformerEncoderSpec(len(model.encoder), c.num_heads, **both),
        TransformerDecoderSpec(len(model.decoder), c.decoder_heads or c.num_heads, **both),
    )
    for to, table, side, stack in (
        (spec.encoder, spec.encoder.embeddings[0], "source", "encoder"),
        (spec.decoder, spec.decoder.embeddings, "target", "decoder"),
    ):
        table.weight = getattr(model, f"{side}_embedding").weight.detach().clone()
        to.scale_embeddings = c.scaled_embeddings  # by sqrt(d_model)
        to.position_encodings.encodings = positions
        if c.normalized_embeddings:
            _norm(to.layernorm_embedding, getattr(model, f"{side}_embedding_norm"))
        if c.norm == "pre":
            _norm(to.layer_norm, getattr(model, f"{stack}_norm"))
        for part, block in zip(to.layer, getattr(model, stack), strict=True):
            _attention(part.self_attention, block.attention, block.around_attention)
            if stack == "decoder":
                _attention(part.attention, block.cross, block.around_cross, cross=True)
            _linear(part.ffn.linear_0, block.feed_forward.inner)
            _linear(part.ffn.linear_1, block.feed_forward.outer)
            _norm(part.ffn.layer_norm, block.around_feed_forward.norm)
    assert isinstance(model.output, nn.Linear)
    _linear(spec.decoder.projection, model.output)

    spec.register_source_vocabulary(vocabulary(source))
    spec.register_target_vocabulary(vocabulary(target))
    # Sources already have the tokens around them: none is added.
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = map(target.token, target.special[1:])
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.layer_norm_epsilon = c.norm_eps
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(folder))
    return len(positions)


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
    for to, layers in zip(spec.linear, [*inputs, [attention.w_out]], strict=True):
        _linear(to, *layers)
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
        self._source, self._target = vocabulary(source), vocabulary(target)
        self._numbers = {token: i for i, token in enumerate(self._target)}
        self._special = target.special
        self.num_positions = num_positions

    @property
    def longest_output(self) -> int:
        """The maximum number of tokens of an output; the start token takes one position."""
        return self.num_positions - 1

    def write(
        self, sources: Sequence[list[int]], options: SearchOptions, patience: float = 1.0
    ) -> list[list[Hypothesis]]:
        """Search for the best outputs; a beam search ends after `patience * beam_size` outputs of a source.

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
            patience=patience,
            num_hypotheses=options.num_best,
            length_penalty=options.length_penalty,
            min_decoding_length=options.min_length,
            max_decoding_length=limit,
            disable_unk=self._special.unknown in options.forbidden,
            suppress_sequences=[[self._target[i]] for i in options.forbidden if i != self._special.unknown],
            return_end_token=True,
        )
        written = [[[self._numbers[token] for token in tokens] for tokens in result.hypotheses] for result in results]
        if limit < options.max_length and any(ids[-1:] != [options.end_token] for group in written for ids in group):
            raise ConfigError(
                f"an output does not fit the {self.num_positions:,} positions of the exported model; give max_length "
                f"{limit}"
            )
        return self._scored(sources, written, options.length_penalty)

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Natural log-probability of each token of given outputs, and of an end token after them."""
        results = self._translator.score_batch(
            [[self._source[i] for i in source] for source in sources],
            [[self._target[i] for i in target] for target in targets],
            max_batch_size=_TOGETHER,
            batch_type="tokens",
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def _scored(
        self, sources: Sequence[list[int]], written: list[list[list[int]]], length_penalty: float
    ) -> list[list[Hypothesis]]:
        """Hypotheses with scores from a teacher-forced pass, since a search returns only sums of renormalised ones."""
        pairs = [(source, ids) for source, group in zip(sources, written, strict=True) for ids in group]
        end = [self._special.end]
        tokens = [ids[:-1] if ids[-1:] == end else ids for _, ids in pairs]
        hypotheses = []
        for ids, (_, whole), log_probs in zip(
            tokens, pairs, self.log_probs([source for source, _ in pairs], tokens), strict=True
        ):
            log_probs = log_probs[: len(whole)]
            score = sum(log_probs) / max(1, len(log_probs)) ** length_penalty
            hypotheses.append(Hypothesis(tuple(ids), tuple(log_probs), score, len(ids) < len(whole)))
        remaining = iter(hypotheses)
        return [sorted(islice(remaining, len(group)), key=lambda h: -h.score) for group in written]


_SENTENCES = 16
_BEAM = 5
_CLOSE = 1e-3
"""Difference of log-probabilities in nats that float32 rounding may cause, over all the tokens of an output."""


@dataclass(frozen=True)
class SelfCheck:
    """Numbers of outputs that differ, in greedy decoding and with a beam of 5.

    `log_prob` is the largest difference in log-probability of a token of the run's greedy outputs, in nats.
    """

    sentences: int
    taken_from: str
    greedy: int
    beam: int
    log_prob: float

    def __str__(self) -> str:
        return (
            f"{self.sentences} {self.taken_from}: {_differ(self.greedy)} greedily, {_differ(self.beam)} with beam "
            f"{_BEAM}; log-probabilities of tokens differ by at most {self.log_prob:.2g}"
        )


def _differ(count: int) -> str:
    return f"{count or 'no'} output{'s differ' if count != 1 else ' differs'}"


@dataclass(frozen=True)
class _Comparison:
    """Both programs write outputs for the same sources."""

    task: Any
    model: Transformer
    writer: CTranslate2Writer
    taken_from: str
    sources: list[list[int]]

    @classmethod
    def of(cls, task: Any, model: Transformer, writer: CTranslate2Writer) -> _Comparison:
        """With validation sentences, or random tokens if they cannot be read."""
        reads, longest = task.input.source_tokenizer, writer.num_positions
        try:
            pairs = task.splits.examples["valid"]
            texts = [pair.source for pair in pairs[: 4 * _SENTENCES] if pair.source.strip()]
            encoded = [task.input.framed(ids) for ids in reads.encode_all(texts) if ids]
        except (HeedError, OSError):  # the run was moved away from its data
            encoded = []
        if sources := [ids for ids in encoded if len(ids) <= longest]:
            return cls(task, model, writer, "validation sentences", sources[:_SENTENCES])
        generator = torch.Generator().manual_seed(1)
        known = torch.tensor([i for i in range(reads.vocab_size) if i not in reads.special])
        lengths = torch.randint(1, 1 + min(20, longest), (_SENTENCES,), generator=generator).tolist()
        drawn = [known[torch.randint(len(known), (length,), generator=generator)].tolist() for length in lengths]
        taken_from = "sentences of random tokens (the run's data cannot be read)"
        return cls(task, model, writer, taken_from, [task.input.framed(ids) for ids in drawn])

    @property
    def special(self) -> Special:
        """The target's special tokens."""
        special: Special = self.task.input.target_tokenizer.special
        return special

    def written(self, options: SearchOptions) -> list[list[Hypothesis]]:
        """The outputs of the run's model."""
        with without_gradient():
            memory = self.model.encode(*pad_rows(self.sources))
        start = torch.full((len(self.sources), 1), self.special.start)
        return generate(self.model, memory, start, options).hypotheses

    def largest_difference(self, ours: list[Hypothesis]) -> float:
        """The largest difference in log-probability of a token of the run's outputs."""
        theirs = self.writer.log_probs(self.sources, [list(hypothesis.tokens) for hypothesis in ours])
        pairs = (zip(mine.log_probs, other, strict=False) for mine, other in zip(ours, theirs, strict=True))
        return max(abs(a - b) for pair in pairs for a, b in pair)

    def greedy_must_agree(self, ours: list[Hypothesis], theirs: list[Hypothesis]) -> None:
        """Raise a RunError unless outputs are the same, or first differ where two tokens are equally probable."""
        for source, mine, other in zip(self.sources, ours, theirs, strict=True):
            a, b = self._ids(mine), self._ids(other)
            if a != b:
                first = next(n for n, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1])
                log_probs = self._log_probs(source, a[: first + 1])[-1]
                if abs(float(log_probs[a[first]] - log_probs[b[first]])) > _CLOSE:
                    raise self._disagree("greedily", source, mine, other)

    def beam_must_agree(self, ours: list[list[Hypothesis]], theirs: list[Hypothesis], options: SearchOptions) -> None:
        """Raise a RunError unless the run gives the tokens of each exported output the same log-probabilities.

        Each should be among the run's best, or score no lower than the run's best. CTranslate2 keeps fewer of the
        hypotheses that end, so its best may be the run's second; where a model is hardly trained, it may be far below.
        One search in many may change by rounding at the edge of a beam; of more, a warning quotes one.
        """
        worse = []
        for source, mine, other in zip(self.sources, ours, theirs, strict=True):
            log_probs = self._of_tokens(source, other).tolist()
            if any(abs(a - b) > _CLOSE for a, b in zip(log_probs, other.log_probs, strict=True)):
                raise self._disagree(f"with beam {_BEAM}", source, mine[0], other)
            if self._ids(other) not in map(self._ids, mine):
                score, best = (self._renormalised(source, hypothesis, options) for hypothesis in (other, mine[0]))
                worse += [(source, mine[0], other)] if score < best - _CLOSE else []
        if len(worse) > len(self.sources) // _SENTENCES:
            warn(
                f"the log-probabilities of the exported model agree, but {len(worse)} of its {len(self.sources)} "
                f"outputs with beam {_BEAM} score lower than the run's, as in models that are hardly trained: it "
                f"writes {self._instead(*worse[0])}",
                HeedWarning,
                stacklevel=2,
            )

    def _ids(self, hypothesis: Hypothesis) -> list[int]:
        return [*hypothesis.tokens, *([self.special.end] if hypothesis.finished else [])]

    @torch.no_grad()
    def _log_probs(self, source: list[int], written: list[int], forbidden: Sequence[int] = ()) -> Tensor:
        """Log-probabilities of all tokens at each position of an output, `(tokens, vocab_size)`."""
        read = torch.tensor([[self.special.start, *written[:-1]]])
        logits = self.model.logits(self.model(*pad_rows([source]), read)[0])
        logits[:, list(forbidden)] = -torch.inf
        return torch.log_softmax(logits, dim=-1)

    def _of_tokens(self, source: list[int], hypothesis: Hypothesis, forbidden: Sequence[int] = ()) -> Tensor:
        """Those of the tokens of an output, `(tokens,)`."""
        ids = self._ids(hypothesis)
        return self._log_probs(source, ids, forbidden).gather(1, torch.tensor(ids).unsqueeze(1))[:, 0]

    def _renormalised(self, source: list[int], hypothesis: Hypothesis, options: SearchOptions) -> float:
        """The score of CTranslate2's search: forbidden tokens are left out before the softmax."""
        log_probs = self._of_tokens(source, hypothesis, options.forbidden)
        return log_probs.sum().item() / float(len(log_probs) ** options.length_penalty)

    def _disagree(self, how: str, source: list[int], mine: Hypothesis, other: Hypothesis) -> RunError:
        what = self._instead(source, mine, other)
        return RunError(f"the exported model has a different output {how}: {what}; the export was discarded")

    def _instead(self, source: list[int], mine: Hypothesis, other: Hypothesis) -> str:
        decode = self.task.input.target_tokenizer.decode
        text = self.task.input.source_tokenizer.decode(source)
        return f"{decode(other.tokens)!r} instead of {decode(mine.tokens)!r} for {text!r}"


def self_check(task: Any, model: Transformer, writer: CTranslate2Writer, exact: bool) -> SelfCheck:
    """Decode validation sentences (or random tokens) with both, greedily and with a beam, and compare.

    With `exact`, outputs must be the same, except where two tokens are equally probable.

    Raises:
        RunError: The outputs differ; the message shows a sentence and both outputs.
    """

    def best(groups: list[list[Hypothesis]]) -> list[Hypothesis]:
        return [group[0] for group in groups]

    def differing(ours: list[Hypothesis], theirs: list[Hypothesis]) -> int:
        pairs = zip(ours, theirs, strict=True)
        return sum((a.tokens, a.finished) != (b.tokens, b.finished) for a, b in pairs)

    both = _Comparison.of(task, model.eval(), writer)
    settings = task.config.generation
    limit = min(settings.max_length or 200, writer.longest_output)
    penalty, never = settings.length_penalty, task.head.never_written(model)
    greedy = SearchOptions(both.special.end, limit, settings.min_length, length_penalty=penalty, forbidden=never)
    beam = replace(greedy, beam_size=_BEAM)
    ours, theirs = best(both.written(greedy)), best(writer.write(both.sources, greedy))
    log_prob = both.largest_difference(ours)
    if exact:
        if log_prob > _CLOSE:
            off = f"log-probabilities of the exported model are off by up to {log_prob:.2g}"
            raise RunError(f"{off}; the export was discarded")
        both.greedy_must_agree(ours, theirs)
        searched = best(writer.write(both.sources, beam, patience=limit))
        beam_of_all = replace(beam, num_best=_BEAM)
        both.beam_must_agree(both.written(beam_of_all), searched, beam_of_all)
    beams = differing(best(both.written(beam)), best(writer.write(both.sources, beam)))
    return SelfCheck(len(both.sources), both.taken_from, differing(ours, theirs), beams, log_prob)


ENGINES = {"ctranslate2": "float32", "ctranslate2-int8": "int8"}
"""Engines other than torch, with the storage of their matrices: float32, or 8 bits with one scale for each row."""
_DESCRIPTION, _FORMAT = "export.json", 1
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
            "format": _FORMAT,
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
    command = f"heed export {shell_word(folder)} --to ctranslate2"
    if quantization != "float32":
        command += f" --quantization {quantization}"
    if not os.path.isdir(path):
        raise RunError(f"'{folder}' was not exported for {engine}; export it with: {command}")
    problem, description = "", {}
    if damage := describe_damage(path):
        name, what = next(iter(damage.items()))
        problem = f"{path / name} is {what}"
    elif (description := read_object(path / _DESCRIPTION))["format"] != _FORMAT:
        problem = f"{path} has format {description['format']}, but this version of heed reads format {_FORMAT}"
    elif description["weights"] != checksum(folder / folders.WEIGHTS):
        problem = f"the weights of {folder} have changed since it was exported"
    if problem:
        raise RunError(f"{problem}; export the run again with: {command}")
    return CTranslate2Writer(path, task.input.source_tokenizer, task.input.target_tokenizer, description["positions"])


def _place(folder: Path, quantization: str) -> Path:
    return folder / folders.EXPORT / f"ctranslate2-{quantization}"
