"""A task as a value, and `Work`: a task with its data and settled configuration, as the training loop uses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast
from warnings import warn

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import create_model
from torch import Tensor, nn

from heed.config import RunConfig, Section
from heed.config.data import Sources, with_columns
from heed.config.sections import EvaluationConfig, TextConfig
from heed.config.settling import GPU_BATCH, with_gpu_batch, with_model, with_rate
from heed.data.examples import evenly
from heed.data.findings import Findings
from heed.data.splits import Splits, take_subset
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, HeedWarning
from heed.evaluation.measures import values_of
from heed.models.base import Body, Interface, ModelConfig, TextEncoder
from heed.registry import body_class, model_and_head
from heed.tasks import spec_of, task_class
from heed.tasks.base import ATTRIBUTION, BESIDE, ERRORS, GATES, JSON, PIECES, TaskSpec
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.data_files import changed_files, refuse_left_behind, refuse_pictures, refuse_pipes
from heed.tasks.base.predictions import TextOutputs
from heed.tasks.base.report import counted
from heed.tasks.base.transfer import (
    END_TOKEN,
    FINE_TUNING,
    Parent,
    Started,
    from_data,
    groups_of,
    is_fine_tuning,
    with_parents,
)
from heed.tasks.base.vocabulary import embedding_of
from heed.tasks.base.writing import VALIDATED
from heed.tasks.contracts import Batch, Draw, Facts, Head, Input, Pass, Rows
from heed.threads import threads_for
from heed.training.batches import CarriedRows
from heed.training.contracts import Loss, Trainable
from heed.training.device import choose_device
from heed.training.optimizer import Group
from heed.training.processes import current

Baselines = Mapping[str, Callable[[Sequence[Any]], Sequence[Any]]]
"""Predictions for examples, by the name of a baseline."""


@dataclass(frozen=True)
class Looks:
    """The functions of a task that look inside a model; each has `(work, model, text, ...)` as its first arguments."""

    at: Callable[..., Any] | None = None
    """A look's content, `watch.looks.Look`."""
    explain: Callable[..., Any] | None = None
    """Which score is attributed to which words, `Explained`."""
    contrast: Callable[..., dict[str, Any]] | None = None
    """The options of `explain` for the score that tells two texts apart."""
    lens: Callable[..., Any] | None = None
    """The tokens and labels that the logit lens reads."""
    look: Callable[..., Any] | None = None
    """`run.look` of an input that is not a text."""
    attribute: Callable[..., Any] | None = None
    """`run.attribute` of an input that is not a text."""
    whole_words: bool = False
    """True if maps show whole words only when asked to."""
    readable: Callable[..., Any] | None = None
    """Converts the argument of a look to its input, given the work, if it is not a text or a pair of texts."""


_ALWAYS = ("outputs", "ensemble")
"""Capabilities of every task, except those in `cannot`."""


@dataclass(frozen=True)
class Task:
    """A task: an input, a head, and functions special to it."""

    name: str
    input: Input
    head: Head
    looks: Looks = Looks()
    config: type[RunConfig] | None = None
    """The class of its configurations; None for one made of the sections of its input and head."""
    baselines: Callable[[Any], Baselines] = lambda run: {}
    """The baselines of a run, fitted to its training set; called once for each run."""
    measured: Callable[[Work], None] | None = None
    """Settles fields that need trials, or the parent run, before the model of a new run is settled."""
    defaults: Callable[[Any, Work], Any] | None = None
    """Returns a settled configuration with the task's defaults for fields that the user did not set."""
    enough_updates: int = 1_000
    """Updates that a model trained from scratch needs to be of use."""
    most_updates: Callable[[Work], int] | None = None
    """Updates after which a run under a time budget ends, though time is left."""
    outputs: Callable[[Any, Mapping[str, Any]], Any] = TextOutputs
    """Writer of predictions, given the run and the values of the task's flags."""
    taken_from: Callable[..., Mapping[str, str] | None] | None = None
    """From the work, a parent run, the tensors of the model by name, the prefix of the names of those of the parent's
    body, and the parent's tensors, which may be changed: the parent's name of each tensor to copy; None to copy those
    of the same name."""
    samples_page: Callable[[Work], str] | None = None
    """A page of training examples."""
    errors_page: Callable[[Any, Mapping[str, Sequence[Mapping[str, Any]]]], str] | None = None
    """A page of the wrong examples of reports, by the name of the set."""
    uses: Callable[[Any], Sequence[str]] | None = None
    """Commands for a run, where they depend on it."""
    examiner: Callable[[], type[Any]] | None = None
    """Returns the class that compares runs, if it is not `Examiner`."""
    before: Callable[[Any], Any] | None = None
    """Returns the user's configuration with the fields that follow from it alone, or from a parent run."""
    aligns: Callable[..., Any] | None = None
    """`run.align`: links the words of a source with those of a target; the run is its first argument."""
    ranks: Callable[..., Any] | None = None
    """`run.rank`: orders given outputs by their probability; the run is its first argument."""
    scores_text: Callable[..., Any] | None = None
    """`run.score` of one text, token by token; the run is its first argument."""
    follows: bool = False
    """True if its runs say whether the second of two texts follows the first."""
    export: Callable[..., Any] | None = None
    """Writes a model for another program: `heed.exchange.export_translation`."""
    chat: Callable[..., Any] | None = None
    """Starts a conversation with a run."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Capabilities that its runs lack, with the reason, if there is one to say."""
    summary: str = ""
    """One line on the task, if it has no specification of its own."""
    sample: Callable[[int], Sequence[Sequence[Any]]] | None = None
    """Made-up examples, as many as asked for, in the order of the fields of the kind; for `heed dev check`."""

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """Interfaces of the models that it can use, the preferred one first."""
        return spec_of(self.name).interfaces  # type: ignore[return-value]

    @cached_property
    def spec(self) -> TaskSpec:
        """The specification of a task that has none of its own."""
        looks = (BESIDE, *GATES, PIECES) if self.looks.at is not None else ()
        looks = (*looks, ATTRIBUTION) if self.looks.explain is not None else looks
        why = {} if looks else {"look": "it has no function that looks inside its models"}
        unit, flags = cast(Any, self.input).kind.example.unit, (JSON, ERRORS, *looks)
        per_token = self.head.per_token
        return TaskSpec(self.summary, "FILE", ("encoder",), "text", per_token, unit=unit, flags=flags, why_not=why)

    @cached_property
    def config_class(self) -> type[RunConfig]:
        """The class of its configurations."""
        if self.config is not None:
            return self.config
        section, scores = cast(Any, self.input).kind.section, cast(Any, Literal[("auto", self.head.select, "loss")])
        fields: dict[str, Any] = {
            "task": (Literal[self.name], self.name),
            "data": (Annotated[section, Sources(section, hub=True)], ...),
            "evaluation": (
                create_model("Evaluation", __base__=EvaluationConfig, select_by=(scores, "auto")),
                EvaluationConfig(),
            ),
        }
        class_settings = {"use_attribute_docstrings": False}
        return create_model(f"{self.name.title()}Config", __base__=TextConfig, __cls_kwargs__=class_settings, **fields)

    @cached_property
    def head_class(self) -> type[Section]:
        """The fields of the `model` section besides the fields of the body."""
        return self.head.options

    @property
    def size_fields(self) -> Mapping[str, str]:
        """Kind of row -> the field of `model` that counts such rows."""
        return {kind: sized.field for part in (self.input, self.head) for kind, sized in part.sized.items()}

    @property
    def alternatives(self) -> Mapping[str, tuple[str, ...]]:
        """Kind of row -> its possible names in another task, best first."""
        return {kind: s.alike for part in (self.input, self.head) for kind, s in part.sized.items() if s.alike}

    def examiner_class(self) -> type[Any]:
        """The class that compares its runs."""
        return Examiner if self.examiner is None else self.examiner()

    def can(self, name: str) -> bool:
        """True if its runs have a capability (`heed.tasks.CAPABILITIES`)."""
        functions = {
            "look": self.looks.at or self.looks.look,
            "attribute": self.looks.explain or self.looks.attribute,
            "patch": self.looks.contrast,
            "lens": self.looks.lens,
            "examiner": self.examiner or self.input.is_text or None,
            "errors_page": self.errors_page,
            "export": self.export,
            "align": self.aligns,
            "beams": self.head.writes or None,
            "errors": None if self.head.writes else self,
        }
        return name not in self.cannot and (functions[name] is not None if name in functions else name in _ALWAYS)

    def prepare(self, config: Any, examples: Mapping[str, Sequence[Any]] | None = None) -> Work:
        """Read the data, or take the `examples`, learn from them, settle the configuration.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """
        _refuse_unused(config, self.input.unused)
        if self.head.per_token and issubclass(body_class(config.model.name, self.interfaces), TextEncoder):
            raise ConfigError(
                f"model {config.model.name} gives one vector for a text, but {self.name} needs a state for each token; "
                "use another model"
            )
        config = config if self.before is None else self.before(config)
        config, parent, tokens = with_parents(config, self)
        splits = self.read_splits(config, examples)
        config, input = self.input.learn(config, splits, tokens)
        config, head = self.head.learn(config, splits)
        work = Work(self, config, input, head, splits)
        work.input.leave_out(work)
        return work.settle(parent)

    def __reduce__(self) -> Any:
        return task_class, (self.name,)  # a pickled run names its task

    def __call__(self, config: Any, *learned: Any) -> Work:
        """The work of a checkpoint, not yet settled: the learned fields of its input, then what its head learned."""
        head: Any = self.head
        head = head.taught(*learned[1:-1]) if learned[1:-1] else head  # of labels
        return Work(self, config, replace(self.input, **learned[0]), head, None)

    def restore(self, config: Any, folder: Path) -> Work:
        """The work of a run folder; its data is opened only when asked for."""
        return Work(self, config, self.input.restore(config, folder), self.head.restore(config, folder), None)

    def resume(self, config: Any, folder: Path, examples: Mapping[str, Sequence[Any]] | None = None) -> Work:
        """The work of a resumed run, with the tokenizers and labels of its beginning."""
        work = self.restore(config, folder)
        work.passed_examples = examples
        work.input.leave_out(work)
        return work

    def read_splits(
        self, config: Any, examples: Mapping[str, Sequence[Any]] | None = None, input: Input | None = None
    ) -> Splits[Any]:
        """The splits of a configuration, with only `training.train_size` training examples if that is set.

        `input` is that of a run, which has learned.

        Raises:
            ConfigError: There are fewer training examples than `training.train_size`.
            DataError: The data cannot be read.
        """
        refuse_pipes(config)
        refuse_pictures(config)
        splits = (input or self.input).open(config, examples)
        size = config.training.train_size
        return splits if size is None else take_subset(splits, size, config.training.seed)

    def read_data(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Any]:
        """Convert Python data to examples: a data frame, a list, a dict of columns.

        Args:
            data: The data, in one of the forms of `heed.data.readers`.
            split: Its name in messages; the origin of example 17 is "train[17]".
            config: The settings for reading the data.
            findings: Policy for bad lines, and their counts.

        Raises:
            DataError: The data cannot be used; the message names the place, the value and what would be right.
        """
        return self.input.read_data(data, split, config, findings)


def _refuse_unused(config: RunConfig, names: Sequence[str]) -> None:
    """Refuse sections and fields that do not apply to a task, unless they have their default values."""
    for name in names:
        section, _, field = name.partition(".")
        part = getattr(config, section)
        fields = type(part).model_fields
        for option in fields.keys() & {field} if field else fields:
            if (value := getattr(part, option)) != fields[option].default:
                what = f"{section}.{option.rstrip('_')} is {str(value).lower() if isinstance(value, bool) else value}"
                raise ConfigError(f"{what}, which does not apply to {config.task}; remove it")


_EXACT_IN_BF16 = frozenset({"transformer", "encoder", "bert", "gpt", "vit"})
"""Models whose losses after training in bf16 differ from float32's less than seeds do (benchmarks/README.md)."""


class Work(Trainable):
    """A task with its data and a settled configuration."""

    patience = 3
    is_trial = False
    """True for a copy whose updates are measured."""
    passed_examples: Mapping[str, Sequence[Any]] | None = None
    """The examples that were passed in Python, by split."""
    input: Input
    """The input, with its learned state."""
    head: Head
    """The head, with its learned state."""
    parent: Parent | None = None
    """The run that `model.from` names."""
    grown_kinds: tuple[str, ...] = ()
    """Kinds of rows of which `build_model` builds one more, to find the axes of tensors."""
    folder: Path | None = None
    """The run folder that the work was opened from, with the digests of its data; None for a new run."""

    def __init__(self, task: Task, config: Any, input: Input, head: Head, splits: Splits[Any] | None) -> None:
        self.task, self.config = task, config
        self.input, self.head = input, head
        self.interfaces = task.interfaces
        self.same_shapes = input.same_shapes  # type: ignore[misc]
        self.is_exact_in_bf16 = config.model.name in _EXACT_IN_BF16
        self.enough_updates = task.enough_updates
        self._splits = splits
        self._encoded: dict[str, Sequence[Any]] = {}
        self._truths: dict[str, Any] = {}
        self._costs: dict[str, NDArray[np.int64]] = {}
        self._passes: dict[int, Pass] = {}
        self._once: dict[str, Any] = {}
        self._carried = CarriedRows()
        self.started: dict[str, Started] = {}  # further descriptions of the initial values
        self.fit()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_passes": {}}  # made again when they are needed

    def fit(self) -> None:
        """Tell the parts the model and the settings of the configuration."""
        self.head = self.head.fitted(self)
        self.targets = self.head.targets  # type: ignore[misc]
        self.input = self.input.fitted(self)
        for cache in (self._truths, self._costs, self._passes):
            cache.clear()
        if not self.input.is_encoded_once:
            self._encoded.clear()

    def between(self, source: str | None, target: str | None) -> Self:
        """The same work for texts of other languages; None for those of the configuration.

        Raises:
            ConfigError: The task has no languages, or the model lacks one.
        """
        input: Any = self.input
        input = input.between(source, target)
        work = type(self)(self.task, input.config, input, self.head, self._splits)
        work.folder, work.passed_examples = self.folder, self.passed_examples
        return work

    def save(self, folder: Path) -> None:
        """Write everything derived from the data (tokenizers, labels) into a run folder."""
        self.input.save(folder)
        self.head.save(folder)

    # Settling -------------------------------------------------------------------------------------------------

    def settle(self, parent: Parent | None) -> Self:
        """Settle the configuration of a new run, which may start from another one.

        The order of the steps is in `heed.config.settling`.
        """
        self.parent = parent
        if self.task.measured is not None and not self.is_imported:
            self.task.measured(self)
        if self._is_on_gpu:
            self.config = with_gpu_batch(self.config, self.input.batch_field)
        if self.config.training.minutes is not None and not self.is_imported:
            from heed.tasks.base.sizing import fit_to_budget  # only a new run needs what it measures with

            self.config = fit_to_budget(self)
        config = self.settled()
        if self.head.is_tuned and is_fine_tuning(config, parent, self.interfaces):
            self.config = config = with_rate(config, FINE_TUNING, "fine-tuning")
            if self.head.writes:
                from heed.tasks.base.sizing import freeze_to_fit

                config = freeze_to_fit(self)
                if config.training.minutes is not None and config.training.steps is config.training.epochs is None:
                    config = config.settle_open("fine-tuning", {"training.patience": self.patience})
        self.config = config if self.is_imported else with_columns(config, self.splits.columns)
        self.fit()
        if self.is_imported:
            return self
        for split in self.split_names:  # truths that cannot be learned are refused before anything is trained
            self.truths(split)
        return self

    def settled(self) -> Any:
        """The configuration with every field of the model, and the score to select by, written out.

        Raises:
            ConfigError: A field contradicts the data, or is unknown.
        """
        config, whys = self.config, dict[str, str]()
        size = self.size
        if config.model.size == "auto":
            whys["size"] = self.input.size_reason or f"for {counted(len(self.splits.examples['train']), self.unit)}"
        fields = {**config.model.settings}
        body_fields = self.body_class.config_class.model_fields.keys()
        attends = {"attention_dropout", "num_heads"} <= body_fields
        if self._is_on_gpu and size not in ("scarce", "tiny", "small") and attends:
            if "attention_dropout" not in fields:
                whys["attention_dropout"] = "with it, a GPU cannot use its fastest kernels"
            fields.setdefault("attention_dropout", 0.0)
        model, options = self._model_of(size, fields, whys)
        config = with_model(config, size, {**model.model_dump(), **options}, whys, self.head.select)
        return config if self.task.defaults is None else self.task.defaults(config, self)

    @property
    def _is_on_gpu(self) -> bool:
        return not self.is_imported and choose_device(self.config.training.device).type == "cuda"

    @property
    def model_defaults(self) -> dict[str, Any]:
        """The settled `model` section if only its name and size were set."""
        model, options = self._model_of(self.config.model.size, {}, {})
        return {**model.model_dump(), **options}

    def _model_of(
        self, size: str, configured: Mapping[str, Any], whys: dict[str, str]
    ) -> tuple[ModelConfig, dict[str, Any]]:
        """The fields of the body and of the parts for a size and the configured fields; adds reasons to `whys`."""
        fields = {**configured}
        counts = {name: self.rows[kind].unit or kind for kind, name in self.sizes.items()}
        for kind, name in self.sizes.items():
            from_data(fields, name, self.rows[kind].size, counts[name])
        fields |= self.input.fields(fields, self)
        if END_TOKEN in self.body_class.config_class.model_fields:
            (tokenizer,) = self.tokenizers().values()
            from_data(fields, END_TOKEN, tokenizer.special.end, "as its end token")
        model, options = model_and_head(self.body_class, self.head.options, size, fields)
        head_fields = self.head.settled(options, fields, self)
        of_data = {*fields, *(name for name, value in head_fields.items() if value != getattr(options, name, value))}
        for name in [name for name in fields | head_fields if name in of_data - configured.keys()]:
            whys[name] = f"number of {counts[name]}" if name in counts else "suits the data and the model"
        return model, head_fields

    @property
    def size(self) -> str:
        """The named size of the model, with "auto" resolved."""
        size: str = self.config.model.size
        return self.input.size(self) if size == "auto" else size

    # Data -----------------------------------------------------------------------------------------------------

    @property
    def splits(self) -> Splits[Any]:
        """The examples; read on first use, with a warning of files that have changed since the run began.

        Raises:
            DataError: A file cannot be read, is not a regular file, or was not packed with the run.
        """
        if self._splits is None:
            if self.folder is not None and self.passed_examples is None:
                refuse_left_behind(self.config)
                for line in changed_files(self.config, self.folder):
                    warn(line, HeedWarning, stacklevel=2)
            self._splits = self.task.read_splits(self.config, self.passed_examples, self.input)
        return self._splits

    @property
    def split_names(self) -> list[str]:
        """The names of the splits that the data has."""
        return list(self.splits.examples)

    @property
    def is_imported(self) -> bool:
        """True if the run was imported: it has no data of its own."""
        return getattr(self.config.data, "imported", None) is not None

    def encoded(self, split: str) -> Sequence[Any]:
        """The examples of a split, or of a further corpus, as numbers."""
        if split not in self._encoded:
            extra, options = self.splits.extra.get(split), dict[str, Any]()
            examples = self.splits.examples[split] if extra is None else extra.examples
            if extra is not None:
                options = {"tag": extra.tag, **({"languages": extra.languages} if any(extra.languages) else {})}
            self._encoded[split] = self.input.encode(examples, split, **options)
        return self._encoded[split]

    def keep(self, split: str, numbers: NDArray[np.int64], rule: str) -> None:
        """Keep only these examples of a split or further corpus; the others are counted as left out by a rule."""
        encoded: Any = self.encoded(split)
        self._encoded[split] = encoded.select(numbers)
        self.splits.keep(split, numbers, rule)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """The result of a function, computed once."""
        if name not in self._once:
            self._once[name] = make()
        return self._once[name]

    def truths(self, split: str) -> Any:
        """The truths of a split."""
        if split not in self._truths:
            self._truths[split] = self.head.encode(self.splits.examples[split], self.input)
        return self._truths[split]

    def costs(self, split: str) -> NDArray[np.int64]:
        """The positions of each example of a split."""
        if split not in self._costs:
            self._costs[split] = self.input.costs(self.encoded(split))
        return self._costs[split]

    # For people -----------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """Title of a look without another one: the model and the data."""
        return f"{self.config.model.name} on {self.config.data.name}"

    @property
    def unit(self) -> str:
        """The noun for an example in messages."""
        return "pair" if self.pairs else spec_of(self.task.name).unit

    @property
    def pairs(self) -> bool:
        """True if an input is a pair of texts."""
        return bool(self.input.pairs)

    @property
    def notes(self) -> str:
        """Remarks on the examples read, kept and left out."""
        return "\n".join([self.splits.notes, *self.input.notes(self), *self.head.notes(self)])

    def overview(self) -> str:
        """The text of `heed check`: counts, lengths, unknown tokens, samples as the model sees them."""
        return "\n".join(self.input.lines(self))

    def report_counts(self) -> dict[str, Any]:
        """For each split: the number of examples, and the counts of the parts."""
        every = (*self.split_names, *self.splits.extra)
        return {name: {**self.input.counts(name, self), **self.head.counts(name, self)} for name in every}

    # Model ----------------------------------------------------------------------------------------------------

    @property
    def body_class(self) -> type[Body]:
        """The class of the model's body."""
        return body_class(self.config.model.name, self.interfaces)

    def model_and_head(self) -> tuple[ModelConfig, Any]:
        """The fields of the body and of the parts, typed."""
        section = self.config.model
        return model_and_head(self.body_class, self.head.options, section.size, dict(section.settings))

    @property
    def rows(self) -> Mapping[str, Rows]:
        """The rows of the model's tensors, by their kind."""
        return {**self.input.rows(), **self.head.rows()}

    def axes(self) -> Mapping[str, Sequence[str]]:
        """Kind of row ("tokens", "labels", "columns") -> the names of its rows, in order."""
        return {kind: rows.names for kind, rows in self.rows.items() if rows.number is None}

    @property
    def sizes(self) -> Mapping[str, str]:
        """Kind of row -> the field of the configured model that counts such rows."""
        body_fields = self.body_class.config_class.model_fields
        counting = {kind: rows.field for kind, rows in self.rows.items() if rows.field}
        return {kind: name for kind, name in {**self.task.size_fields, **counting}.items() if name in body_fields}

    def tokenizers(self) -> Mapping[str, TextTokenizer]:
        """The tokenizers, by the kind of row that their tokens name."""
        return self.input.tokenizers

    def follows_from_data(self) -> tuple[str, ...]:
        """Fields of the `model` section that a run started from this one does not take over."""
        return (*self.sizes.values(), END_TOKEN, *self.head.follows)

    def build_model(self) -> Any:
        """A new model, its weights drawn from torch's random state."""
        config, options = self.model_and_head()
        body = self.body_class(config)
        if not getattr(self.config.model, "train_embeddings", True):
            embedding_of(body).weight.requires_grad_(False)
        tokenizers = [*self.tokenizers().values()]
        special = tokenizers[-1].special if tokenizers else None
        rows = {kind: [*names, *["one more"] * (kind in self.grown_kinds)] for kind, names in self.axes().items()}
        return self.head.build(body, options, Facts(rows, special))

    def body(self, model: Any) -> nn.Module:
        """The part of a model that other tasks can start from."""
        body: nn.Module = getattr(model, "body", model)
        return body

    def start(self, model: Any) -> dict[str, Started]:
        """Initialise a new model; returns descriptions of the initial values, by name, for the report."""
        before = self.input.start(model, self)
        inherited = {} if self.parent is None else {"parent": self.parent.copy_into(model, self)}
        return {**before, **inherited, **self.started}

    def groups(self, model: Any) -> list[Group]:
        """The parts of a model that `training.layer_decay`, `freeze` and `unfreeze_every` treat differently.

        Raises:
            ConfigError: A field names a part that the model does not have.
        """
        return groups_of(model, self.body(model), self.config.training)

    # What the training loop needs -----------------------------------------------------------------------------

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        return self._pass(epoch).batches

    def _pass(self, epoch: int) -> Pass:
        if epoch not in self._passes:
            before = {n: plan for n, plan in self._passes.items() if n == epoch - 1}  # batches may be made ahead
            plan = self.input.plan(self, "train", Draw(self.config.training.seed, epoch))
            self._passes = before | {epoch: plan}
        return self._passes[epoch]

    def collate(self, indices: list[int], epoch: int = 0) -> Batch:
        batch = self._pass(epoch).collate(indices)
        return self.head.collate(self.truths("train"), batch, Draw(self.config.training.seed, epoch))

    @property
    def planned(self) -> Pass:
        """The earliest pass that is held, or the first."""
        return self._pass(next(iter(self._passes), 0))

    def work(self, indices: list[int]) -> int:
        """Padded positions of a training batch."""
        return self.planned.positions(indices)

    def loss(self, model: Any, batch: Batch, label_smoothing: float) -> Tensor | Loss:
        return self.head.loss(model, self.head.states(model, batch, self._carried), batch, label_smoothing)

    def carried(self) -> dict[str, Tensor]:
        """The states that batches go on from, for a checkpoint; empty for a model without such states."""
        return self._carried.tensors()

    def carry(self, state: dict[str, Tensor]) -> None:
        """Go on from these states; from none if there are none."""
        self._carried = CarriedRows(state)

    def describe(self, indices: list[int], epoch: int) -> str:
        if (described := self._pass(epoch).described) is not None:
            return described(indices)
        return f"{len(indices)} {self.unit}s, the first {self.first_of(self.splits.examples['train'], indices[0])}"

    def first_of(self, examples: Sequence[Any], i: int) -> str:
        """The place and the beginning of an example, for messages."""
        origin, text = self.input.place(examples, i).values()
        return f"{origin}: {text[:80]!r}"

    @property
    def finishing_work(self) -> float:
        tested = sum(len(self.encoded(name)) for name in self.split_names if name not in ("train", "valid"))
        # A validation is greedy, and writes few texts; a beam search costs at most the beam size times as much.
        each = 1.0 + int(self.config.generation.beam_size) if self.head.samples else 1.2
        validated = len(self.encoded("valid"))
        return each * tested / max(1, min(validated, VALIDATED) if self.head.samples else validated)

    @property
    def trained_validation(self) -> float:
        """Cost of validating a trained model, which writes outputs as long as references, not the largest."""
        lengths: Any = cast(Any, self.input).written_lengths("valid", self) if self.head.samples else ()
        # Outputs of a batch are written together, until the longest ends.
        return float(min(1.0, 1.5 * (lengths.mean() + 1) / (lengths.max() + 2))) if len(lengths) else 1.0

    @property
    def most_updates(self) -> int | None:
        return None if self.task.most_updates is None else self.task.most_updates(self)

    def scoring_memory(self, model: Any, activations: float) -> int:
        """Bytes that scoring takes, including libraries that it imports."""
        return self.head.scoring_memory(self, model, activations)

    def validated_part(self, examples: Sequence[Any]) -> Sequence[Any]:
        """The validation examples, or items that belong to them, that `validate` scores: `valid_share` of them."""
        return evenly(examples, math.ceil(self.valid_share * len(examples)))

    def validate(self, model: Any) -> dict[str, float]:
        """The loss over the targets, and the head's measures; the processes share the examples."""
        if (whole := self.head.validated(self, model)) is not None:
            return whole
        encoded, truths, examples = self.encoded("valid"), self.truths("valid"), self.splits.examples["valid"]
        numbers = [*self.validated_part(range(len(encoded)))]

        def scored(batch: Batch) -> list[tuple[list[float], Any]]:
            states = self.head.states(model, batch)
            judged = self.head.judge(model, states, batch).tolist()
            return list(zip(judged, self.head.decode(model, states, batch), strict=True))

        scores = current().map(lambda part: self.scored(model, encoded, scored, truths, part), numbers)
        nats, _, count = np.array([judged for judged, _ in scores]).sum(0).tolist()
        chosen = [examples[n] for n in numbers]
        predictions = [
            self.head.predict(answer, example, self.input) for (_, answer), example in zip(scores, chosen, strict=True)
        ]
        return {"loss": nats / max(1.0, count), **values_of(self.head.measures(predictions, chosen))}

    # Using a model --------------------------------------------------------------------------------------------

    @property
    def at_once(self) -> int:
        """Positions of a scoring batch; the size of a training batch if texts are written, or if that fills a GPU."""
        size: int = getattr(self.config.training, self.input.batch_field)
        return size if self.head.samples else max(size, min(4 * size, GPU_BATCH))

    @torch.no_grad()
    def scored(
        self,
        model: Any,
        encoded: Sequence[Any],
        score: Callable[[Batch], Sequence[Any]],
        truths: Any = None,
        numbers: Sequence[int] | None = None,
    ) -> list[Any]:
        """The results of `score`, which gives one for each example of a batch, for encoded examples in their order.

        `truths` of all examples, if they are known; `numbers` are those of the examples to score, all by default.
        """
        device = next(model.eval().parameters()).device
        chosen = range(len(encoded)) if numbers is None else numbers
        subset = encoded if numbers is None or len(numbers) == len(encoded) else _select(encoded, numbers)
        results: list[Any] = [None] * len(chosen)
        for places in self.input.scoring(subset, self.at_once):
            indices = [chosen[place] for place in places]
            batch = self.input.collate(encoded, indices, None)
            if truths is not None:
                batch = self.head.collate(truths, batch, None)
            batch = batch.to(device)
            with threads_for(model, batch.positions):
                for place, result in zip(places, score(batch), strict=True):
                    results[place] = result
        return results

    def batch_of(self, inputs: Sequence[Any]) -> Batch:
        """The batch of several inputs, as `predict` takes them."""
        encoded = self.input.encode(self.input.questions(inputs)[0])
        return self.input.collate(encoded, [*range(len(encoded))], None)

    def answers(self, model: Any, encoded: Sequence[Any], head: Head | None = None) -> list[Any]:
        """The answer for each example, of a head with the options of a prediction."""
        head = head or self.head
        return self.scored(model, encoded, lambda b: head.decode(model, head.states(model, b), b))

    def judged(self, model: Any, encoded: Any) -> NDArray[np.float64]:
        """The nats, right tokens and tokens of each text of encoded examples, `(texts, 3)`, of a head that writes."""
        rows = [row for rows in self.judged_units(model, encoded) for row in rows]
        return np.array(rows).reshape(-1, 3)

    def judged_units(self, model: Any, units: Sequence[Any], numbers: Sequence[int] | None = None) -> list[list[Any]]:
        """The same for the texts of each unit."""

        def judge(batch: Batch) -> list[list[Any]]:
            by_unit: dict[int, list[Any]] = {number: [] for number in batch.indices}
            for number, row in zip(
                batch.rows, self.head.judge(model, self.head.states(model, batch), batch), strict=True
            ):
                by_unit[number].append(row.tolist())
            return [by_unit[number] for number in batch.indices]

        return self.scored(model, units, judge, (), numbers)


def _select(encoded: Sequence[Any], numbers: Sequence[int]) -> Sequence[Any]:
    """Some of the examples, without making them where they are made on access."""
    if isinstance(encoded, Tensor):
        return encoded[numbers]
    select = getattr(encoded, "select", None)
    return [encoded[n] for n in numbers] if select is None else select(numbers)
