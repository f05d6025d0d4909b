"""CPU kernels: functions of tensors, each in a fast form and in torch's own operations, and a switch between these."""

from heed.kernels.elementwise import byte_dropout
from heed.kernels.linear import (
    Best,
    LargeVocabulary,
    Linear,
    Map,
    best_of,
    bound,
    joined,
    linear,
    linear_together,
    loss_at,
    outer,
    piece_positions,
    vocabulary_loss,
)
from heed.kernels.packed import Groups, packed_attention
from heed.kernels.private import enabled, onednn_linear, plain, trains_by_hand
from heed.kernels.recurrent import aligned_gru, gru_sequence, tape_lstm


def choice() -> str:
    """The kernels in use, for reports: "plain", or "fast", with the library of large products if it is not torch's."""
    if not enabled():
        return "plain"
    return "fast" if onednn_linear() is None else "fast, products by oneDNN"
