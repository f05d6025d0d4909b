"""CPU kernels: functions of tensors, each in a fast form and in torch's own operations, and a switch between these."""

from heed.kernels.aligned_gru import aligned_gru
from heed.kernels.blocks import BlockWeights
from heed.kernels.cross_entropy import layer_cross_entropy, linear_cross_entropy
from heed.kernels.decoder_block import decoder_block, trains_whole_block
from heed.kernels.dropout import byte_dropout, relu_dropout
from heed.kernels.encoder_block import BlockSettings, Groups, encoder_block, trains_packed
from heed.kernels.first_state import attend_first
from heed.kernels.gelu import gelu_tanh
from heed.kernels.gru import gru_sequence, trains_by_hand
from heed.kernels.linear import Linear, linear, outer
from heed.kernels.memory import large_empty
from heed.kernels.next_token import Best, LargeVocabulary, best_of
from heed.kernels.norm import layer_norm
from heed.kernels.pre_norm_block import PreNormSettings, pre_norm_block, trains_pre_norm
from heed.kernels.private import onednn_linear
from heed.kernels.rotary import rotate
from heed.kernels.short_attention import SHORT, VECTOR, attend_few, short_attend
from heed.kernels.switch import enabled, plain
from heed.kernels.tape_lstm import tape_lstm

__all__ = [
    "SHORT",
    "VECTOR",
    "Best",
    "BlockSettings",
    "BlockWeights",
    "Groups",
    "LargeVocabulary",
    "Linear",
    "PreNormSettings",
    "aligned_gru",
    "attend_few",
    "attend_first",
    "best_of",
    "byte_dropout",
    "choice",
    "decoder_block",
    "enabled",
    "encoder_block",
    "gelu_tanh",
    "gru_sequence",
    "large_empty",
    "layer_cross_entropy",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "outer",
    "plain",
    "pre_norm_block",
    "relu_dropout",
    "rotate",
    "short_attend",
    "tape_lstm",
    "trains_by_hand",
    "trains_packed",
    "trains_pre_norm",
    "trains_whole_block",
]


def choice() -> str:
    """The kernels in use, for reports: "plain", or "fast", with the library of large products if it is not torch's."""
    if not enabled():
        return "plain"
    return "fast" if onednn_linear() is None else "fast, products by oneDNN"
