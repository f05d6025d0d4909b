"""The attention mechanism: scores, weights, context. Start reading at `attend`."""

from heed.attention.attend import attend, masked_softmax
from heed.attention.keys import Keys, Rows
from heed.attention.masks import causal_mask, padding_mask
from heed.attention.modules import Attention, AttentionLayer, MultiHeadAttention, Turn
from heed.attention.pooling import AttentionPooling
from heed.attention.scores import SCORES, Additive, Concat, Dot, General, KeyQuery, ScaledDot, Score, make_score

__all__ = [
    "SCORES",
    "Additive",
    "Attention",
    "AttentionLayer",
    "AttentionPooling",
    "Concat",
    "Dot",
    "General",
    "KeyQuery",
    "Keys",
    "MultiHeadAttention",
    "Rows",
    "ScaledDot",
    "Score",
    "Turn",
    "attend",
    "causal_mask",
    "make_score",
    "masked_softmax",
    "padding_mask",
]
