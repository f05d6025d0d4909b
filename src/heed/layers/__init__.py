"""Layers shared by two or more models."""

from heed.layers.cells import RecurrentCell, StepwiseRun, last_of, replay_gates
from heed.layers.characters import CharacterFeatures
from heed.layers.crf import LinearChainCRF
from heed.layers.decoder_stack import DecoderStack
from heed.layers.dropout import Dropout
from heed.layers.embeddings import (
    LearnedPositions,
    SinusoidalPositions,
    TokenEmbedding,
    TokenInput,
    output_layers,
    places_within,
)
from heed.layers.fast_decoding import FastDecoding
from heed.layers.norm import LayerNorm, RMSNorm
from heed.layers.pooling import max_pooling, mean_pooling
from heed.layers.recurrent import Recurrent
from heed.layers.rotary import RotaryPositions
from heed.layers.states import AlignedState, Bridge, RecurrentState, StackState, pack_states, unpack_states
from heed.layers.tape import Tape, TapeState

__all__ = [
    "AlignedState",
    "Bridge",
    "CharacterFeatures",
    "DecoderStack",
    "Dropout",
    "FastDecoding",
    "LayerNorm",
    "LearnedPositions",
    "LinearChainCRF",
    "RMSNorm",
    "Recurrent",
    "RecurrentCell",
    "RecurrentState",
    "RotaryPositions",
    "SinusoidalPositions",
    "StackState",
    "StepwiseRun",
    "Tape",
    "TapeState",
    "TokenEmbedding",
    "TokenInput",
    "last_of",
    "max_pooling",
    "mean_pooling",
    "output_layers",
    "pack_states",
    "places_within",
    "replay_gates",
    "unpack_states",
]
