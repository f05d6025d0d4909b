"""Models are found by file name and interface."""

import pytest

from heed import registry
from heed.errors import ConfigError
from heed.models.base import DecoderBody
from heed.models.rnn import RNN, RnnLanguageModel


def test_a_file_may_hold_one_body_for_each_interface():
    assert registry.body_class("rnn", ("encoder",)) is RNN
    assert registry.body_class("rnn", ("language_model",)) is RnnLanguageModel
    assert registry.body_class("rnn", ("encoder", "language_model")) is RNN
    assert registry.body_class("rnn", ("language_model", "encoder")) is RnnLanguageModel


def test_a_body_that_no_task_asked_for_is_refused_by_all_its_interfaces():
    with pytest.raises(ConfigError, match=r"model 'lstmn' \(encoder, language model, series\) does not fit this task"):
        registry.body_class("lstmn", ("image_encoder",))


def test_the_models_that_fit_are_listed_once():
    assert issubclass(registry.body_class("bahdanau", ("pair_decoder",)), DecoderBody)
    with pytest.raises(ConfigError, match=r"does not fit this task; these do: .*bahdanau.*seq2seq"):
        registry.body_class("attention_lm", ("pair_decoder",))


@pytest.mark.parametrize("name", ["encoder", "han", "cnn", "bag"])
def test_a_model_that_reads_whole_texts_is_told_why_it_cannot_predict_the_next_token(name):
    reason = r"reads the whole text at once.*learns to copy it.*; these do: attention_lm, .*lstmn, rnn, self_rnn"
    with pytest.raises(ConfigError, match=reason):
        registry.body_class(name, ("language_model",))
    with pytest.raises(ConfigError, match=r"model 'bahdanau' \(pair decoder\) does not fit this task; these do"):
        registry.body_class("bahdanau", ("language_model",))
