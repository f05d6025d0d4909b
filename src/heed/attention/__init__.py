"""The attention mechanism: scores, weights, context. Start reading at `attend`."""

from heed.attention.attend import attend, causal_mask, masked_softmax, padding_mask
from heed.attention.hierarchical import AttentionPooling
from heed.attention.keys import Keys, Rows, SearchKeys
from heed.attention.modules import Attention, AttentionLayer, MultiHeadAttention, Rotation
from heed.attention.scores import SCORES, Additive, Concat, Dot, General, KeyQuery, ScaledDot, Score, make_score
