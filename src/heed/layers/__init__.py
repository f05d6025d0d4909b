"""Layers shared by two or more models."""

from heed.layers.crf import LinearChainCRF
from heed.layers.decoder_stack import DecoderStack, SearchState, StackState
from heed.layers.elementwise import Dropout, LayerNorm, RMSNorm
from heed.layers.embeddings import (
    AffixFeatures,
    CharacterFeatures,
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    TokenEmbedding,
    TokenInput,
    output_layers,
    places_within,
)
from heed.layers.ragged import max_pooling, mean_pooling
from heed.layers.recurrent import Recurrent, RecurrentCell, StepwiseRun, last_of, replay_gates
from heed.layers.states import AlignedState, Bridge, RecurrentState, Tape, TapeState, pack_states, unpack_states
