"""Pretrained models as Hugging Face checkpoints: a body with heads of masked words and of sentence order."""

from __future__ import annotations

from typing import Any, ClassVar

from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.exchange.huggingface.family import Family
from heed.tasks.base.huggingface import Exportable, TaskCheckpoint
from heed.tasks.pretraining.config import PretrainingConfig, PretrainingHead
from heed.tasks.pretraining.task import Pretraining

_FIELDS = {"words": "masked_words", "order": "next_sentence"}


class PretrainingCheckpoint(TaskCheckpoint[PretrainingConfig]):
    """Heads over all states (masked words) and over the body's `last` (sentence order)."""

    places: ClassVar = {"body": "body", "words": "words", "order": "order"}

    @classmethod
    def heads(cls, checkpoint: Checkpoint) -> frozenset[str]:
        family, files = checkpoint.family, checkpoint.files
        return _heads(family, family.guess(files)) | _heads(family, checkpoint.architecture)

    @classmethod
    def sections(cls, checkpoint: Checkpoint, heads: frozenset[str], tied: bool) -> dict[str, Any]:
        fields = checkpoint.family.fields(checkpoint.settings, checkpoint.files, heads)
        model = {field: head in heads for head, field in _FIELDS.items()}
        longest = max(7, min(512, fields["max_length"]))
        fixed = {"pooling": "last", "first_embeddings": "drawn", "tied_output": tied}
        return {"model": {**model, **fixed}, "data": {"max_length": longest}}

    @classmethod
    def task(cls, config: PretrainingConfig, checkpoint: Checkpoint) -> Pretraining:
        return Pretraining(config, checkpoint.tokenizer, None)

    @classmethod
    def exportable(cls, run: Any) -> Exportable:
        task: Pretraining = run.task
        body, head = task.model_and_head()
        assert isinstance(head, PretrainingHead)
        heads = frozenset(name for name, field in _FIELDS.items() if getattr(head, field))
        notes: tuple[str, ...] = ()
        left: frozenset[str] = frozenset()
        if head.pooling != "last" and "order" in heads:
            left = frozenset({"order"})
            heads -= left
            notes = (
                f"the head for pairs is left out: it reads the {head.pooling} of the states (model.pooling), but "
                "in checkpoints this head reads [CLS]",
            )
        return Exportable(body, heads, task.tokenizers(), tied=head.tied_output, notes=notes, left=left)


def _heads(family: Family, architecture: str) -> frozenset[str]:
    return next((heads for heads, name in family.architectures.items() if name == architecture), frozenset())
