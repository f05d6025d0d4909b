"""Parts used by two or more models."""

from heed.layers.dropout import Dropout
from heed.layers.embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from heed.layers.recurrent import Recurrent, RecurrentCell, replay_gates
from heed.layers.states import Bridge, pack_states, select_states, unpack_states

__all__ = [
    "Bridge",
    "Dropout",
    "LearnedPositions",
    "Recurrent",
    "RecurrentCell",
    "SinusoidalPositions",
    "TokenEmbedding",
    "pack_states",
    "replay_gates",
    "select_states",
    "unpack_states",
]
