"""Contract of every model: a typed configuration, one of a few interfaces, and step-by-step decoding.

Models take plain tensors and masks; they do not depend on files, tokenizers, beam search or observers.
"""

from heed.models.base.body import (
    Body,
    DecoderBody,
    ImageEncoder,
    Interface,
    LanguageModel,
    Memory,
    PairDecoder,
    RowEncoder,
    SeriesEncoder,
    TextEncoder,
    TextReader,
    TokenEncoder,
    TurnDecoder,
    ragged,
    state_at,
)
from heed.models.base.config import (
    ImageConfig,
    ModelConfig,
    TextConfig,
    TokenConfig,
    TranslatorConfig,
    TurnConfig,
    named_sizes,
)
