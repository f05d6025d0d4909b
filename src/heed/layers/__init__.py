"""Parts used by two or more models."""

from heed.layers.dropout import Dropout
from heed.layers.embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from heed.layers.recurrent import Recurrent, RecurrentCell, replay_gates

__all__ = [
    "Dropout",
    "LearnedPositions",
    "Recurrent",
    "RecurrentCell",
    "SinusoidalPositions",
    "TokenEmbedding",
    "replay_gates",
]
