"""Translators as Hugging Face checkpoints: `MarianMTModel`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar

from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.exchange.huggingface.files import Settings
from heed.tasks.base.huggingface import Exportable, TaskCheckpoint
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.task import TASK
from heed.tasks.work import Work

GENERATION = "generation_config.json"
_STOPPING = {False: "heuristic", True: "full", "never": "never"}
"""transformers' `early_stopping` -> ours."""
_LONGEST = 200
"""Most tokens of an output, unless the run sets it."""
_POSITIONS = 1024
"""Least number of sinusoidal positions in the checkpoint; ours are unlimited."""
_LENGTH = 21
"""Most tokens that `generate` writes where no file says it: 20 after the first one."""


class TranslationCheckpoint(TaskCheckpoint[TranslationConfig]):
    """A model that is its body, with an output layer and settings of its searches."""

    places: ClassVar = {"body": ""}

    @classmethod
    def heads(cls, checkpoint: Checkpoint) -> frozenset[str]:
        has_bias = "final_logits_bias" in checkpoint.files
        return frozenset({"output", "bias"} if has_bias else {"output"})

    @classmethod
    def sections(cls, checkpoint: Checkpoint, heads: frozenset[str], tied: bool) -> dict[str, Any]:
        source, target = (checkpoint.tokenizers[side] for side in ("source", "target"))
        return {
            "tokenizer": {"shared": source.tokens == target.tokens},
            "generation": cls._generation(checkpoint),
        }

    @classmethod
    def _generation(cls, checkpoint: Checkpoint) -> dict[str, Any]:
        path = checkpoint.folder / GENERATION
        given = Settings.read(path) if os.path.lexists(path) else checkpoint.settings
        banned = given.get("bad_words_ids", [])
        unknown = [checkpoint.tokenizers["target"].special.unknown]
        # `max_length` includes the first token, and `forced_eos_token_id` replaces the last one by the end token.
        longest = given.count("max_new_tokens", 0, least=0) or given.count("max_length", _LENGTH) - 1
        longest -= given.get("forced_eos_token_id", None) is not None
        stopping = given.get("early_stopping", False)
        if stopping not in (True, False, "never"):
            raise given.wrong("early_stopping", 'true, false or "never"')
        return {
            "beam_size": given.count("num_beams", 1),
            "length_penalty": given.number("length_penalty", 1.0, most=100),
            "max_length": max(1, longest),
            "min_length": max(0, given.count("min_length", 0, least=0) - 1),
            "replace_unknown": False,
            "unknown": unknown not in banned,
            "renormalize": given.flag("renormalize_logits", False),
            "early_stopping": _STOPPING[stopping],
        }

    @classmethod
    def task(cls, config: TranslationConfig, checkpoint: Checkpoint) -> Work:
        sides: dict[str, Any] = {f"{side}_tokenizer": checkpoint.tokenizers[side] for side in ("source", "target")}
        return Work(TASK, config, replace(TASK.input, **sides), TASK.head, None)

    @classmethod
    def exportable(cls, run: Any) -> Exportable:
        body, _ = run.task.model_and_head()
        given = run.config.generation
        notes = ["replace_unknown has no counterpart in generate, which leaves unknown words unknown"]
        stops = {ours: theirs for theirs, ours in _STOPPING.items()}
        never = run.head.never_written(run.model)

        special = run.input.target_tokenizer.special
        generation = {
            "decoder_start_token_id": special.start,
            "pad_token_id": special.padding,
            "eos_token_id": special.end,
            "bad_words_ids": [[i] for i in sorted({*never})],
            "num_beams": given.beam_size,
            "length_penalty": given.length_penalty,
            "early_stopping": stops[given.early_stopping],
            "renormalize_logits": given.renormalize,
            # In transformers, the first token counts.
            "max_length": (given.max_length or _LONGEST) + 1,
            "min_length": given.min_length + 1 if given.min_length else 0,
        }

        return Exportable(
            body,
            frozenset({"output", "bias"}),
            run.task.tokenizers(),
            tied=bool(getattr(body, "tied_output", True)),
            settings={"max_position_embeddings": max(_POSITIONS, (given.max_length or _LONGEST) + 1)},
            notes=tuple(notes if run.head.replaces_unknown else ()),
            files={GENERATION: generation},
        )
