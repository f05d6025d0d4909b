"""Dialogue: conversations, a model that writes the next turn, the loss over the tokens of responses."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from heed.config.conversations import BookingsData, ConversationFiles
from heed.data.batch.plan import plan_batches
from heed.data.examples import Conversation
from heed.data.store.splits import Splits
from heed.data.tokens.tokenizer import PADDING, START, UNKNOWN, TextTokenizer
from heed.evaluation.measures import share, values_of
from heed.models.base import DecoderBody, learned_positions
from heed.storage.disk import write_whole
from heed.storage.files import damaged, read_list
from heed.tasks.base.positions import check_positions
from heed.tasks.base.sizes import num_subwords, with_tokenizer
from heed.tasks.base.transfer import with_parents
from heed.tasks.dialogue.config import DialogueConfig
from heed.tasks.dialogue.data import BOTH, DialogueData
from heed.tasks.dialogue.overview import overview, report_counts
from heed.tasks.dialogue.talk import Response, Speakers, Talk
from heed.tasks.dialogue.writing import respond, writing_memory
from heed.tasks.translation.task import output_measures
from heed.threads import threads_for
from heed.training.loss import loss_at
from heed.training.processes import current

_TOKENIZER, _SPEAKERS = "tokenizer.json", "speakers.json"
VALIDATE_AT_MOST = 300
"""Most validation responses that are decoded; the loss uses all responses."""
_SMALL, _BASE = 5_000, 2_000_000
"""Numbers of training responses from which size small, and size base, is chosen."""
_LONGEST = 100
"""Most tokens of a response by default."""
_POSITIONS = 512
"""Positions whose logits are in memory together when references are scored."""


class ForcedScores(NamedTuple):
    """References scored by teacher forcing, an entry for each response."""

    nll: Sequence[float]  # negative log-likelihood in nats, the end token included
    correct: Sequence[int]  # number of tokens that were the most probable
    tokens: Sequence[int]  # number of tokens, the end token included


class Dialogue(DialogueData):
    """The task of dialogue: data, model, loss and scores."""

    interfaces = ("turn_decoder", "pair_decoder")
    size_fields: ClassVar = {
        "tokens": "vocab_size",
        "speakers": "num_speakers",
        "source": "source_vocab_size",
        "target": "target_vocab_size",
    }
    units: ClassVar = {"source": "tokens", "target": "tokens"}
    alternatives: ClassVar = {
        "tokens": ("tokens", "target", "source"),
        "source": ("source", "tokens"),
        "target": ("target", "tokens"),
    }
    respond = respond
    overview = overview
    report_counts = report_counts

    def __init__(
        self,
        config: DialogueConfig,
        tokenizer: TextTokenizer,
        speakers: Speakers,
        splits: Splits[Conversation] | None,
    ) -> None:
        super().__init__(config, tokenizer, speakers, splits)
        kinds = ("tokens", "speakers") if self.reads_turns else ("source", "target")
        vars(self)["size_fields"] = {kind: type(self).size_fields[kind] for kind in kinds}

    # Data -----------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: DialogueConfig, given: Mapping[str, Sequence[Conversation]] | None = None) -> Self:
        """Read the data, or take the `given` examples, train the tokenizer, settle the fields that depend on the data.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """
        config, parent, spoken = with_parents(config, cls)
        splits = cls.read_splits(config, given)
        train = splits.examples["train"]
        speakers = Speakers.of(train)
        if config.data.respond != BOTH:
            speakers.check(config.data.respond, "data.respond")
        if spoken is None:
            texts = [turn for one in train for turn in one.turns]
            auto = "word" if isinstance(config.data, BookingsData) else "bpe"
            config = with_tokenizer(config, auto, lambda: num_subwords(len(texts), len(set().union(*texts))))
            tokenizer = TextTokenizer.train(texts, config.tokenizer)
        else:
            tokenizer = spoken.tokenizer("tokens", cls)
        task = cls(config, tokenizer, speakers, splits)
        if task.positions is not None:
            talks = {name: task.encoded(name) for name in task.split_names}
            costs = {
                name: task.reading.costs(talk, task.reading.units(talk, talk.responses)) for name, talk in talks.items()
            }
            needed = {name: int(cost.max(initial=1)) for name, cost in costs.items()}
            check_positions(task.positions, needed, config.generation.max_length)
        return task.settle(parent)

    @classmethod
    def restore(cls, config: DialogueConfig, folder: Path) -> Self:
        """The task of a run folder; its data is opened only when asked for.

        Raises:
            RunError: A file of the folder is missing or damaged.
        """
        names, tokenizer = read_list(folder / _SPEAKERS, str), TextTokenizer.load(folder / _TOKENIZER)
        size = tokenizer.vocab_size
        task = cls(config, tokenizer, Speakers(("", *names)), None)
        if tokenizer.vocab_size > size:  # a speaker got a token for which the model has no row
            raise damaged(folder / _SPEAKERS, f"{_TOKENIZER} has no tokens for some of its {len(names)} speakers")
        return task

    def save(self, folder: Path) -> None:
        """Write the tokenizer and the names of the speakers into a run folder."""
        self.tokenizer.save(folder / _TOKENIZER)
        text = json.dumps([*self.speakers.known], ensure_ascii=False) + "\n"
        write_whole(folder / _SPEAKERS, lambda part: part.write_text(text, encoding="utf-8"))

    # Model ----------------------------------------------------------------------------------------------------

    @property
    def selected_by(self) -> str:
        """Exact match for embedded data; the loss for conversations of people, where many responses are good."""
        return "exact_match" if isinstance(self.config.data, BookingsData) else "loss"

    @property
    def auto_size(self) -> str:
        """The named size, by the number of training responses: tiny for few and for embedded data."""
        count = len(self.encoded("train").responses)
        if not isinstance(self.config.data, ConversationFiles) or count < _SMALL:
            return "tiny"
        return "small" if count < _BASE else "base"

    def settled(self) -> DialogueConfig:
        """The settled configuration as for every task, with `generation.max_length` set."""
        config = super().settled()
        if config.generation.max_length is not None:
            return config
        talk = self.encoded("train")
        longest = max(len(talk.target(one).ids) for unit in self.training for one in unit)
        most = min(math.ceil(1.5 * longest) + 20, _LONGEST, self.positions or _LONGEST)
        return config.model_copy(update={"generation": config.generation.model_copy(update={"max_length": most})})

    @property
    def positions(self) -> int | None:
        """Positions in the model's learned table; None if it has no table."""
        return learned_positions(self.body_class.config_class, self.config.model.model_extra or {})

    def axes(self) -> dict[str, list[str]]:
        """The tokens; for a model that reads turn by turn, also the speakers."""
        tokens = self.tokenizer.tokens
        if self.reads_turns:
            return {"tokens": tokens, "speakers": ["unknown", *self.speakers.known]}
        return {"source": tokens, "target": tokens}

    def build_model(self) -> DecoderBody:
        """A new model, its weights drawn from torch's random state."""
        model = self.body_class(self.model_and_head()[0])
        assert isinstance(model, DecoderBody)
        return model

    def body(self, model: DecoderBody) -> DecoderBody:
        """The whole model."""
        return model

    # Loss and scores ------------------------------------------------------------------------------------------

    def loss(self, model: DecoderBody, batch: Any, label_smoothing: float) -> Tensor:
        """Sum of the cross-entropy in nats over the real tokens of the responses."""
        real, hidden = (batch.target_mask, batch.num_targets), self.reading.hidden(model, batch)
        return loss_at(real, hidden, batch.labels, model.output, label_smoothing)

    def validate(self, model: DecoderBody) -> dict[str, float]:
        """Loss in nats per token and token accuracy of all references; scores of greedy outputs for some of them."""
        talk = self.encoded("valid")

        def forced(units: list[list[Response]]) -> list[tuple[float, int, int]]:
            """Sums over the responses of each unit."""
            scores = self.forced_scores(model, Talk(talk.conversations, [one for unit in units for one in unit]))
            parts = zip(scores, (float, int, int), strict=True)
            starts = np.cumsum([0, *map(len, units)])[:-1]
            return list(zip(*(map(kind, np.add.reduceat(part, starts)) for part, kind in parts), strict=True))

        found = current().map(forced, self.reading.units(talk, talk.responses))
        nll, correct, tokens = zip(*found, strict=True)
        texts, references = zip(*self._written(model, talk), strict=True)
        names = () if isinstance(self.config.data, BookingsData) else ("bleu", "chrf")
        accuracy = share("token_accuracy", "token accuracy", correct, tokens)
        measures = [accuracy, *output_measures(texts, references, names)]
        return {"loss": sum(nll) / max(1, sum(tokens)), **values_of(measures)}

    def _written(self, model: DecoderBody, talk: Talk) -> list[tuple[str, str]]:
        """Greedy outputs for an even sample of validation responses, with the references."""
        few, most = self._to_write(talk)
        references = [self.tokenizer.decode(talk.target(one).ids) for one in few]

        def written(some: list[Response]) -> list[str]:
            histories, speakers = [talk.history(one) for one in some], [talk.target(one).speaker for one in some]
            found = self.respond(model, histories, speakers, beam_size=1, max_length=most)
            return [candidates[0].text for candidates in found]

        return list(zip(current().map(written, few), references, strict=True))

    def _to_write(self, talk: Talk) -> tuple[list[Response], int]:
        """The sample of responses that a validation decodes, and the most tokens of each output."""
        few = talk.responses[:: -(-len(talk.responses) // VALIDATE_AT_MOST) or 1]
        # An output longer than every reference is wrong whatever follows, so writing it out would only cost time.
        longest = max((len(talk.target(one).ids) for one in few), default=0) + 2
        return few, min(longest, self.config.generation.max_length or longest)

    def scoring_memory(self, model: DecoderBody, activations: float) -> int:
        """Bytes that writing responses takes."""
        talk = self.encoded("valid")
        few, most = self._to_write(talk)
        return writing_memory(self, model, [talk.history(one) for one in few], most) if few else 0

    @torch.no_grad()
    def forced_scores(self, model: DecoderBody, talk: Talk) -> ForcedScores:
        """Score all responses by teacher forcing, in order."""
        model.eval()
        device = next(model.parameters()).device
        reading = self.reading
        units = reading.units(talk, talk.responses)
        place = {response: n for n, response in enumerate(talk.responses)}
        found = np.zeros((3, len(talk.responses)))
        costs = reading.costs(talk, units)
        for indices in plan_batches(costs, self.config.training.batch_tokens) if units else ():
            chosen = [units[index] for index in indices]
            batch = reading.batch(talk, chosen, indices).to(device)
            rows = np.array([place[response] for unit in chosen for response in unit])
            real = batch.target_mask
            owner = rows[real.nonzero()[:, 0].cpu().numpy()]
            with threads_for(model, real.numel(), "forced"):
                scored = list(_scored(model, reading.hidden(model, batch)[real], batch.labels[real]))
            for (nll, right), part in zip(
                scored,
                np.split(owner, range(_POSITIONS, len(owner), _POSITIONS)),
                strict=True,
            ):
                for row, values in enumerate((nll, right, np.ones(len(part)))):
                    np.add.at(found[row], part, values)
        return ForcedScores(found[0].tolist(), found[1].astype(int).tolist(), found[2].astype(int).tolist())

    def never_written(self) -> tuple[int, ...]:
        """The tokens that no output may contain."""
        return (PADDING, START, UNKNOWN, *self.tokenizer.tags.values())

    @property
    def finishing_work(self) -> float:
        """The time to evaluate every test set, as a number of validations."""
        counts = {name: len(self.encoded(name).responses) for name in self.split_names if name != "train"}
        tested = sum(count for name, count in counts.items() if name != "valid")
        return (1.0 + self.config.generation.beam_size) * tested / max(1, min(counts["valid"], VALIDATE_AT_MOST))

    @property
    def trained_validation(self) -> float:
        """Time of a validation after training: trained models write outputs as long as references, not the largest."""
        talk = self.encoded("valid")
        lengths = [len(talk.target(one).ids) for one in talk.responses] or [1]
        return min(1.0, 1.5 * (sum(lengths) / len(lengths) + 1) / (max(lengths) + 2))


def _scored(model: DecoderBody, hidden: Tensor, labels: Tensor) -> Iterator[tuple[Any, Any]]:
    """Negative log-likelihood of each label, and whether it was the most probable, some positions at a time."""
    for states, true in zip(hidden.split(_POSITIONS), labels.split(_POSITIONS), strict=True):
        log_probs = torch.log_softmax(model.logits(states).float(), dim=-1)
        nll = -log_probs.gather(1, true.unsqueeze(1)).squeeze(1)
        yield nll.double().cpu().numpy(), (log_probs.argmax(-1) == true).cpu().numpy()
