"""Language models as Hugging Face checkpoints: `GPT2LMHeadModel`, or a body with its embeddings as output layer.

As in heed, a checkpoint's documents end with its end token, which also precedes the first document. A prompt begins
with it only if the checkpoint's tokenizer adds it (`add_bos_token`).
"""

from __future__ import annotations

from typing import Any, ClassVar

from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.exchange.huggingface.files import optional_json
from heed.tasks.base.huggingface import Exportable, TaskCheckpoint
from heed.tasks.language_modelling.config import LanguageModelConfig
from heed.tasks.language_modelling.task import LanguageModelling

_TOKENIZER_CONFIG = "tokenizer_config.json"


class LanguageModelCheckpoint(TaskCheckpoint[LanguageModelConfig]):
    """A body with a layer to its vocabulary."""

    places: ClassVar = {"body": "", "output": "output"}

    @classmethod
    def heads(cls, checkpoint: Checkpoint) -> frozenset[str]:
        return frozenset({"output"})

    @classmethod
    def sections(cls, checkpoint: Checkpoint, heads: frozenset[str], tied: bool) -> dict[str, Any]:
        fields = checkpoint.family.fields(checkpoint.settings, checkpoint.files, heads)
        tokenizer, files = checkpoint.vocabularies["tokens"]
        ends = {files["roles"].get(role) for role in ("sep_token", "eos_token")}
        begins = (optional_json(checkpoint.folder / _TOKENIZER_CONFIG) or {}).get("add_bos_token") is True
        return {
            "model": {"tied_output": tied},
            "data": {"context": fields["max_length"], "end_token": tokenizer.token(tokenizer.special.end) in ends},
            "generation": {"first_token": begins},
        }

    @classmethod
    def task(cls, config: LanguageModelConfig, checkpoint: Checkpoint) -> LanguageModelling:
        return LanguageModelling(config, checkpoint.tokenizer, None)

    @classmethod
    def exportable(cls, run: Any) -> Exportable:
        task: LanguageModelling = run.task
        body, _ = task.model_and_head()
        tied = getattr(body, "tied_output", True)
        return Exportable(body, frozenset({"output"}), task.tokenizers(), tied=tied)
