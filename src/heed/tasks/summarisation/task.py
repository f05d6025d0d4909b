"""Summarisation: like translation, but long documents are cut, and summaries are scored by ROUGE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heed.data.corpus import Lengths, StoredExamples
from heed.data.examples import Pair
from heed.data.splits import Splits
from heed.errors import ConfigError
from heed.models.base import PairDecoder
from heed.tasks import suggest_task
from heed.tasks.base.report import counted_are
from heed.tasks.summarisation.config import (
    DOCUMENT_NAMES,
    SUMMARY_NAMES,
    SummarisationConfig,
    SummarisationHead,
)
from heed.tasks.summarisation.pointer import PointerGenerator
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.start import Tokenizers, open_pairs
from heed.tasks.translation.task import Translation


class Summarisation(Translation):
    """The task of summarisation: documents are sources, summaries are targets."""

    config: SummarisationConfig
    head_class = SummarisationHead
    names = DOCUMENT_NAMES, SUMMARY_NAMES

    def __init__(self, config: TranslationConfig, tokenizers: Tokenizers, splits: Splits[Pair] | None) -> None:
        super().__init__(config, tokenizers, splits)
        self._cut: dict[str, list[int]] = {}

    @classmethod
    def prepare(cls, config: TranslationConfig, given: Mapping[str, Sequence[Pair]] | None = None) -> Summarisation:
        """Prepare as for translation; few pairs do not turn on guided attention: summaries are not word for word.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """
        # A field counts as given by the user once it is set, and is then kept.
        training = config.training.model_copy(update={"guided_attention": config.training.guided_attention})
        made = super().prepare(config.model_copy(update={"training": training}), given)
        assert isinstance(made, cls)
        return made

    @classmethod
    def open_splits(cls, config: TranslationConfig, given: Mapping[str, Sequence[Pair]] | None = None) -> Splits[Pair]:
        return open_pairs(config.data, given, suggest_task, cls.names)

    def build_model(self) -> PairDecoder:
        """A new model, its weights drawn from torch's random state.

        Raises:
            ConfigError: `model.pointer` is true, but the model does not attend to its source.
        """
        config, head = self.model_and_head()
        model = self.body_class(config)
        assert isinstance(model, PairDecoder)
        if not head.pointer:
            return model
        if not model.aligns:
            raise ConfigError(
                f"model.pointer is true, but model '{self.config.model.name}' has no attention to the source, so it "
                "cannot copy; set model.pointer=false or choose another model"
            )
        return PointerGenerator(model)

    def body(self, model: PairDecoder) -> PairDecoder:
        return model.body if isinstance(model, PointerGenerator) else model

    @property
    def text_scores(self) -> tuple[str, ...]:
        return ("rouge1", "rouge2", "rougeL", "bleu", "chrf")

    @property
    def quick_scores(self) -> tuple[str, ...]:
        return self.text_scores

    @property
    def selected_by(self) -> str:
        return "rougeL"

    @property
    def max_source(self) -> int:
        """The most tokens of a document that the model reads."""
        return self.config.data.max_source

    def framed(self, source: Sequence[int]) -> list[int]:
        return super().framed(source[: self.max_source])

    @staticmethod
    def costs(lengths: Lengths) -> Lengths:
        return lengths + np.array([0, 1], dtype=np.int32)

    def cut_in(self, texts: Sequence[str]) -> list[int]:
        """Numbers of the documents that are longer than the model reads."""
        ids = self.source_tokenizer.encode_all([text.strip() for text in texts])
        return [n for n, tokens in enumerate(ids) if len(tokens) > self.max_source]

    def cut_of(self, split: str) -> list[int]:
        """Numbers of the documents of a split that are cut; empty for splits that are not in memory."""
        if split not in self._cut:
            encoded, full = self.encoded(split), self.max_source + len(self.framed([]))
            # Only documents of the largest length can have been cut, and these are few.
            pairs, _ = self._pairs_of(split)
            is_held = not isinstance(pairs, StoredExamples)
            held = np.flatnonzero(is_held & (encoded.lengths[:, 0] >= full)).tolist()
            self._cut[split] = [held[n] for n in self.cut_in([pairs[n].source for n in held])]
        return self._cut[split]

    def _leave_out_long(self) -> None:
        super()._leave_out_long()
        self._cut.clear()
        for split in self.splits.examples:
            if cut := self.cut_of(split):
                pairs, _ = self._pairs_of(split)
                what = f"{counted_are(len(cut), 'document')} longer than data.max_source {self.max_source} tokens"
                places = ", ".join(pairs[n].origin or f"example {n + 1}" for n in cut[:3])
                more = ", ..." if len(cut) > 3 else ""
                self.splits.remarks.append(f"{split}: {what}; only the beginning is read: {places}{more}")

    def report_counts(self) -> dict[str, Any]:
        counts = super().report_counts()
        for split in self.splits.examples:
            counts[split]["cut"] = len(self.cut_of(split))
        return counts
