"""Taggers in Hugging Face checkpoints: `...ForTokenClassification`."""

from __future__ import annotations

from typing import Any, ClassVar

from heed.data.examples import is_entity_tag
from heed.errors import ConfigError
from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.tasks.base.huggingface import Exportable, TaskCheckpoint, longest_text, names_of_labels
from heed.tasks.tagging.config import TaggingConfig
from heed.tasks.tagging.task import Tagging


class TaggingCheckpoint(TaskCheckpoint[TaggingConfig]):
    """A linear layer over the states of tokens; a word is tagged by its first token."""

    places: ClassVar = {"body": "body", "tags": "head.output"}

    @classmethod
    def heads(cls, checkpoint: Checkpoint) -> frozenset[str]:
        return frozenset({"tags"})

    @classmethod
    def sections(cls, checkpoint: Checkpoint, heads: frozenset[str], tied: bool) -> dict[str, Any]:
        entities = any(map(is_entity_tag, checkpoint.labels))
        data = {"max_length": longest_text(checkpoint), **({} if entities else {"scheme": "plain"})}
        return {"model": {"head": "softmax", "word": "first"}, "data": data}

    @classmethod
    def task(cls, config: TaggingConfig, checkpoint: Checkpoint) -> Tagging:
        return Tagging(config, checkpoint.tokenizer, checkpoint.labels, None)

    @classmethod
    def exportable(cls, run: Any) -> Exportable:
        task: Tagging = run.task
        body, head = task.model_and_head()
        for field, value in (("head", "softmax"), ("characters", "none"), ("delay", 0)):
            if (own := getattr(head, field)) != value:
                raise ConfigError(f"model.{field} is {own}: Hugging Face taggers support only {value}")
        mean = "the checkpoint tags tokens; this run tags a word by the mean of its tokens' states"
        notes = (mean,) if head.word == "mean" else ()
        return Exportable(
            body, frozenset({"tags"}), task.tokenizers(), settings=names_of_labels(task.labels), notes=notes
        )
