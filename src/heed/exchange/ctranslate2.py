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
from heed.layers.transformer import DecoderBlock, EncoderBlock, FeedForward, Residual
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


def expressible(model: PairDecoder, name: str) -> Transformer:
    """The model, if CTranslate2 supports it; otherwise a ConfigError that names the model."""
    if not isinstance(model, Transformer):
        raise ConfigError(f"model '{name}' cannot be exported: CTranslate2 supports only the model 'transformer'")
    return model


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
    positions = _positions(model, num_positions)
    both = {
        "pre_norm": c.norm == "pre",
        "activation": getattr(Activation, _ACTIVATIONS[c.activation]),
        "layernorm_embedding": c.normalized_embeddings,
    }
    spec = TransformerSpec(
        TransformerEncoderSpec(len(model.encoder), c.num_heads, **both),
        TransformerDecoderSpec(len(model.decoder), c.decoder_heads or c.num_heads, **both),
    )
    spec.encoder.embeddings[0].weight = _copied(model.source_embedding.weight)
    spec.decoder.embeddings.weight = _copied(model.target_embedding.weight)
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = c.scaled_embeddings  # by sqrt(d_model)
        side.position_encodings.encodings = positions
    if c.normalized_embeddings:
        _norm(spec.encoder.layernorm_embedding, model.source_embedding_norm)
        _norm(spec.decoder.layernorm_embedding, model.target_embedding_norm)
    if c.norm == "pre":
        _norm(spec.encoder.layer_norm, model.encoder_norm)
        _norm(spec.decoder.layer_norm, model.decoder_norm)
    for to, block in zip(spec.encoder.layer, model.encoder, strict=True):
        assert isinstance(block, EncoderBlock)
        _attention(to.self_attention, block.attention, block.around_attention)
        _feed_forward(to.ffn, block.feed_forward, block.around_feed_forward)
    for to, block in zip(spec.decoder.layer, model.decoder, strict=True):
        assert isinstance(block, DecoderBlock)
        assert block.cross is not None
        _attention(to.self_attention, block.attention, block.around_attention)
        _attention(to.attention, block.cross, block.around_cross, cross=True)
        _feed_forward(to.ffn, block.feed_forward, block.around_feed_forward)
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


def _positions(model: Transformer, count: int) -> Tensor:
    if isinstance(model.positions, LearnedPositions):
        return _copied(model.positions.table.weight)
    return sinusoids(torch.arange(count), model.positions.d)


def _copied(weight: Tensor) -> Tensor:
    """A copy, because the library quantizes arrays in place."""
    return weight.detach().clone()


def _linear(spec: Any, *layers: nn.Linear) -> None:
    """One layer, or several layers over the same input joined into one with concatenated outputs."""
    spec.weight = torch.cat([layer.weight for layer in layers]).detach()
    spec.bias = torch.cat([layer.bias for layer in layers]).detach()


def _norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _copied(norm.weight), _copied(norm.bias)


def _attention(spec: Any, attention: MultiHeadAttention, around: Residual, cross: bool = False) -> None:
    query, key_value = [attention.w_query], [attention.w_key, attention.w_value]
    inputs = [query, key_value] if cross else [[*query, *key_value]]
    for to, layers in zip(spec.linear, [*inputs, [attention.w_out]], strict=True):
        _linear(to, *layers)
    _norm(spec.layer_norm, around.norm)


def _feed_forward(spec: Any, layers: FeedForward, around: Residual) -> None:
    _linear(spec.linear_0, layers.inner)
    _linear(spec.linear_1, layers.outer)
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
        end = [self._special.end]
        ended = [[ids[-1:] == end for ids in group] for group in written]
        tokens = [[ids[:-1] if ids[-1:] == end else ids for ids in group] for group in written]
        repeated = [source for source, group in zip(sources, tokens, strict=True) for _ in group]
        log_probs = iter(self.log_probs(repeated, [ids for group in tokens for ids in group]))
        groups = []
        for group, finished in zip(tokens, ended, strict=True):
            hypotheses = []
            for ids, done in zip(group, finished, strict=True):
                own = next(log_probs)[: len(ids) + done]
                score = sum(own) / max(1, len(own)) ** length_penalty
                hypotheses.append(Hypothesis(tuple(ids), tuple(own), score, done))
            groups.append(sorted(hypotheses, key=lambda h: -h.score))
        return groups


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


def self_check(task: Any, model: Transformer, writer: CTranslate2Writer, exact: bool) -> SelfCheck:
    """Decode validation sentences (or random tokens) with both, greedily and with a beam, and compare.

    With `exact`, outputs must be the same, except where two tokens are equally probable.

    Raises:
        RunError: The outputs differ; the message shows a sentence and both outputs.
    """

    def best(groups: list[list[Hypothesis]]) -> list[Hypothesis]:
        return [group[0] for group in groups]

    taken_from, sources = _sources(task, writer.num_positions)
    model.eval()
    given = task.config.generation
    limit = min(given.max_length or 200, writer.longest_output)
    special, never = task.input.target_tokenizer.special, task.head.never_written(model)
    greedy = SearchOptions(special.end, limit, given.min_length, length_penalty=given.length_penalty, forbidden=never)
    beam = replace(greedy, beam_size=_BEAM)
    ours, theirs = best(_write(model, sources, greedy, special)), best(writer.write(sources, greedy))
    log_prob = _largest_difference(ours, writer, sources)
    if exact:
        if log_prob > _CLOSE:
            off = f"log-probabilities of the exported model are off by up to {log_prob:.2g}"
            raise RunError(f"{off}; the export was discarded")
        _greedy_must_agree(task, model, sources, ours, theirs)
        searched = best(writer.write(sources, beam, patience=limit))
        beam_of_all = replace(beam, num_best=_BEAM)
        _beam_must_agree(task, model, sources, _write(model, sources, beam_of_all, special), searched, beam_of_all)
    beam_differs = _differences(best(_write(model, sources, beam, special)), best(writer.write(sources, beam)), special)
    return SelfCheck(len(sources), taken_from, _differences(ours, theirs, special), beam_differs, log_prob)


def _sources(task: Any, longest: int) -> tuple[str, list[list[int]]]:
    try:
        pairs = task.splits.examples["valid"]
        texts = [pair.source for pair in pairs[: 4 * _SENTENCES] if pair.source.strip()]
        encoded = [task.input.framed(ids) for ids in task.input.source_tokenizer.encode_all(texts) if ids]
        sources = [ids for ids in encoded if len(ids) <= longest]
    except (HeedError, OSError):  # the run was moved away from its data
        sources = []
    if sources:
        return "validation sentences", sources[:_SENTENCES]
    generator = torch.Generator().manual_seed(1)
    special = task.input.source_tokenizer.special
    known = torch.tensor([i for i in range(task.input.source_tokenizer.vocab_size) if i not in special])
    lengths = torch.randint(1, 1 + min(20, longest), (_SENTENCES,), generator=generator).tolist()
    drawn = [known[torch.randint(len(known), (length,), generator=generator)].tolist() for length in lengths]
    framed = [task.input.framed(ids) for ids in drawn]
    return "sentences of random tokens (the run's data cannot be read)", framed


def _write(
    model: Transformer, sources: list[list[int]], options: SearchOptions, special: Special
) -> list[list[Hypothesis]]:
    with without_gradient():
        memory = model.encode(*pad_rows(sources))
    return generate(model, memory, torch.full((len(sources), 1), special.start), options).hypotheses


def _ids(hypothesis: Hypothesis, special: Special) -> list[int]:
    return [*hypothesis.tokens, *([special.end] if hypothesis.finished else [])]


def _differences(ours: list[Hypothesis], theirs: list[Hypothesis], special: Special) -> int:
    return sum(_ids(a, special) != _ids(b, special) for a, b in zip(ours, theirs, strict=True))


def _largest_difference(ours: list[Hypothesis], writer: CTranslate2Writer, sources: list[list[int]]) -> float:
    given = writer.log_probs(sources, [list(hypothesis.tokens) for hypothesis in ours])
    pairs = zip((h.log_probs for h in ours), given, strict=True)
    return max(abs(a - b) for mine, theirs in pairs for a, b in zip(mine, theirs, strict=False))


def _greedy_must_agree(
    task: Any, model: Transformer, sources: list[list[int]], ours: list[Hypothesis], theirs: list[Hypothesis]
) -> None:
    """Raise a RunError unless outputs are the same, or first differ where two tokens are equally probable."""
    special = task.input.target_tokenizer.special
    for source, own, other in zip(sources, ours, theirs, strict=True):
        a, b = _ids(own, special), _ids(other, special)
        if a != b:
            first = next(n for n, (mine, its) in enumerate(zip(a, b, strict=False)) if mine != its)
            log_probs = _log_probs(model, source, a[: first + 1], special)[-1]
            if abs(float(log_probs[a[first]] - log_probs[b[first]])) > _CLOSE:
                raise _disagree(task, "greedily", source, own, other)


def _beam_must_agree(
    task: Any,
    model: Transformer,
    sources: list[list[int]],
    ours: list[list[Hypothesis]],
    theirs: list[Hypothesis],
    options: SearchOptions,
) -> None:
    """Raise a RunError unless the run gives the tokens of each exported output the same log-probabilities.

    Each should be among the run's best, or score no lower than the run's best. CTranslate2 keeps fewer of the
    hypotheses that end, so its best may be the run's second; where a model is hardly trained, it may be far below. One
    search in many may change by rounding at the edge of a beam; of more, a warning quotes one.
    """
    special = task.input.target_tokenizer.special
    for source, own, other in zip(sources, ours, theirs, strict=True):
        written = torch.tensor(_ids(other, special)).unsqueeze(1)
        log_probs = _log_probs(model, source, written[:, 0].tolist(), special).gather(1, written)[:, 0].tolist()
        if any(abs(a - b) > _CLOSE for a, b in zip(log_probs, other.log_probs, strict=True)):
            raise _disagree(task, f"with beam {_BEAM}", source, own[0], other)

    def agrees(source: list[int], own: list[Hypothesis], other: Hypothesis) -> bool:
        if _ids(other, special) in (_ids(one, special) for one in own):
            return True
        score, best = (_renormalised(model, source, _ids(h, special), options, special) for h in (other, own[0]))
        return score >= best - _CLOSE

    triples = zip(sources, ours, theirs, strict=True)
    others = [(source, own[0], other) for source, own, other in triples if not agrees(source, own, other)]
    if len(others) > len(sources) // _SENTENCES:
        warn(
            f"the log-probabilities of the exported model agree, but {len(others)} of its {len(sources)} outputs with "
            f"beam {_BEAM} score lower than the run's, as in models that are hardly trained: it writes "
            f"{_instead(task, *others[0])}",
            HeedWarning,
            stacklevel=2,
        )


def _disagree(task: Any, how: str, source: list[int], own: Hypothesis, other: Hypothesis) -> RunError:
    what = _instead(task, source, own, other)
    return RunError(f"the exported model has a different output {how}: {what}; the export was discarded")


def _instead(task: Any, source: list[int], own: Hypothesis, other: Hypothesis) -> str:
    decode = task.input.target_tokenizer.decode
    text = task.input.source_tokenizer.decode(source)
    return f"{decode(other.tokens)!r} instead of {decode(own.tokens)!r} for {text!r}"


@torch.no_grad()
def _log_probs(
    model: Transformer, source: list[int], written: list[int], special: Special, forbidden: Sequence[int] = ()
) -> Tensor:
    """Log-probabilities of all tokens at each position of an output, `(tokens, vocab_size)`."""
    read = torch.tensor([[special.start, *written[:-1]]])
    logits = model.logits(model(*pad_rows([source]), read)[0])
    logits[:, list(forbidden)] = -torch.inf
    return torch.log_softmax(logits, dim=-1)


def _renormalised(
    model: Transformer, source: list[int], written: list[int], options: SearchOptions, special: Special
) -> float:
    """The score of CTranslate2's search: forbidden tokens are left out before the softmax."""
    log_probs = _log_probs(model, source, written, special, options.forbidden)
    total = log_probs.gather(1, torch.tensor(written).unsqueeze(1)).sum()
    return total.item() / float(len(written) ** options.length_penalty)


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
    transformer = deepcopy(expressible(model, task.config.model.name)).cpu()
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
    name = next(name for name, own in ENGINES.items() if own == quantization)
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
    if damage := describe_damage(path):
        name, what = next(iter(damage.items()))
        raise RunError(f"{path / name} is {what}; export the run again with: {command}")
    description = read_object(path / _DESCRIPTION)
    if description["format"] != _FORMAT:
        raise RunError(
            f"{path} has format {description['format']}, but this version of heed reads format {_FORMAT}; export the "
            f"run again with: {command}"
        )
    if description["weights"] != checksum(folder / folders.WEIGHTS):
        changed = f"the weights of {folder} have changed since it was exported"
        raise RunError(f"{changed}; export the run again with: {command}")
    return CTranslate2Writer(path, task.input.source_tokenizer, task.input.target_tokenizer, description["positions"])


def _place(folder: Path, quantization: str) -> Path:
    return folder / folders.EXPORT / f"ctranslate2-{quantization}"
