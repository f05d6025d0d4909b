"""Translation: pairs of texts, a pair decoder, the loss over the target's tokens, outputs as text."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from heed.config import FilesData
from heed.data.batch.pairs import PairBatch, TokenPair, collate_pairs
from heed.data.batch.plan import plan_batches
from heed.data.examples import Pair
from heed.data.tokens.tokenizer import PADDING, START, UNKNOWN, TextTokenizer
from heed.evaluation.measures import Measure, share, values_of
from heed.evaluation.rouge import ROUGE, rouge_measures
from heed.evaluation.text import text_measure
from heed.models.base import PairDecoder
from heed.observe.trace import trace
from heed.registry import body_class
from heed.tasks.base.positions import check_positions
from heed.tasks.base.transfer import Parent, with_parents
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.data import TranslationData
from heed.tasks.translation.overview import overview, report_counts
from heed.tasks.translation.pretrained import counterparts, taken_part, with_body
from heed.tasks.translation.sides import remarks_on_sets
from heed.tasks.translation.sizes import auto_size, few_because, for_few_pairs
from heed.tasks.translation.supervision import Supervision, attention_loss, check_model, supervised_weights
from heed.tasks.translation.tokenizers import learn_tokenizers, load_tokenizers, save_tokenizers
from heed.tasks.translation.writing import GENERATE_TOKENS, cached_bytes, translate
from heed.threads import threads_for
from heed.training.contracts import Loss
from heed.training.loss import loss_at
from heed.training.micro_batches import kept_bytes
from heed.training.processes import current

_WITHOUT_END = sys.maxsize
"""Number of pairs of a stream, for settings that are chosen by the number of pairs."""
VALIDATE_AT_MOST = 500
"""Most validation examples that are decoded; the loss uses all examples."""


class Translation(TranslationData):
    """The task of translation: data, model, loss and scores."""

    interfaces = ("pair_decoder",)
    size_fields: ClassVar = {"source": "source_vocab_size", "target": "target_vocab_size"}
    units: ClassVar = {"source": "source tokens", "target": "target tokens"}
    alternatives: ClassVar = {"source": ("source", "tokens")}
    _supervision: Supervision | None = None
    translate = translate
    overview = overview
    report_counts = report_counts

    @classmethod
    def prepare(cls, config: TranslationConfig, given: Mapping[str, Sequence[Pair]] | None = None) -> Translation:
        """Read the data, or take the `given` examples, train the tokenizers, settle the fields that depend on the data.

        Returns:
            The task, with every field of its `config` set.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """
        config, parent, spoken = with_parents(with_body(config), cls)
        known = cls._of_parent(config, parent)
        splits = cls.read_splits(config, given)
        if given is None and isinstance(config.data, FilesData):
            splits.remarks += remarks_on_sets(splits.examples, config.data)
        seen = [splits.examples["train"], *(corpus.examples for corpus in splits.extra.values())]
        count = _WITHOUT_END if splits.stream else sum(map(len, seen))
        asked, config = config, for_few_pairs(config, count, body_class(config.model.name, cls.interfaces))
        if config is not asked:
            why = few_because(asked, count)
            splits.remarks.append(f"{why}: using size scarce and the settings for few pairs (docs/data.md, Few pairs)")
        if spoken is None:
            config, tokenizers, remark = learn_tokenizers(config, seen, count, known)
            splits.remarks += [remark] if remark else []
        else:
            tokenizers = spoken.tokenizer("source", cls), spoken.tokenizer("target", cls)
        tokenizers[0].add_tags(corpus.tag for corpus in splits.extra.values() if corpus.tag is not None)
        task = cls(config, tokenizers, splits)
        task._leave_out_long()
        _ = task.supervision  # reports errors in files of links before anything is trained
        task._check_positions()
        return task.settle(parent)

    def _check_positions(self) -> None:
        """Refuse, before training, texts with more tokens than the model has learned positions."""
        if self.positions is not None:
            names = [
                name for name in self.split_names if name != "train" or not isinstance(self.config.data, FilesData)
            ]
            needed = {name: max(max(len(s), len(t) + 1) for s, t in self.encoded(name)) for name in names}
            check_positions(self.positions, needed, self.config.generation.max_length)

    @staticmethod
    def _of_parent(config: TranslationConfig, parent: Parent | None) -> Mapping[str, TextTokenizer]:
        """The tokenizers that come with a parent's body, by side; none if the user set fields of the tokenizer."""
        part = None if parent is None else taken_part(config, parent)
        if part is None or parent is None or config.tokenizer.model_fields_set - {"sampling"}:
            return {}
        theirs = parent.task.tokenizers()
        sides = {"encoder": ["source"], "decoder": ["target"], "both": ["source", "target"]}[part]
        return {side: theirs.get(side) or theirs["tokens"] for side in sides if theirs.keys() & {side, "tokens"}}

    def taken_from(
        self, parent: Parent, own: Mapping[str, Tensor], prefix: str, given: dict[str, Tensor]
    ) -> Mapping[str, str] | None:
        """The tensors of the part that `model.take` selects, or that a parent of single texts becomes."""
        part = taken_part(self.config, parent)
        return None if part is None else counterparts(part, parent.task.config.model.name, own, prefix, given)

    @classmethod
    def restore(cls, config: TranslationConfig, folder: Path) -> Translation:
        """The task of a run folder; its data is opened only when asked for."""
        return cls(config, load_tokenizers(folder, config.tokenizer), None)

    @classmethod
    def resume(
        cls, config: TranslationConfig, folder: Path, given: Mapping[str, Sequence[Pair]] | None = None
    ) -> Translation:
        """The task of a resumed run, with its tokenizers; pairs that are too long are left out again."""
        task = super().resume(config, folder, given)
        task._leave_out_long()
        return task

    def save(self, folder: Path) -> None:
        """Write the tokenizers into a run folder."""
        save_tokenizers(folder, (self.source_tokenizer, self.target_tokenizer))

    @property
    def selected_by(self) -> str:
        """Score chrF for data from files; exact match for embedded data and shuffled sentences."""
        data = self.config.data
        return "chrf" if isinstance(data, FilesData) and data.shuffle_source is None else "exact_match"

    @property
    def text_scores(self) -> tuple[str, ...]:
        """The scores of texts in addition to exact match (see `output_measures`); none for embedded data."""
        return ("chrf", "bleu", "ter") if isinstance(self.config.data, FilesData) else ()

    @property
    def quick_scores(self) -> tuple[str, ...]:
        """The text scores of validations and of baselines."""
        return ("bleu", "chrf") if isinstance(self.config.data, FilesData) else ()

    @property
    def auto_size(self) -> str:
        """The named size, by the number of training pairs."""
        return auto_size(self.config, _WITHOUT_END if self.splits.stream else len(self.training))

    def settled(self) -> TranslationConfig:
        """The settled configuration as for every task, with `generation.max_length` set."""
        config = super().settled()
        if config.generation.max_length is not None:
            return config
        longest = min(math.ceil(1.5 * self.training.longest(1)) + 20, self.positions or sys.maxsize)
        return config.model_copy(update={"generation": config.generation.model_copy(update={"max_length": longest})})

    def build_model(self) -> PairDecoder:
        """A new model, its weights drawn from torch's random state."""
        model = self.body_class(self.model_and_head()[0])
        assert isinstance(model, PairDecoder)
        if (section := self.config.training.supervision) is not None:
            check_model(model, section, self.config.training.supervised_by, self.config.model.name)
        return model

    def axes(self) -> dict[str, list[str]]:
        """The tokens of both sides."""
        return {kind: tokenizer.tokens for kind, tokenizer in self.tokenizers().items()}

    def body(self, model: PairDecoder) -> PairDecoder:
        """The whole model."""
        return model

    def collate(self, indices: list[int], epoch: int = 0) -> PairBatch:
        """One training batch; with subword sampling, its texts are cut differently in each pass."""
        batch = self.training.collate(indices)
        return batch if self.supervision is None else self.supervision.on(batch)

    @property
    def supervision(self) -> Supervision | None:
        """The wanted attention in training; None without guided attention."""
        section = self.config.training.supervision
        if self._supervision is None and section is not None:
            self._supervision = Supervision(self, section)
        return self._supervision

    def scoring_memory(self, model: PairDecoder, activations: float) -> int:
        """Bytes that writing takes: keys and values of a Transformer, states of the sources of other models.

        A recurrent encoder holds about as much as for a backward pass.
        """
        sources = [pair.source for pair in self.encoded("valid")[:VALIDATE_AT_MOST]]
        batches = plan_batches([(1, len(source)) for source in sources], GENERATE_TOKENS)
        read = [(len(rows), max(len(sources[i]) for i in rows)) for rows in batches]
        written = self._longest_written()
        if held := cached_bytes(model, max(count * (written + length) for count, length in read)):
            return held
        few = collate_pairs([TokenPair(source, []) for source in sources[:8]], [*range(len(sources[:8]))])
        few = few.to(next(model.parameters()).device)
        model.eval()
        kept = kept_bytes(model, lambda: model.encode(few.source, few.source_mask)) / few.source.numel()
        return round(kept * max(count * length for count, length in read))

    def _longest_written(self) -> int:
        # An output longer than every reference is wrong whatever follows, so writing it out would only cost time.
        longest = max(len(pair.target) for pair in self.encoded("valid")) + 2
        return min(longest, self.positions or longest)

    def links_shown(self, index: int, pair: Pair) -> str:
        """The links that guide the attention to a training pair, for people; "" for none."""
        return "" if self.supervision is None else self.supervision.shown(index, pair)

    def loss(self, model: PairDecoder, batch: PairBatch, label_smoothing: float) -> Tensor | Loss:
        """Sum over the batch's real target tokens of the cross-entropy in nats, plus the loss of guided attention."""
        real = batch.target_mask, batch.num_targets
        section = self.config.training.supervision
        if batch.alignment is None or section is None:
            hidden = model(batch.source, batch.source_mask, batch.target)
            return loss_at(real, hidden, batch.labels, model.output, label_smoothing)
        with trace(model, grad=True, mechanism="cross", layer=section.layer) as seen:
            hidden = model(batch.source, batch.source_mask, batch.target)
        weights = supervised_weights(seen, section)
        of_text = loss_at(real, hidden, batch.labels, model.output, label_smoothing)
        of_weights = section.weight * attention_loss(weights, batch.alignment, batch.source_mask, section.loss)
        return Loss(of_text + of_weights, {"text": of_text, "alignment": of_weights})

    def validate(self, model: PairDecoder) -> dict[str, float]:
        """Loss in nats per token, token accuracy and exact match of greedy outputs on the validation set."""
        pairs = self.splits.examples["valid"]
        processes = current()

        def forced(encoded: list[TokenPair]) -> list[tuple[float, int, int]]:
            return list(zip(*self.forced_scores(model, encoded), strict=True))

        nll, correct, tokens = zip(*processes.map(forced, self.encoded("valid")), strict=True)
        pairs = pairs[:VALIDATE_AT_MOST]
        longest = self._longest_written()

        def written(sources: list[str]) -> list[str]:
            return [out[0].text for out in self.translate(model, sources, beam_size=1, max_length=longest)]

        texts = processes.map(written, [pair.source for pair in pairs])
        references = [self.target_tokenizer.normalize(pair.target) for pair in pairs]
        *of_texts, exact = output_measures(texts, references, self.quick_scores)
        token_accuracy = share("token_accuracy", "token accuracy", correct, tokens)
        return {"loss": sum(nll) / sum(tokens), **values_of([token_accuracy, exact, *of_texts])}

    @torch.no_grad()
    def forced_scores(self, model: PairDecoder, pairs: Sequence[TokenPair]) -> tuple[list[float], list[int], list[int]]:
        """Score references by teacher forcing.

        Returns:
            For each example: negative log-likelihood in nats, right tokens, all tokens (end token included).
        """
        device = next(model.eval().parameters()).device
        nll, correct, tokens = [0.0] * len(pairs), [0] * len(pairs), [0] * len(pairs)
        for indices in plan_batches([pair.cost for pair in pairs], self.config.training.batch_tokens):
            batch = collate_pairs(pairs, indices).to(device)
            with threads_for(model, batch.target.numel(), "forced"):
                hidden = model(batch.source, batch.source_mask, batch.target)
            for row, index in enumerate(indices):  # one example's logits at a time
                real = batch.target_mask[row]
                labels = batch.labels[row][real]
                log_probs = torch.log_softmax(model.logits(hidden[row][real]).float(), dim=-1)
                nll[index] = -float(log_probs.gather(1, labels.unsqueeze(1)).sum())
                correct[index] = int((log_probs.argmax(-1) == labels).sum())
                tokens[index] = len(labels)
        return nll, correct, tokens

    def never_written(self, model: PairDecoder) -> tuple[int, ...]:
        """The tokens that no output may contain."""
        may = self.config.generation.unknown or (self.writes_unknown and model.aligns)
        unknown = () if may else (UNKNOWN,)
        return (PADDING, START, *unknown, *self.target_tokenizer.tags.values())

    @property
    def writes_unknown(self) -> bool:
        """True if a model with attention may write the unknown token, replaced by the source word it looked at."""
        return self.target_tokenizer.unit == "word" and self.config.generation.replace_unknown


def output_measures(texts: Sequence[str], references: Sequence[str], names: Sequence[str]) -> list[Measure]:
    """Scores of written texts: those in `names` ("chrf", "bleu", "ter", `ROUGE`), then exact match."""
    same = [float(text == reference) for text, reference in zip(texts, references, strict=True)]
    of_texts = rouge_measures(texts, references, [name for name in names if name in ROUGE])
    of_texts += [text_measure(name, texts, references) for name in names if name not in ROUGE]
    return [*of_texts, share("exact_match", "exact match", same)]
