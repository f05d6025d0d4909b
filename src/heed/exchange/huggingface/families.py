"""The supported families of checkpoints."""

from __future__ import annotations

from heed.errors import ConfigError
from heed.exchange.huggingface.bert import BertFamily
from heed.exchange.huggingface.config_file import Settings
from heed.exchange.huggingface.distilbert import DistilBertFamily
from heed.exchange.huggingface.family import Family
from heed.exchange.huggingface.gpt2 import Gpt2Family
from heed.exchange.huggingface.marian import MarianFamily
from heed.exchange.huggingface.roberta import RobertaFamily, XlmRobertaFamily
from heed.exchange.huggingface.vit import VitFamily

FAMILIES: tuple[Family, ...] = (
    BertFamily(),
    DistilBertFamily(),
    RobertaFamily(),
    XlmRobertaFamily(),
    Gpt2Family(),
    MarianFamily(),
    VitFamily(),
)
"""One object for each `model_type`. A run that was not imported is exported as the first that can express it."""


def family_of(settings: Settings) -> Family:
    """The family of a checkpoint.

    Raises:
        ConfigError: The family is not supported; the message names it and lists those that are.
    """
    name = settings.model_type
    for family in FAMILIES:
        if family.model_type == name:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise ConfigError(f"{settings.path}: model_type is '{name}', which heed does not support; supported: {known}")
