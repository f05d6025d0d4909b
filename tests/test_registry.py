"""Models are found by file name and interface."""

import sys
from types import ModuleType

import pytest

import heed.models
from heed import registry
from heed.errors import ConfigError
from heed.models.attention_lm import AttentionLM
from heed.models.bahdanau import Bahdanau
from heed.models.base import Body, DecoderBody


@pytest.fixture
def two(monkeypatch):
    """A file `two` with a pair decoder, an encoder and what they share, in place of the real ones."""
    module = ModuleType("heed.models.two")

    class Shared(Body):
        pass

    class Encoder(Shared):
        interface = "encoder"
        example = classmethod(lambda cls, config, seed: {})

    class Decoder(Bahdanau):
        pass

    for value in (Shared, Encoder, Decoder):
        value.__module__ = module.__name__
        setattr(module, value.__name__, value)
    module.Imported = AttentionLM
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(heed.models, "two", module, raising=False)

    class Info:
        name = "two"

    monkeypatch.setattr(registry.pkgutil, "iter_modules", lambda path: [Info])
    yield Encoder, Decoder
    registry.bodies_of.cache_clear()


def test_a_file_may_hold_one_body_for_each_interface(two):
    encoder, decoder = two
    assert registry.list_models() == [("two", encoder), ("two", decoder)]
    assert registry.body_class("two", ("pair_decoder",)) is decoder
    assert registry.body_class("two", ("encoder",)) is encoder
    assert registry.body_class("two", ("encoder", "pair_decoder")) is encoder
    assert registry.body_class("two", ("pair_decoder", "encoder")) is decoder


def test_a_body_that_no_task_asked_for_is_refused_by_all_its_interfaces(two):
    with pytest.raises(ConfigError, match=r"model 'two' \(encoder and pair decoder\) does not fit this task"):
        registry.body_class("two", ("language_model",))


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
