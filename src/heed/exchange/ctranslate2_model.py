"""Export of a Transformer as a CTranslate2 model: the same weights under that library's names.

CTranslate2 has Transformers and no other translation model. It supports every field of `transformer`: pre- and
post-norm, both kinds of positions (always written as a table: its own sinusoids are numbered and laid out differently),
separate, shared, tied and normalised embeddings, stacks of unequal size, every activation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heed.attention import MultiHeadAttention
from heed.data.tokens.tokenizer import END, START, UNKNOWN, TextTokenizer
from heed.errors import ConfigError
from heed.layers.embeddings import LearnedPositions, sinusoids
from heed.layers.transformer import DecoderBlock, EncoderBlock, FeedForward, Residual
from heed.models.base import PairDecoder
from heed.models.transformer import Transformer, TransformerConfig

QUANTIZATIONS = ("float32", "int8")
"""Storage of the matrices: float32, or 8 bits with one scale for each row."""
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
"""Our names, each with the library's name."""


def need_ctranslate2() -> Any:
    """Import the library, or raise a ConfigError with the command that installs it."""
    try:
        import ctranslate2
    except ImportError:
        raise ConfigError(
            "CTranslate2 exports need the package ctranslate2; install it: pip install 'heed-attention[export]'"
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
    assert isinstance(c, TransformerConfig)
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
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = map(target.token, (UNKNOWN, START, END))
    spec.config.decoder_start_token = target.token(START)
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
