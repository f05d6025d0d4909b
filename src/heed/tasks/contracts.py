"""The parts of a task: an input, which a model reads, and a head, which is compared with the model's states.

Both are frozen dataclasses of what was learned from the training set (tokenizer, labels, statistics) and, once the
configuration of the model is known, of that (`fitted`). Neither holds parameters: the model is a plain module. Whatever
learns returns another part. The order in a new run: `open`, `learn`, `fields` and `settled`, `fitted`, `encode`,
`plan`, `build`, `start`; in a run that is opened, `restore` takes the place of learning.

One pass over a batch gives states, and everything else is a function of them: `loss` in training, `judge` and `decode`
in validation, `decode` when the model is used. A sum over the targets is minimised, not a mean over the examples, so
that an update does not depend on how its examples are distributed over batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heed.config import Section
from heed.data.batch import pin, plan_pass, positions_in_groups, to_device
from heed.data.corpus import StoredExamples
from heed.data.findings import Findings
from heed.data.splits import Splits
from heed.data.tokens import Special
from heed.data.tokens.tokenizer import TextTokenizer
from heed.evaluation.measures import Measure, Outcomes
from heed.models.base import Body
from heed.tasks.base.predictions import Prediction
from heed.tasks.base.transfer import Parent, Started
from heed.training.batches import CarriedRows
from heed.training.contracts import Loss
from heed.watch.looks import Shading


class Draw(NamedTuple):
    """The seed and epoch that, with its pieces, determine the random draws of a training batch."""

    seed: int
    epoch: int


class Continued(NamedTuple):
    """Rows of a batch that continue rows of an earlier batch."""

    rows: tuple[int, ...]
    """The number of each row within its pass."""
    begins: bool
    """True for the first batch of the rows, before which there is no state."""


@dataclass(frozen=True)
class Batch:
    """A batch of any task."""

    indices: list[int]
    """Numbers of its pieces within the pass."""
    inputs: dict[str, Any]
    """Arguments of the model by name; for a decoder, the arguments of `encode`."""
    num_targets: int = 0
    """The number of targets, by which the training loop divides the loss."""
    forced: dict[str, Any] = field(default_factory=dict)
    """Further arguments of `forward`: the inputs of a decoder under teacher forcing."""
    targets: dict[str, Any] = field(default_factory=dict)
    """Targets, with which states are compared; empty without truths."""
    examples: list[int] | None = None
    """The example of each row; None if they are the pieces."""
    masks: tuple[str, ...] = ("mask",)
    """Names of the inputs and targets that are False on padding."""
    in_groups: bool = False
    """True if rows of a mask are computed in groups of similar length, so that their padding costs less."""
    continued: Continued | None = None
    """Which rows of an earlier batch these go on from, for a model that carries its state; else None."""

    @property
    def rows(self) -> list[int]:
        """The example of each row."""
        return self.indices if self.examples is None else self.examples

    @property
    def positions(self) -> int:
        """Number of positions that a model computes."""
        return sum(map(self._positions, self._masks())) or len(self.indices)

    @property
    def padding_share(self) -> float:
        """Share of padding among the positions."""
        masks = self._masks()
        return 1.0 - sum(int(mask.sum()) for mask in masks) / self.positions if masks else 0.0

    def _masks(self) -> list[Tensor]:
        return [(self.targets | self.forced | self.inputs)[name] for name in self.masks]

    def _positions(self, mask: Tensor) -> int:
        return positions_in_groups(mask) if self.in_groups or mask.ndim == 3 else mask.numel()

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        return to_device(self, device)

    def pin(self) -> Batch:
        """The batch in pinned memory, which a GPU can read directly."""
        return pin(self)


@dataclass(frozen=True)
class Pass:
    """One pass over encoded examples, in pieces: an example, or a block of a stream, a conversation, a window."""

    batches: Sequence[list[int]]
    """The pieces of each batch; they and their `repr` depend on the draw only."""
    collate: Callable[[Sequence[int]], Batch]
    """Makes a batch of pieces, without targets."""
    costs: NDArray[np.int64]
    """Positions of each piece, `(pieces, sides)`."""
    described: Callable[[Sequence[int]], str] | None = None
    """Names a batch in messages by its pieces, if these are not the examples."""
    reuse: int = 1
    """How often a parameter is used, at most, for a position of a batch: once for each pixel of a picture."""

    def positions(self, pieces: Sequence[int]) -> int:
        """Padded positions of a batch."""
        return len(pieces) * int(self.costs[np.asarray(pieces)].max(0).sum())


def as_list(batches: Sequence[list[int]], *examples: Sequence[Any]) -> Sequence[list[int]]:
    """Batches as a list; of examples on disk, which may be millions, lists would take more memory than all else."""
    return batches if any(isinstance(part, StoredExamples) for part in examples) else list(batches)


class Rows(NamedTuple):
    """Named rows of tensors: tokens, labels, columns."""

    names: Sequence[str]
    field: str | None = None
    """The field of the model that counts them; None if the head has them."""
    unit: str = ""
    """Name of such rows in messages, if it is not the kind."""
    number: int | None = None
    """How many there are, where they have no names, and so no other run can give them."""
    may_be_more: bool = False
    """True if the model of a resumed run may have more of them than its data needs."""

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.names) if self.number is None else self.number


class Facts(NamedTuple):
    """Facts that a model is built from, besides its configuration."""

    rows: Mapping[str, Sequence[str]]
    """Kind of row -> the names of its rows."""
    special: Special | None
    """The tokens with a meaning of their own; None without a tokenizer."""


class TargetScore(NamedTuple):
    """A score that an attribution may ask for."""

    name: str
    """The score in sentences: "the logit of 'pos'"."""
    score: Callable[[Tensor], Tensor]
    """From states of rows to their scores, `(rows,)`, differentiable."""


class Sized(NamedTuple):
    """A field of the model that counts rows, before these are known."""

    field: str
    alike: tuple[str, ...] = ()


class NoOptions(Section):
    """A part without fields in the `model` section."""


@dataclass(frozen=True)
class Part:
    """Base class of inputs and heads; `config` and `body` belong to the run that the part was fitted to."""

    sized: ClassVar[Mapping[str, Sized]] = {}
    """Kind of row -> the field of the model that counts such rows, where there is one."""

    config: Any = field(default=None, kw_only=True, repr=False)
    body: type[Body] | None = field(default=None, kw_only=True, repr=False)

    def rows(self) -> Mapping[str, Rows]:
        """Kinds of named rows of the model's tensors: they give sizes, match a parent's rows, and can grow."""
        return {}

    def save(self, folder: Path) -> None:
        """Write the learned state into a run folder."""

    def restore(self, config: Any, folder: Path) -> Self:
        """The part of a run folder.

        Raises:
            RunError: A file is missing or damaged.
        """
        return self

    def fitted(self, work: Any) -> Self:
        """The part for the settled model of a run."""
        return replace(self, config=work.config, body=work.body_class)

    def counts(self, split: str, work: Any) -> dict[str, Any]:
        """Counts of a split, for `report.json`."""
        return {}

    def notes(self, work: Any) -> list[str]:
        """Remarks printed before training, besides those on the data."""
        return []

    def lines(self, work: Any) -> list[str]:
        """Lines of `heed check` on the part."""
        return []


@dataclass(frozen=True)
class Input(Part):
    """The input side of a task: reads examples and makes what the model reads."""

    batch_field: ClassVar[str] = "batch_tokens"
    """Field of `training` with the size of a batch."""
    same_shapes: ClassVar[bool] = False
    """True if nearly all batches have one shape."""
    key: ClassVar[str] = "text"
    """Name of an example's input, for readers."""
    is_text: ClassVar[bool] = True
    """True if questions are texts; False for a table or pictures."""
    keeps_blank: ClassVar[bool] = False
    """True if blank examples of a file are scored, too."""
    pairs: ClassVar[bool] = False
    """True if an input is a pair of texts."""
    size_reason: ClassVar[str] = ""
    """Reason for the size that "auto" selects, if it is not the number of training examples."""
    unused: ClassVar[tuple[str, ...]] = ("tokenizer",)
    """Sections and fields of the configuration that do not apply, and so must have their default values."""
    texts_are_examples: ClassVar[bool] = False
    """True if an example is only a text, so that a list of strings may be a list of examples."""
    settles: ClassVar[tuple[str, ...]] = ()
    """Further fields of the model that a new run never takes from its parent."""
    is_encoded_once: ClassVar[bool] = False
    """True if encoded examples do not depend on the settled model."""
    roles: ClassVar[Sequence[str]] = ()
    """The tokenizers that are learned."""

    predicts_from_example: ClassVar[bool] = True
    """False if a prediction never needs its example: making rows of a table takes longer than computing with them."""

    tokenizers: Mapping[str, TextTokenizer] = field(default_factory=dict, kw_only=True, repr=False)
    """The learned tokenizers, by the kind of row that their tokens name."""

    def open(self, config: Any, examples: Mapping[str, Sequence[Any]] | None) -> Splits[Any]:
        """Read every split, or take the `examples`; an input that has learned returns them as it reads them.

        Raises:
            DataError: The data cannot be read.
        """
        raise NotImplementedError

    def read_data(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Any]:
        """Convert Python data to examples; arguments and errors as `Task.read_data`."""
        raise NotImplementedError

    def read_files(self, files: Sequence[str | Path], findings: Findings, labels: Sequence[str]) -> Sequence[Any]:
        """Examples with truths from files in the format of the run's data; `labels` are those that are known."""
        raise NotImplementedError

    def learn(self, config: Any, splits: Splits[Any], parent: Parent | None) -> tuple[Any, Self]:
        """Learn from the training examples; the tokenizers of `parent` are used, if there is one.

        Returns:
            The configuration with what was decided, and the input.
        """
        return config, self

    def fields(self, fields: dict[str, Any], work: Any) -> dict[str, Any]:
        """Fields of `model` that follow from the data, the body or one another; `fields` are those known so far."""
        return {}

    def start(self, model: Any, work: Any) -> dict[str, Started]:
        """Replace random weights of a new model; returns descriptions for the report."""
        return {}

    def leave_out(self, work: Any) -> None:
        """Leave out training examples that the model cannot read, before a run is settled or resumed."""

    def encode(self, examples: Sequence[Any], split: str = "") -> Sequence[Any]:
        """Examples as numbers; those of a whole `split` of the run's data may be kept in the cache.

        Batches are made of the items: the examples, or parts of them that stay together.
        """
        raise NotImplementedError

    def encoded_for(self, other: Any, examples: Sequence[Any]) -> Sequence[Any]:
        """Examples read by this input and encoded by the input of another run of an ensemble."""
        encoded: Sequence[Any] = other.encode(examples)
        return encoded

    def costs(self, encoded: Sequence[Any]) -> NDArray[np.int64]:
        """Positions of each example, `(examples,)` or `(examples, sides)`, whose first column sorts the batches."""
        return np.ones(len(encoded), np.int64)

    def collate(self, encoded: Sequence[Any], indices: list[int], draw: Draw | None) -> Batch:
        """All that a model reads of some examples; `draw` is None where it is asked."""
        raise NotImplementedError

    def plan(self, work: Any, split: str, draw: Draw) -> Pass:
        """A pass over a training split: examples of similar length together."""
        encoded, costs = work.encoded(split), work.costs(split)
        batches = as_list(plan_pass(costs, work.config.training.batch_tokens, *draw), work.splits.examples[split])
        return Pass(batches, lambda pieces: self.collate(encoded, list(pieces), draw), costs.reshape(len(costs), -1))

    def scoring(self, encoded: Sequence[Any], tokens: int) -> Sequence[list[int]]:
        """The batches for scoring examples, of about so many positions."""
        return plan_pass(self.costs(encoded), tokens)

    def size(self, work: Any) -> str:
        """The named size that "auto" selects."""
        return "small"

    def questions(self, inputs: Any) -> tuple[Sequence[Any], bool]:
        """The inputs of `predict` as examples without truths, and whether there is a single one.

        Raises:
            DataError: An item cannot be read; the message names it.
        """
        raise NotImplementedError

    def finished(self, head: Head, predictions: Sequence[Any], examples: Sequence[Any], encoded: Any) -> list[Any]:
        """Complete predictions from their inputs; predictions of blank inputs are empty."""
        return list(predictions)

    def place(self, examples: Sequence[Any], i: int) -> dict[str, str]:
        """The place and the content of an example in a list of errors."""
        line = " ".join(examples[i].source.split())
        return {"origin": examples[i].origin, "text": line if len(line) <= 200 else f"{line[:197]}..."}

    def scorable(self, examples: Sequence[Any], where: str) -> Sequence[Any]:
        """Examples that `where` has; a DataError if none of them can be scored."""
        return examples


@dataclass(frozen=True)
class Head(Part):
    """The output side of a task: targets, losses and predictions from a model's states."""

    options: ClassVar[type[Section]] = NoOptions
    """Fields of the `model` section, besides the fields of the body."""
    targets: str = "examples"
    """Plural noun for the targets that a batch counts."""
    names: ClassVar[str] = "label"
    """Name of an output, for readers."""
    keywords: ClassVar[Mapping[str, Any]] = {}
    """Keywords of `predict`, with their defaults; unless the head writes texts, its fields of these names."""
    numbered: ClassVar[str] = ""
    """The data-frame column with the number of the input, for outputs of several rows."""
    per_token: ClassVar[bool] = False
    """True if it needs the state of each token, not one vector for a text."""
    writes: ClassVar[bool] = False
    """True if answers are texts that the model writes: the head has `candidates` and, piece by piece, `grow`; its
    examples are scored by the model itself, by `scored` in place of `outcomes`."""
    samples: ClassVar[bool] = False
    """True if validations write texts for some of the examples."""
    looked: ClassVar[Mapping[str, Any]] = {}
    """Default options of the texts that looks write."""
    is_tuned: ClassVar[bool] = True
    """True if a run from a parent of the same model is fine-tuning, with its learning rate."""
    has_outputs: ClassVar[bool] = True
    """False if the outputs of examples are scores of them, by `scored` in place of `outcomes`."""
    is_number: ClassVar[bool] = False
    """True if its answer to each example is one number."""
    decides: ClassVar[bool] = False
    """True if this head, rather than the first, makes the answers of an ensemble."""

    select: ClassVar[str] = "loss"
    """The validation score that `evaluation.select_by` "auto" selects."""
    by_length: ClassVar[tuple[str, ...]] = ()
    """Measures that a report also shows for ranges of source length."""
    follows: ClassVar[tuple[str, ...]] = ()
    """Fields of `model` that a run started from one with this head does not take over."""
    blank: ClassVar[Prediction | None] = None
    """The prediction for a blank text; None to let the model answer."""

    def learn(self, config: Any, splits: Splits[Any]) -> tuple[Any, Head]:
        """Learn from the training examples; returns the configuration with what was decided, and the head."""
        return config, self

    @property
    def chosen(self) -> Any:
        """Its fields of the `model` section, as `options` types them."""
        return self.options.model_construct(**self.config.model.settings)

    def settled(self, options: Any, fields: dict[str, Any], work: Any) -> dict[str, Any]:
        """The fields of the options to write into the configuration.

        Raises:
            ConfigError: A field contradicts the data or the body.
        """
        return dict(options.model_dump())

    def build(self, body: nn.Module, options: Any, facts: Facts) -> nn.Module:
        """The model: the body itself, or a module with the body as `body`; weights are drawn in this order."""
        return body

    def encode(self, examples: Sequence[Any], input: Input | None = None) -> Any:
        """The truths of examples, if the batch does not have them; `input` knows their places.

        Raises:
            DataError: One cannot be learned or scored; the message names its place.
        """
        return ()

    def collate(self, truths: Any, batch: Batch, draw: Draw | None) -> Batch:
        """The batch with targets."""
        return batch

    def states(self, model: Any, batch: Batch, carried: CarriedRows | None = None) -> Any:
        """The one pass over a batch; `carried` has the states of earlier batches that it continues."""
        return model(**batch.inputs, **batch.forced)

    def loss(self, model: Any, states: Any, batch: Batch, smoothing: float) -> Tensor | Loss:
        """The sum of the losses of the targets."""
        raise NotImplementedError

    def judge(self, model: Any, states: Any, batch: Batch) -> Tensor:
        """Nats, right answers and targets of each row, `(rows, 3)` in float64."""
        raise NotImplementedError

    def decode(self, model: Any, states: Any, batch: Batch) -> Sequence[Any]:
        """The answer for each row, on the CPU."""
        raise NotImplementedError

    def together(self, answers: Sequence[Any]) -> Any:
        """The answer of an ensemble to one input: the mean."""
        return torch.stack(list(answers)).mean(0)

    def predict(self, answer: Any, example: Any = None, input: Input | None = None) -> Prediction:
        """An answer as plain data; `input` knows the places of the example's texts."""
        raise NotImplementedError

    def measures(self, predictions: Sequence[Any], examples: Sequence[Any]) -> Sequence[Measure]:
        """The measures of a validation, besides the loss."""
        raise NotImplementedError

    def validated(self, work: Any, model: Any) -> dict[str, float] | None:
        """The scores of a validation that `decode` does not give; None to use the `measures`."""
        return None

    def outcomes(
        self, predictions: Sequence[Any], examples: Sequence[Any], input: Input, others: Any = None
    ) -> Outcomes:
        """All measures of predictions, with the details of a report; `others`: facts on all runs of a comparison."""
        raise NotImplementedError

    def report(self, scores: dict[str, Any]) -> list[str]:
        """The scores of one set, as lines for people."""
        raise NotImplementedError

    def target_score(self, answer: Any, target: str | None, rather_than: str | None) -> TargetScore:
        """The score that `target` names, minus the score of `rather_than`; by default the score of the answer.

        Raises:
            ConfigError: There is no such score.
        """
        raise NotImplementedError

    def shade(self, prediction: Any, sides: Mapping[str, Any]) -> Sequence[Shading]:
        """Shadings of the texts of an example by a prediction; `sides` are the texts, by name (`tasks.look.Side`)."""
        return []

    def scoring_memory(self, work: Any, model: Any, activations: float) -> int:
        """Bytes that scoring takes besides the model, including libraries that it imports.

        `activations` are those kept for each position in training.
        """
        positions: int = work.at_once
        return round(positions * activations)
