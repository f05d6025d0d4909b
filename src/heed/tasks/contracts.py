"""What a task is made of: an input, which a model reads, and a head, which is compared with its states.

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
from heed.training.carried import CarriedRows
from heed.training.contracts import Loss
from heed.watch.looks import Shading


class Draw(NamedTuple):
    """What the random draws of a training batch depend on, together with its pieces."""

    seed: int
    epoch: int


class Continued(NamedTuple):
    """Rows of a batch that go on where those of an earlier batch stopped."""

    rows: tuple[int, ...]
    """The number of each row within its pass."""
    begins: bool
    """True for the first batch of the rows, before which there is no state."""


@dataclass(frozen=True)
class Batch:
    """A batch of any task."""

    indices: list[int]
    """The pieces that it is made of, as its pass numbers them."""
    inputs: dict[str, Any]
    """Arguments of the model by name; of a decoder, those of `encode`."""
    num_targets: int = 0
    """What the training loop divides the loss by."""
    forced: dict[str, Any] = field(default_factory=dict)
    """Further arguments of `forward`: what a decoder is fed."""
    targets: dict[str, Any] = field(default_factory=dict)
    """What states are compared with; empty where truths are not known."""
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


def listed(batches: Sequence[list[int]], *examples: Sequence[Any]) -> Sequence[list[int]]:
    """Batches as a list; of examples on disk, which may be millions, lists would take more memory than all else."""
    return batches if any(isinstance(some, StoredExamples) for some in examples) else list(batches)


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
    """What a model is built from, besides its configuration."""

    rows: Mapping[str, Sequence[str]]
    """Kind of row -> the names of its rows."""
    special: Special | None
    """The tokens with a meaning of their own; None without a tokenizer."""


class Asked(NamedTuple):
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
    """What inputs and heads share. `config` and `body` are those of the run that a part was fitted to."""

    sized: ClassVar[Mapping[str, Sized]] = {}
    """Kind of row -> the field of the model that counts such rows, where there is one."""

    config: Any = field(default=None, kw_only=True, repr=False)
    body: type[Body] | None = field(default=None, kw_only=True, repr=False)

    def rows(self) -> Mapping[str, Rows]:
        """Kinds of rows of the model's tensors, for sizes, for what another run gives, and for growing."""
        return {}

    def save(self, folder: Path) -> None:
        """Write what was learned into a run folder."""

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
        """What is said before training, besides what was read, kept and left out."""
        return []

    def lines(self, work: Any) -> list[str]:
        """What `heed check` says of the part."""
        return []


@dataclass(frozen=True)
class Input(Part):
    """What a model reads."""

    batch_field: ClassVar[str] = "batch_tokens"
    """Field of `training` with the size of a batch."""
    same_shapes: ClassVar[bool] = False
    """True if nearly all batches have the same shape."""
    key: ClassVar[str] = "text"
    """Name of an example's input, for readers."""
    is_text: ClassVar[bool] = True
    """True if questions are texts; False for a table or pictures."""
    keeps_blank: ClassVar[bool] = False
    """True if blank examples of a file are scored, too."""
    pairs: ClassVar[bool] = False
    """True if an input is a pair of texts."""
    size_reason: ClassVar[str] = ""
    """Why "auto" stands for `size`, if that is not the number of training examples."""
    unused: ClassVar[tuple[str, ...]] = ("tokenizer",)
    """Sections and fields of the configuration that do not apply, and so must have their default values."""
    texts_are_examples: ClassVar[bool] = False
    """True if an example is only a text, so that a list of strings may be a list of examples."""
    settles: ClassVar[tuple[str, ...]] = ()
    """Further fields of the model that a new run never takes from its parent."""
    is_encoded_once: ClassVar[bool] = False
    """True if the numbers of an example stay the same when the model is settled."""

    predicts_from_example: ClassVar[bool] = True
    """False if a prediction never needs its example: making rows of a table takes longer than computing with them."""

    tokenizers: Mapping[str, TextTokenizer] = field(default_factory=dict, kw_only=True, repr=False)
    """What was learned of texts, by the kind of row that the tokens name."""

    def open(self, config: Any, given: Mapping[str, Sequence[Any]] | None) -> Splits[Any]:
        """Read every split, or take the `given` examples; an input that has learned returns them as it reads them.

        Raises:
            DataError: The data cannot be read.
        """
        raise NotImplementedError

    def hold(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Any]:
        """Convert Python data to examples; arguments and errors as `Task.hold`."""
        raise NotImplementedError

    def read_files(self, files: Sequence[str | Path], findings: Findings, labels: Sequence[str]) -> Sequence[Any]:
        """Examples with truths from files in the format of the run's data; `labels` are those that are known."""
        raise NotImplementedError

    def learn(self, config: Any, splits: Splits[Any], parent: Parent | None) -> tuple[Any, Self]:
        """Learn from the training examples; `parent` is a run whose tokenizers are taken.

        Returns:
            The configuration with what was decided, and the input.
        """
        return config, self

    def fields(self, given: dict[str, Any], work: Any) -> dict[str, Any]:
        """Fields of `model` that follow from the data, the body or one another; `given` are those known so far."""
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
        """Examples that this input has read, encoded by that of another run, which answers together with this one."""
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
        batches = listed(plan_pass(costs, work.config.training.batch_tokens, *draw), work.splits.examples[split])
        return Pass(batches, lambda pieces: self.collate(encoded, list(pieces), draw), costs.reshape(len(costs), -1))

    def scoring(self, encoded: Sequence[Any], tokens: int) -> Sequence[list[int]]:
        """The batches for scoring examples, of about so many positions."""
        return plan_pass(self.costs(encoded), tokens)

    def size(self, work: Any) -> str:
        """The named size of a model that "auto" stands for."""
        return "small"

    def questions(self, given: Any) -> tuple[Sequence[Any], bool]:
        """The examples without truths of what `predict` was given, and whether it was a single input.

        Raises:
            DataError: An item cannot be read; the message names it.
        """
        raise NotImplementedError

    def finished(self, head: Head, made: Sequence[Any], examples: Sequence[Any], encoded: Any) -> list[Any]:
        """Predictions with what is known of their inputs; those of blank inputs are empty."""
        return list(made)

    def place(self, examples: Sequence[Any], i: int) -> dict[str, str]:
        """The place and the content of an example in a list of errors."""
        line = " ".join(examples[i].source.split())
        return {"origin": examples[i].origin, "text": line if len(line) <= 200 else f"{line[:197]}..."}

    def scorable(self, examples: Sequence[Any], where: str) -> Sequence[Any]:
        """Examples that `where` has; a DataError if none of them can be scored."""
        return examples


@dataclass(frozen=True)
class Head(Part):
    """What is compared with a model's states."""

    options: ClassVar[type[Section]] = NoOptions
    """Fields in the `model` section, next to those of the body."""
    targets: str = "examples"
    """Plural name of what a batch's `num_targets` counts."""
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
    """Options of the texts that looks write, where they are not given."""
    is_tuned: ClassVar[bool] = True
    """True if a run from a parent of the same model is fine-tuning, with its learning rate."""
    has_outputs: ClassVar[bool] = True
    """False if the outputs of examples are scores of them, by `scored` in place of `outcomes`."""
    is_number: ClassVar[bool] = False
    """True if its answer to each example is one number."""
    decides: ClassVar[bool] = False
    """True if this head, rather than the first, makes the answers of an ensemble."""

    select: ClassVar[str] = "loss"
    """The validation score that `evaluation.select_by` "auto" stands for."""
    by_length: ClassVar[tuple[str, ...]] = ()
    """Measures that a report also shows for ranges of source length."""
    follows: ClassVar[tuple[str, ...]] = ()
    """Fields of `model` that a run started from one with this head does not take over."""
    blank: ClassVar[Prediction | None] = None
    """The prediction for a blank text; None for what the model answers."""

    def learn(self, config: Any, splits: Splits[Any]) -> tuple[Any, Head]:
        """Learn from the training examples; returns the configuration with what was decided, and the head."""
        return config, self

    @property
    def chosen(self) -> Any:
        """Its fields of the `model` section, as `options` types them."""
        return self.options.model_construct(**self.config.model.settings)

    def settled(self, options: Any, given: dict[str, Any], work: Any) -> dict[str, Any]:
        """The fields of the options to write into the configuration.

        Raises:
            ConfigError: A field contradicts the data or the body.
        """
        return dict(options.model_dump())

    def build(self, body: nn.Module, options: Any, facts: Facts) -> nn.Module:
        """The model: the body, by itself or as `body` of a model that stands on it; drawn in this order."""
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
        """The one pass over a batch; `carried` has the states of earlier batches that it goes on from."""
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
        """The scores of a validation of what is not decided by `decode`; None for those of the `measures`."""
        return None

    def outcomes(
        self, predictions: Sequence[Any], examples: Sequence[Any], input: Input, others: Any = None
    ) -> Outcomes:
        """All measures of predictions, with the details of a report; `others` is what all runs of a comparison know."""
        raise NotImplementedError

    def report(self, scores: dict[str, Any]) -> list[str]:
        """The scores of one set, as lines for people."""
        raise NotImplementedError

    def asked(self, answer: Any, target: str | None, rather_than: str | None) -> Asked:
        """The score that `target` names, minus that of another; for None the score of the answer.

        Raises:
            ConfigError: There is no such score.
        """
        raise NotImplementedError

    def shade(self, prediction: Any, sides: Mapping[str, Any]) -> Sequence[Shading]:
        """What a look draws of a prediction on the texts of an example, by their names (`heed.tasks.look.Side`)."""
        return []

    def scoring_memory(self, work: Any, model: Any, activations: float) -> int:
        """Bytes that scoring takes besides the model, of what libraries take that it imports, too.

        `activations` are those kept for each position in training.
        """
        positions: int = work.at_once
        return round(positions * activations)
