"""Tagging: sentences of words with one tag each, and an encoder with a head over the words' states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from heed.config import TokenizerConfig
from heed.data.batch.texts import TokenWords, WordBatch, collate_words
from heed.data.embedded.teddy import draw_sentences
from heed.data.examples import Sentence
from heed.data.read.conll import sentence_reader
from heed.data.read.findings import Findings
from heed.data.read.tags import is_entity_tag
from heed.data.store.splits import Splits, open_splits
from heed.data.tokens.tokenizer import UNKNOWN, TextTokenizer
from heed.errors import ConfigError, DataError, suggest
from heed.evaluation.entities import tag_measures
from heed.evaluation.measures import values_of
from heed.layers import CharacterFeatures
from heed.models.base import TextEncoder, TokenEncoder
from heed.tasks.base.contents import advice
from heed.tasks.base.labelled import LabelledTask, drawn
from heed.tasks.tagging.config import TaggingConfig, TaggingHead, TeddyData
from heed.tasks.tagging.memory import hold_sentences
from heed.tasks.tagging.model import TAG_HEADS, Tagger
from heed.tasks.tagging.prediction import TagPrediction
from heed.threads import threads_for
from heed.training.processes import current

_CHARACTERS = "characters.json"
_CHARACTERS_PER_POSITION = 32
"""Characters counted as one position of a batch: far more than ordinary words have, so that only very long
words count."""


class Tagging(LabelledTask[TaggingConfig, Sentence, TokenWords, WordBatch]):
    """The tagging task: words, model, loss and scores."""

    targets = "words"
    head_class = TaggingHead

    characters: TextTokenizer | None = None

    @classmethod
    def prepare(cls, config: TaggingConfig, given: Mapping[str, Sequence[Sentence]] | None = None) -> Self:
        """As for every labelled task; also leaves out long training sentences and builds the character vocabulary."""
        task = super().prepare(config, given)
        if task.config.model.model_extra and task.config.model.model_extra["characters"] != "none":
            words = {word for sentence in task.splits.examples["train"] for word in sentence.words}
            task.characters = TextTokenizer.train_characters(words, TokenizerConfig(normalization="nfc"))
        task._leave_out_long()
        return task

    @classmethod
    def restore(cls, config: TaggingConfig, folder: Path) -> Self:
        """The task of a run folder."""
        task = super().restore(config, folder)
        if (folder / _CHARACTERS).is_file():
            task.characters = TextTokenizer.load(folder / _CHARACTERS)
        return task

    @classmethod
    def resume(cls, config: TaggingConfig, folder: Path, given: Mapping[str, Sequence[Sentence]] | None = None) -> Self:
        """The task of a resumed run; long training sentences are left out again."""
        task = super().resume(config, folder, given)
        task._leave_out_long()
        return task

    def save(self, folder: Path) -> None:
        """Write tokenizer, labels and characters into a run folder."""
        super().save(folder)
        if self.characters is not None:
            self.characters.save(folder / _CHARACTERS)

    def _leave_out_long(self) -> None:
        most, splits = min(self.config.data.max_length, self.room or self.config.data.max_length), self.splits
        encoded, train = self.encoded("train"), splits.examples["train"]
        short = [i for i, e in enumerate(encoded) if len(self.tokens_of(e)) <= most]
        limit = "data.max_length" if most == self.config.data.max_length else "the model's"
        if not short:
            raise DataError(f"every training sentence is longer than {limit} {most} tokens; give shorter sentences")
        if len(short) < len(train):
            counts = splits.counts["train"]
            counts.filtered[f"longer than {limit} {most} tokens"] = len(train) - len(short)
            counts.kept = len(short)
            splits.examples["train"] = [train[i] for i in short]
            self._encoded["train"] = [encoded[i] for i in short]

    @classmethod
    def open_splits(
        cls, config: TaggingConfig, given: Mapping[str, Sequence[Sentence]] | None = None
    ) -> Splits[Sentence]:
        """Read or generate the sentences, or take the `given` ones."""
        data = config.data
        if isinstance(data, TeddyData):
            seed, mirrored = data.seed, data.mirrored
            return drawn(data, lambda name, size: draw_sentences(name, size, seed, mirrored), "sentences")
        return open_splits(data, sentence_reader(data, advice), given)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Sentence]:
        """Sentences: (words, tags) tuples, lists of (word, tag), (lists of words, lists of tags), or such columns."""
        return hold_sentences(data, split, config.data.scheme, findings)

    @classmethod
    def texts_of(cls, example: Sentence) -> Sequence[str]:
        """The words."""
        return example.words

    @classmethod
    def labels_of(cls, example: Sentence) -> Iterable[str]:
        """The tags."""
        return example.tags

    @classmethod
    def complete(cls, labels: Iterable[str]) -> list[str]:
        """Complete the tags: each entity type has both B and I, even if training sets contain only one of them."""
        known = set(labels)
        types = {label[2:] for label in known if is_entity_tag(label)}
        return super().complete(known | {f"{letter}-{kind}" for letter in "BI" for kind in types})

    @classmethod
    def train_tokenizer(cls, config: TaggingConfig, examples: Sequence[Sentence]) -> TextTokenizer:
        """A tokenizer for sentences given as words."""
        return TextTokenizer.train_words([example.words for example in examples], config.tokenizer)

    def encode(self, examples: Sequence[Sentence]) -> list[TokenWords]:
        """Convert words to tokens and tags to numbers."""
        tags = [[self.number_of(tag, e.origin) for tag in e.tags] for e in examples]
        encoded = self.encode_words([e.words for e in examples])
        return [TokenWords(e.words, numbers, e.characters) for e, numbers in zip(encoded, tags, strict=True)]

    def encoded(self, split: str) -> list[TokenWords]:
        """The sentences of a split as tokens; test sets may contain tags missing from the training set."""
        if split not in self._encoded and split not in ("train", "valid"):
            self._encoded[split] = self.encode_words([e.words for e in self.splits.examples[split]])
        return super().encoded(split)

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[TokenWords]:
        """Convert words without tags to tokens."""
        words = self.tokenizer.encode_words(sentences)
        characters: list[list[list[int]]] = [[] for _ in sentences]
        if self.characters is not None:
            characters = self.characters.encode_words(sentences)
        return [TokenWords(w, [], c) for w, c in zip(words, characters, strict=True)]

    def tokens_of(self, encoded: TokenWords) -> list[int]:
        """The tokens of all words."""
        return [token for word in encoded.words for token in word]

    def cost(self, encoded: TokenWords) -> tuple[int, int]:
        """As for every labelled task; if characters are read, very long words count as further positions."""
        tokens, other = super().cost(encoded)
        return max(tokens, -(-sum(map(len, encoded.characters)) // _CHARACTERS_PER_POSITION)), other

    def collate_encoded(self, encoded: Sequence[TokenWords], indices: list[int]) -> WordBatch:
        """Pad the chosen sentences into one batch."""
        return collate_words(encoded, indices)

    @property
    def plain(self) -> bool:
        """True if the tags mark no entities."""
        return not any(is_entity_tag(label) for label in self.labels)

    @property
    def selected_by(self) -> str:
        """Entity F1, or accuracy for plain tags."""
        return "accuracy" if self.plain else "entity_f1"

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        """The width of the character features and of the given word vectors."""
        if issubclass(self.body_class, TextEncoder):
            raise ConfigError(
                f"model {self.config.model.name} produces one vector per text, so it cannot tag words; use another"
            )
        filters = given.get("num_filters", TaggingHead.model_fields["num_filters"].default)
        return super().fields_from_data(given) | {
            "d_features": 0 if given.get("characters", "none") == "none" else filters
        }

    def head_fields(self, head: TaggingHead, given: dict[str, Any]) -> dict[str, Any]:
        """The head's fields."""
        if head.delay and issubclass(self.body_class, TokenEncoder) and self.body_class.framed:
            name = self.config.model.name
            raise ConfigError(f"model.delay is {head.delay}, but model {name} sees the whole text; remove model.delay")
        if head.head not in TAG_HEADS:
            raise ConfigError(f"model.head is '{head.head}'{suggest(head.head, TAG_HEADS)}")
        if self.config.evaluation.select_by == "entity_f1" and self.plain:
            raise ConfigError("evaluation.select_by is entity_f1, but the tags mark no entities; use accuracy")
        if head.head == "crf" and self.config.training.label_smoothing:
            raise ConfigError("training.label_smoothing does not apply to model.head crf; remove the field")
        return head.model_dump()

    def build_model(self) -> Tagger:
        """A new model, its weights drawn from torch's random state."""
        config, head = self.model_and_head()
        body = self.build_body(config)
        assert isinstance(body, TokenEncoder)
        characters = None
        axes = self.axes()
        if self.characters is not None:
            characters = CharacterFeatures(len(axes["characters"]), head.d_character, head.num_filters)
        in_bio = not self.plain and self.config.data.scheme != "plain"  # plain tags are used unchanged
        return Tagger(
            body, TAG_HEADS[head.head](body.d_output, axes["labels"], in_bio), characters, head.delay, head.word
        )

    def axes(self) -> dict[str, list[str]]:
        """As for every labelled task, and the characters if the model reads them."""
        return {**super().axes(), **({} if self.characters is None else {"characters": self.characters.tokens})}

    def hidden(self, model: Tagger, batch: WordBatch) -> Tensor:
        """The states of a batch's words."""
        return model(batch.tokens, batch.mask, batch.word_of, batch.word_mask, batch.characters)  # type: ignore[no-any-return]

    def loss(self, model: Tagger, batch: WordBatch, label_smoothing: float) -> Tensor:
        """Sum over the words of the negative log-likelihood in nats."""
        return model.head.loss(self.hidden(model, batch), batch.tags, batch.word_mask, label_smoothing)

    @torch.no_grad()
    def validate(self, model: Tagger) -> dict[str, float]:
        """Loss in nats per word, accuracy of tags and, if they mark entities, entity F1."""
        model.eval()
        encoded, device = self.encoded("valid"), next(model.parameters()).device
        processes = current()
        losses = [
            float(self.loss(model, self.collate_encoded(encoded, indices).to(device), 0.0))
            for indices in processes.share(self.scoring_batches(encoded))
        ]
        (loss,) = processes.total(sum(losses))
        true = [e.tags for e in self.splits.examples["valid"]]
        predicted = processes.map(lambda part: [tags for tags, _ in self.tag(model, part)], encoded)
        scores = values_of(tag_measures(true, predicted, self.plain))
        kept = ("accuracy",) if self.plain else ("accuracy", "entity_f1")
        return {"loss": loss / sum(map(len, true)), **{name: scores[name] for name in kept}}

    @torch.no_grad()
    def tag(self, model: Tagger, encoded: Sequence[TokenWords]) -> list[tuple[list[str], Tensor]]:
        """The tags of each sentence, and the probability of every tag of every word, `(words, num_labels)`."""
        model.eval()
        device = next(model.parameters()).device
        result: list[tuple[list[str], Tensor]] = [([], torch.zeros(0, len(self.labels)))] * len(encoded)
        known = [i for i, e in enumerate(encoded) if e.words]
        for chosen in self.scoring_batches([encoded[i] for i in known]):
            batch = self.collate_encoded(encoded, [known[n] for n in chosen]).to(device)
            with threads_for(model, batch.tokens.numel()):
                best, probabilities = model.head.decode(self.hidden(model, batch), batch.word_mask)
            for row, i in enumerate(batch.indices):
                count = len(encoded[i].words)
                tags = [self.labels[tag] for tag in best[row, :count].tolist()]
                result[i] = tags, probabilities[row, :count].float().cpu()
        return result

    def prediction(
        self, text: str, spans: Sequence[tuple[int, int]], tags: Sequence[str], probabilities: Tensor
    ) -> TagPrediction:
        """The prediction for one text, from the tags returned by `tag` and the probabilities, `(words, num_labels)`."""
        words = tuple(text[start:end] for start, end in spans)
        rows, ranked = probabilities.tolist(), probabilities.argsort(dim=-1, descending=True)[:, :3].tolist()
        of_tags = tuple(row[self._number[tag]] for row, tag in zip(rows, tags, strict=True))
        others = tuple(
            tuple((self.labels[i], row[i]) for i in best if self.labels[i] != tag)[:2]
            for row, best, tag in zip(rows, ranked, tags, strict=True)
        )
        return TagPrediction(text, words, tuple(spans), tuple(tags), of_tags, others, self.plain)

    def unknown_in(self, words: Iterable[str]) -> list[str]:
        """The words of a text that contain a token unknown to the tokenizer."""
        given = list(words)
        (ids,) = self.tokenizer.encode_words([given])
        return [word for word, parts in zip(given, ids, strict=True) if UNKNOWN in parts]
