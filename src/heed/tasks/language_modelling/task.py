"""Language modelling: documents as one stream of tokens, a model that predicts the next one, the loss over all.

The tokenizer is trained, or taken from another run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from torch import Tensor

from heed.data.kinds.documents import Document
from heed.data.splits.documents import open_documents, sample_texts
from heed.data.splits.splits import Splits
from heed.data.tokens.tokenizer import END, START, TextTokenizer
from heed.errors import ConfigError
from heed.models.base import LanguageModel
from heed.tasks.base.documents import DocumentTask, learn_tokenizer
from heed.tasks.base.report import sample_lines
from heed.tasks.base.transfer import Parent, Transfers, with_parents
from heed.tasks.base.vocabulary import taken
from heed.tasks.language_modelling.batches import Blocks, CarriedRows, RowBatch, Streams, TokenBatch, TokenStream
from heed.tasks.language_modelling.config import LanguageModelConfig, MealsData
from heed.tasks.language_modelling.meals import open_meals
from heed.tasks.language_modelling.scoring import TOGETHER, score_ids
from heed.training.loss import PIECE_BYTES, loss_at

_FEW_CHARACTERS = 100_000
"""Up to this much text, tokens are characters. From 200,000 characters of Shakespeare a tiny gpt learned, in 160
updates of 2,048 tokens, 2.65 bits per byte with 1,000 subwords and 3.16 with characters; from 1.1 million, in 250, 2.55
and 2.95."""
_GROWTH = ("extend", "new_merges")
"""Fields that extend the tokenizer of another run."""


def open_parents(
    config: LanguageModelConfig, task: type[Transfers]
) -> tuple[LanguageModelConfig, Parent | None, Parent | None]:
    """Open the runs of `model.from` and `tokenizer.from`, and set the configuration fields that follow from them.

    The tokenizer of a run of this task is taken with its weights, unless a tokenizer is configured.

    Raises:
        ConfigError: A run cannot be opened, or a field contradicts it; or there is no tokenizer to extend.
    """
    asked = config.tokenizer
    values = asked.model_dump(by_alias=True, include=asked.model_fields_set - set(_GROWTH))
    if config.model.from_ is not None and not values:
        parent = Parent.open(config.model.from_, "model.from")
        if parent.task.config.task == config.task:
            values["from"] = config.model.from_
    growth = {name: getattr(asked, name) for name in _GROWTH}
    if growth["extend"] and "from" not in values:
        raise ConfigError(
            "tokenizer.extend is true, but there is no tokenizer to extend; give --from RUN, or set tokenizer.from"
        )
    config, parent_of_model, tokenizer_parent = with_parents(
        config.model_copy(update={"tokenizer": type(asked).model_validate(values)}), task
    )
    section = {**config.tokenizer.model_dump(by_alias=True), **growth}
    config = config.model_copy(update={"tokenizer": type(asked).model_validate(section)})
    return config, parent_of_model, tokenizer_parent


def num_tokens(characters: int) -> int:
    """The vocabulary size of subwords or words: one per 2,000 characters of text, from 1,000 to 32,000."""
    return min(32_000, max(1_000, characters // 2_000 // 500 * 500))


_ABSENT = "absent_tokens"
"""The model field that lists tokens absent from its vocabulary."""


class LanguageModelling(DocumentTask[LanguageModelConfig]):
    """The task: where documents, model, loss and scores meet."""

    interfaces = ("language_model",)
    tokens_of_size: ClassVar = {"tiny": 1_000_000, "small": 30_000_000}
    may_be_more: ClassVar = frozenset({"positions"})  # data.context may become shorter
    settles: ClassVar = ("max_length", _ABSENT)
    alternatives: ClassVar = {"tokens": ("tokens", "target", "source")}

    def __init__(self, config: LanguageModelConfig, tokenizer: TextTokenizer, splits: Splits[Document] | None) -> None:
        super().__init__(config, tokenizer, splits)
        self._streams: dict[str, TokenStream] = {}
        self._passes: dict[int, Blocks | Streams] = {}
        self._bytes: dict[str, int] = {}
        self._carried = CarriedRows()

    @property
    def sizes(self) -> Mapping[str, str]:
        has_table = "max_length" in self.body_class.config_class.model_fields
        return {**self.size_fields, "positions": "max_length"} if has_table else self.size_fields

    # Data -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: LanguageModelConfig, given: Mapping[str, Sequence[Document]] | None = None) -> Self:
        """Read or take the documents, train the tokenizer, and set the fields that depend on the data.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """
        config, parent, tokenizer_parent = open_parents(config, cls)
        splits = cls.read_splits(config, given)
        documents = splits.examples["train"]
        if tokenizer_parent is None:
            is_grammar = isinstance(config.data, MealsData)
            config, tokenizer, remark = learn_tokenizer(
                config,
                documents,
                lambda size: "word" if is_grammar else "char" if size <= _FEW_CHARACTERS else "byte_bpe",
                num_tokens,
                lambda texts, section: TextTokenizer.train(texts, section, exact=True),
                to="continue",
            )
            splits.remarks += [remark] if remark else []
        else:
            section, theirs = config.tokenizer, tokenizer_parent.tokenizer("tokens", cls)
            texts, _ = sample_texts(documents)
            tokenizer, remarks = taken(theirs, texts, section.min_count if section.extend else None, section.new_merges)
            splits.remarks += remarks
        return cls(config, tokenizer, splits).settle(parent)

    @classmethod
    def open_splits(
        cls, config: LanguageModelConfig, given: Mapping[str, Sequence[Document]] | None = None
    ) -> Splits[Document]:
        return open_meals(config.data) if isinstance(config.data, MealsData) else open_documents(config.data, given)

    @property
    def context(self) -> int:
        """Tokens that the model sees at once."""
        return self.config.data.context

    @property
    def end_token(self) -> bool:
        """True if an end token follows each document."""
        return self.config.data.end_token

    @property
    def first_token(self) -> int:
        """The token before the first token of a document: end, or start if there are no end tokens."""
        return END if self.end_token else START

    def prompt_tokens(self, ids: Sequence[int], least: int = 1) -> list[int]:
        """Prepend the first token to a prompt's tokens, unless `generation.first_token` is false.

        A prompt of fewer tokens than `least` always begins with the first token.
        """
        if len(ids) >= least and not self.config.generation.first_token:
            return [*ids]
        return [self.first_token, *ids]

    def stream(self, split: str) -> TokenStream:
        """The tokens of all documents of a split; for a stream, those of its newest window."""
        if split == "train" and self.splits.stream is not None:
            return self._pass(self.splits.stream.newest).stream
        if split not in self._streams:
            self._streams[split] = TokenStream.of(self.splits.examples[split], self.tokenizer, self.end_token)
        return self._streams[split]

    encoded = stream

    def samples(self) -> list[str]:
        lines = ["\nas read and, below, as the model sees them:"]
        for documents in self.splits.examples.values():
            text = documents[0].text[:120]
            sides = [("text", text, self.tokenizer, self.tokenizer.encode(text).ids)]
            lines.append(sample_lines(documents[0].origin, "", sides))
        return lines

    def _pass(self, epoch: int) -> Blocks | Streams:
        """The rows of one pass; each window of a stream is one pass."""
        window = self.splits.stream
        number = epoch if window is not None else 0
        if number not in self._passes:
            if window is None:
                stream = self.stream("train")
            else:
                stream = TokenStream.of(window.window(number), self.tokenizer, self.end_token)
            given = stream, self.context, self.first_token
            rows = Streams(*given) if self.carries else Blocks(*given, self.config.data.documents)
            before = {n: held for n, held in self._passes.items() if n == number - 1}
            self._passes = before | {number: rows}
        return self._passes[number]

    # Model ----------------------------------------------------------------------------------------------------

    @property
    def carries(self) -> bool:
        """True if the model carries a state from batch to batch."""
        body = self.body_class
        return issubclass(body, LanguageModel) and body.carries

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        """Use rotary positions in models that have them, unless positions are given or the size is base.

        A learned table needs more text: from 512,000 characters of Shakespeare in rows of 256 a tiny gpt learned 1.98
        nats with rotary positions and 2.45 with a table.
        """
        size = self.auto_size if self.config.model.size == "auto" else self.config.model.size
        has_them = "positions" in self.body_class.config_class.model_fields
        fields: dict[str, Any] = {}
        if has_them and size != "base" and "positions" not in given:
            fields["positions"] = "rotary"
        if absent := self._absent_tokens():
            fields[_ABSENT] = absent
        return fields

    def _absent_tokens(self) -> tuple[int, ...]:
        """The parent's absent tokens, if this vocabulary begins with the parent's."""
        theirs = {} if self.parent is None else self.parent.task.config.model.model_extra
        absent = tuple(theirs.get(_ABSENT, ())) if _ABSENT in self.body_class.config_class.model_fields else ()
        if not absent or self.parent is None:
            return ()
        known = next(iter(self.parent.task.tokenizers().values())).tokens
        return absent if self.tokenizer.tokens[: len(known)] == known else ()

    def axes(self) -> dict[str, list[str]]:
        rows = {"tokens": self.tokenizer.tokens}
        if "positions" in self.sizes:
            rows["positions"] = [str(n) for n in range(self.context)]
        return rows

    def body(self, model: LanguageModel) -> LanguageModel:
        return model

    def build_model(self) -> LanguageModel:
        model = self.body_class(self.model_and_head()[0])
        assert isinstance(model, LanguageModel)
        return model

    # What the training loop needs -----------------------------------------------------------------------------

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        training = self.config.training
        return self._pass(epoch).plan(training.batch_tokens, training.seed, epoch)

    def collate(self, indices: list[int], epoch: int = 0) -> TokenBatch:
        rows = self._pass(epoch)
        return RowBatch.of(rows, indices, epoch) if isinstance(rows, Streams) else rows.collate(indices, epoch)

    def work(self, indices: list[int]) -> int:
        return len(indices) * min(self.context, len(self._pass(max(self._passes, default=0)).stream))

    def describe(self, indices: list[int]) -> str:
        batch = self.collate(indices[:1], max(self._passes, default=0))
        text = self.tokenizer.decode(batch.labels[0][batch.mask[0]].tolist())
        return f"{len(indices)} rows, the first {text[:80]!r}"

    def loss(self, model: LanguageModel, batch: TokenBatch, label_smoothing: float) -> Tensor:
        if isinstance(batch, RowBatch):
            hidden = self._carried.read(model, batch)
        elif batch.documents is None:
            hidden = model(batch.tokens)
        else:
            hidden = model(batch.tokens, batch.documents)
        return loss_at((batch.mask, batch.num_targets), hidden, batch.labels, model.output, label_smoothing)

    def carried(self) -> dict[str, Tensor]:
        """The state after the last batch, by row."""
        return self._carried.tensors()

    def carry(self, state: dict[str, Tensor]) -> None:
        """Continue from a state; begin without one if it is empty."""
        self._carried = CarriedRows(state)

    def validate(self, model: LanguageModel) -> dict[str, float]:
        stream = self.stream("valid")
        rows = [stream.document(n) for n in range(stream.num_documents)]
        scores = score_ids(self, model, rows, self.config.evaluation.stride, ranks=False)
        nll = -sum(float(one.log_probs[: len(one.log_probs) - self.end_token].sum()) for one in scores)
        tokens = sum(len(row) - self.end_token for row in rows)
        return {"loss": nll / max(1, tokens), "bits_per_byte": nll / math.log(2) / max(1, self._num_bytes("valid"))}

    def _num_bytes(self, split: str) -> int:
        """Bytes of the raw texts of a split."""
        if split not in self._bytes:
            self._bytes[split] = sum(len(document.text.encode()) for document in self.splits.examples[split])
        return self._bytes[split]

    @property
    def finishing_work(self) -> float:
        tested = sum(self._num_bytes(name) for name in self.split_names if name not in ("train", "valid"))
        return 1.2 * tested / max(1, self._num_bytes("valid"))

    def scoring_memory(self, model: LanguageModel, activations: float) -> int:
        """Bytes that scoring needs: states of a layer, a piece of logits and its intermediate results, the scores."""
        positions = max(TOGETHER, self.context)
        layers = max(1, sum(1 for _ in model.parameters()) // 12)  # a block has about as many
        scores = 20 * sum(len(self.stream(name)) for name in self.split_names if name != "train")
        return round(activations * positions / layers) + 4 * PIECE_BYTES + scores
