"""Translators that start from a model of single texts: its blocks become the encoder, the decoder or both.

| parent's body | taken by default | other fields that it sets |
|---|---|---|
| `bert` | encoder | post-norm, normalised embeddings, positions and activation; each source is framed |
| `encoder` | encoder | its norm, positions and scaled embeddings |
| `gpt` | decoder | pre-norm, positions and activation |

Parts that the parent lacks start at random values: a decoder's attention to the source, and the other half. Both halves
are built alike, since one configuration describes them.

Source: Rothe et al. 2020, Leveraging Pre-trained Checkpoints for Sequence Generation Tasks, arXiv:1907.12461,
section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from torch import Tensor

from heed.errors import ConfigError
from heed.tasks.base.transfer import Parent
from heed.tasks.translation.config import TranslationConfig

Part = Literal["encoder", "decoder", "both"]
_MODEL = "transformer"
_DEFAULTS: dict[str, Part] = {"bert": "encoder", "encoder": "encoder", "gpt": "decoder"}
"""Models that can be taken, and the part that they become by default."""
_LACKING: dict[str, dict[str, Any]] = {
    "gpt": {"norm": "layer", "bias": True, "positions": ("learned", "sinusoidal")},
    "encoder": {"positions": ("learned", "sinusoidal")},
}
"""Fields that must have one of these values, the only ones of the Transformer."""
_GPT_ACTIVATIONS = {"gelu": "gelu_tanh", "gelu_exact": "gelu"}
"""GPT's names of activations -> their names here, where they differ."""


def taken_part(config: TranslationConfig, parent: Parent) -> Part | None:
    """The part to take from a parent; None for all of a translator.

    Raises:
        ConfigError: The parent does not have that part.
    """
    take, theirs = config.model.take, parent.task.config.model.name
    if theirs in _DEFAULTS and parent.task.config.task != config.task:
        return _DEFAULTS[theirs] if take == "auto" else take
    if take == "auto" or take == "both":
        return None
    if theirs != _MODEL:
        known = ", ".join([*_DEFAULTS, _MODEL])
        raise ConfigError(
            f"model.take is {take}, but {parent.folder} is a '{theirs}', which has no separate encoder or decoder to "
            f"take; models that do: {known}"
        )
    return take


def with_body(config: TranslationConfig) -> TranslationConfig:
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
    part, theirs = taken_part(config, parent), parent.task.config.model
    if part is None or theirs.name not in _DEFAULTS:
        return config
    if "name" in section.model_fields_set and section.name != _MODEL:
        raise ConfigError(
            f"model.name is '{section.name}', but the blocks of {parent.folder} ({theirs.name}) fit '{_MODEL}' only"
        )
    body, _ = parent.task.model_and_head()
    for field, right in _LACKING.get(theirs.name, {}).items():
        value = getattr(body, field)
        if value not in (right if isinstance(right, tuple) else (right,)):
            raise ConfigError(
                f"model.from: {parent.folder} has model.{field}={value}, which '{_MODEL}' lacks; it can start from a "
                f"'{theirs.name}' with {right if isinstance(right, str | bool) else right[0]}"
            )
    fields = {"name": _MODEL, **_fields(theirs.name, body, part)}
    given = section.model_dump(by_alias=True, include=section.model_fields_set)
    return config.model_copy(update={"model": type(section).model_validate({**fields, **given})})


def _fields(name: str, body: Any, part: Part) -> dict[str, Any]:
    """Fields of a Transformer that is built like a parent's body."""
    positions = getattr(body, "positions", "learned")
    common = {
        "d_model": body.d_model,
        "num_heads": body.num_heads,
        "num_layers": body.num_layers,
        "dropout": body.dropout,
        "attention_dropout": body.attention_dropout,
        "positions": positions,
        "max_length": body.max_length,
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


def counterparts(part: Part, name: str, own: Iterable[str], prefix: str, given: dict[str, Tensor]) -> dict[str, str]:
    """The parent's names of the tensors to copy, by our name.

    Args:
        part: The part to take.
        name: The parent's model.
        own: Names of our tensors.
        prefix: Prefix of the tensor names of the parent's body.
        given: The parent's tensors. The vector of BERT's first segment, which every token has here, is added to its
            positions.
    """
    table = f"{prefix}positions.table.weight"
    segments = given.get(f"{prefix}segments.weight")
    if name == "bert" and segments is not None:
        given[table] = given[table] + segments[0]
    if name == _MODEL:
        halves = _of_translator(part)
    else:
        sides = {"encoder": ("source", "encoder"), "decoder": ("target", "decoder")}
        embedding = {"gpt": "embedding"}.get(name, "inputs.embedding")
        halves = {"positions.": "positions."}
        for side, half in (sides[one] for one in (("encoder", "decoder") if part == "both" else (part,))):
            halves |= {
                f"{side}_embedding.": f"{embedding}.",
                f"{side}_embedding_norm.": "embedding_norm.",
                f"{half}.": "blocks.",
                f"{half}_norm.": "norm.",
            }
    found = {}
    for tensor in own:
        for begins, theirs in halves.items():
            if tensor.startswith(begins) and (called := prefix + theirs + tensor.removeprefix(begins)) in given:
                found[tensor] = called
    return found


def _of_translator(part: Part) -> Mapping[str, str]:
    """Starts of the tensor names of one half of a translator, which are the same in both runs."""
    side, half = ("source", "encoder") if part == "encoder" else ("target", "decoder")
    further = ["output."] if part == "decoder" else []
    names = ["positions.", f"{side}_embedding.", f"{side}_embedding_norm.", f"{half}.", f"{half}_norm.", *further]
    return {name: name for name in names}
