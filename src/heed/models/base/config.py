"""Base classes of model configurations: the fields set from the data, and named sizes."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field


def named_sizes(
    tiny: dict[str, Any], small: dict[str, Any] | None = None, **others: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Fields that differ from the defaults, by size; size "base" has the defaults."""
    return {"tiny": tiny, "small": small or {}, "base": {}, **others}


class ModelConfig(BaseModel):
    """Configuration of a model; the defaults are size base.

    The docstring of a subclass begins with "Fields of `name`" and, after a semicolon, names the source of the default
    widths; `heed models` prints that part.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    sizes: ClassVar[dict[str, dict[str, Any]]] = named_sizes(tiny={})
    """Fields that differ from the defaults, by size."""


class TextConfig(ModelConfig):
    """Configuration of a model that reads one text."""

    vocab_size: int = Field(gt=0)
    """Size of the vocabulary; set from the data."""


class TokenConfig(TextConfig):
    """Configuration of a model that returns a state for each token."""

    d_features: int = Field(0, ge=0)
    """Width of additional features of each token, such as its characters; set by the task."""


class ImageConfig(ModelConfig):
    """Configuration of a model that reads a picture."""

    num_channels: int = Field(gt=0)
    """Channels of a picture: 1 (grey) or 3 (RGB); set from the data."""
    height: int = Field(gt=0)
    """Height of a picture in pixels; set from the data."""
    width: int = Field(gt=0)
    """Width of a picture in pixels; set from the data."""


class TranslatorConfig(ModelConfig):
    """Configuration of a model that reads a source and generates a target."""

    source_vocab_size: int = Field(gt=0)
    """Size of the source vocabulary; set from the data."""
    target_vocab_size: int = Field(gt=0)
    """Size of the target vocabulary; set from the data."""


class TurnConfig(ModelConfig):
    """Configuration of a model that reads a conversation turn by turn and generates a response."""

    vocab_size: int = Field(gt=0)
    """Size of the vocabulary; set from the data."""
    num_speakers: int = Field(gt=0)
    """Number of distinct speakers, including the unknown speaker; set from the data."""
