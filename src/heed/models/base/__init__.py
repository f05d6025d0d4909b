"""Contract of every model: a typed configuration, one of a few interfaces, and step-by-step decoding.

Models take plain tensors and masks; they do not depend on files, tokenizers, beam search or observers.
"""

from heed.models.base.body import Body, DecoderBody, Interface, Memory, ragged
from heed.models.base.config import (
    ImageConfig,
    ModelConfig,
    TextConfig,
    TokenConfig,
    TranslatorConfig,
    TurnConfig,
    learned_positions,
    named_sizes,
)
from heed.models.base.decoders import LanguageModel, PairDecoder, TurnDecoder
from heed.models.base.encoders import (
    ImageEncoder,
    RowEncoder,
    SeriesEncoder,
    TextEncoder,
    TextReader,
    TokenEncoder,
    state_at,
)

__all__ = [
    "Body",
    "DecoderBody",
    "ImageConfig",
    "ImageEncoder",
    "Interface",
    "LanguageModel",
    "Memory",
    "ModelConfig",
    "PairDecoder",
    "RowEncoder",
    "SeriesEncoder",
    "TextConfig",
    "TextEncoder",
    "TextReader",
    "TokenConfig",
    "TokenEncoder",
    "TranslatorConfig",
    "TurnConfig",
    "TurnDecoder",
    "learned_positions",
    "named_sizes",
    "ragged",
    "state_at",
]
