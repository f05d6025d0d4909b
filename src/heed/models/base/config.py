"""Fields of models: what the data decides, and sizes by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field


def named_sizes(
    tiny: dict[str, Any], small: dict[str, Any] | None = None, **others: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Fields that differ from the defaults, per size; "base" is the defaults."""
    return {"tiny": tiny, "small": small or {}, "base": {}, **others}


def learned_positions(config_class: type[BaseModel], fields: Mapping[str, Any]) -> int | None:
    """Positions of the learned table of a model with these fields, others at their defaults; None without a table."""
    own = config_class.model_fields
    if "max_length" not in own:
        return None
    kind = fields.get("positions", own["positions"].default) if "positions" in own else "learned"
    return int(fields.get("max_length", own["max_length"].default)) if kind == "learned" else None


class ModelConfig(BaseModel):
    """The fields of a model; the defaults are size base.

    The docstring of each begins with "Fields of `name`" and says after a semicolon whose widths the defaults are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    sizes: ClassVar[dict[str, dict[str, Any]]] = named_sizes(tiny={})
    """Fields that differ from the defaults, per named size."""


class TextConfig(ModelConfig):
    """Of a model that reads one text."""

    vocab_size: int = Field(gt=0)
    """Number of tokens; set from the data."""


class TokenConfig(TextConfig):
    """Of a model with a state for each token."""

    d_features: int = Field(0, ge=0)
    """Width of what else is known of each token (characters); set by the task."""


class ImageConfig(ModelConfig):
    """Of a model that reads a picture."""

    num_channels: int = Field(gt=0)
    """Channels of a picture: 1 grey, 3 red, green and blue; set from the data."""
    height: int = Field(gt=0)
    """Pixels from top to bottom; set from the data."""
    width: int = Field(gt=0)
    """Pixels from left to right; set from the data."""


class TranslatorConfig(ModelConfig):
    """Of a model that reads a source and writes a target."""

    source_vocab_size: int = Field(gt=0)
    """Number of source tokens; set from the data."""
    target_vocab_size: int = Field(gt=0)
    """Number of target tokens; set from the data."""


class TurnConfig(ModelConfig):
    """Of a model that reads a conversation turn by turn and writes a response."""

    vocab_size: int = Field(gt=0)
    """Number of tokens; set from the data."""
    num_speakers: int = Field(gt=0)
    """Number of speakers that are told apart, the unknown one among them; set from the data."""
