"""Base class of tasks (data, model, loss and scores); changes of a run's data files."""

from __future__ import annotations

import hashlib
import json
import math
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar
from warnings import warn

from heed.config import RunConfig, TrainingConfig, config_text, data_files, short_config_text
from heed.config.data import with_columns
from heed.config.settling import GPU_BATCH, with_gpu_batch, with_model, with_rate
from heed.data.examples import evenly
from heed.data.findings import Findings
from heed.data.kinds.contents import picture_content
from heed.data.splits import Splits, take_subset
from heed.errors import ConfigError, DataError, HeedWarning, RunError
from heed.models.base import Body, ModelConfig
from heed.registry import body_class, model_and_head
from heed.storage.cache import digest_of
from heed.storage.disk import write_whole
from heed.storage.files import MissingFileError, kind_of, read_object
from heed.tasks import spec_of, suggest_task
from heed.tasks.base.rates import groups_of
from heed.tasks.base.report import counted
from heed.tasks.base.transfer import END_TOKEN, FINE_TUNING, Parent, Transfers, from_data, is_fine_tuning
from heed.training.contracts import Trainable
from heed.training.device import choose_device
from heed.training.optimizer import Group

DATA = "data.json"
"""Digests of a run's data files, kept to detect changes since the run began."""
C = TypeVar("C", bound=RunConfig)
E = TypeVar("E")
"""An example."""
X = TypeVar("X")


class Task(Transfers, Trainable, Generic[C, E]):
    """A task with splits and a model of a body and a head; the training loop uses only its `Trainable` part."""

    config: C
    batch_field: ClassVar[str] = "batch_tokens"
    """Field of `training` with the size of a batch."""
    enough_updates: ClassVar[int] = 1_000
    """Updates that a model trained from scratch needs to be of use."""
    positions_per_parameter: ClassVar[float] = 0.0
    """Positions that it must see for each of its parameters under a time budget, else a smaller one learns more."""
    is_trial: bool = False
    """True for a copy whose updates are measured."""
    units: ClassVar[Mapping[str, str]] = {}
    """Kind of row -> its name in messages, if different."""
    texts_are_examples: ClassVar[bool] = False
    """True if an example is only a text, so that a list of strings may be a list of examples."""
    pairs: ClassVar[bool] = False
    """True if an input is a pair of texts."""
    given: Mapping[str, Sequence[E]] | None = None
    """The examples that were passed in Python, by split."""
    folder: Path | None = None
    """The run folder that the task was opened from, with the digests of its data; None for a new run."""

    def __init__(self, config: C, splits: Splits[E] | None) -> None:
        self.config = config
        self._splits = splits

    @classmethod
    @abstractmethod
    def prepare(cls, config: C, given: Mapping[str, Sequence[E]] | None = None) -> Self:
        """Read the data, or take the `given` examples, train the tokenizers, settle the fields that depend on the data.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """

    @classmethod
    @abstractmethod
    def open_splits(cls, config: C, given: Mapping[str, Sequence[E]] | None = None) -> Splits[E]:
        """Read the data, or take the `given` examples.

        Raises:
            DataError: The data cannot be read.
        """

    @classmethod
    def read_splits(cls, config: C, given: Mapping[str, Sequence[E]] | None = None) -> Splits[E]:
        """The splits of `open_splits`, with only `training.train_size` training examples if that is set.

        Raises:
            ConfigError: There are fewer training examples than `training.train_size`.
            DataError: The data cannot be read.
        """
        refuse_pipes(config)
        refuse_pictures(config)
        splits = cls.open_splits(config) if given is None else cls.open_splits(config, given)
        size = config.training.train_size
        return splits if size is None else take_subset(splits, size, config.training.seed)

    @classmethod
    def hold(cls, data: Any, split: str, config: RunConfig, findings: Findings) -> Sequence[E]:
        """Convert Python data to examples: a data frame, a list, a dict of columns.

        Args:
            data: The data, in one of the forms of `heed.data.readers`.
            split: Its name in messages; the origin of example 17 is "train[17]".
            config: The settings for reading the data.
            findings: Policy for bad lines, and their counts.

        Raises:
            DataError: The data cannot be used; the message names the place, the value and what would be right.
            ConfigError: The task takes files only.
        """
        raise ConfigError(f"{config.task} reads files only; write the data to a file and give its path")

    @classmethod
    @abstractmethod
    def restore(cls, config: C, folder: Path) -> Self:
        """The task of a run folder; its data is opened only when asked for."""

    def settle(self, parent: Parent | None) -> Self:
        """Settle the configuration of a new run, which may start from another one.

        The order of the steps is in `heed.config.settling`.
        """
        self.parent = parent
        if self._is_on_gpu:
            self.config = with_gpu_batch(self.config, self.batch_field)
        if self.config.training.minutes is not None and not self.is_imported:
            from heed.tasks.base.sizing import fit_to_budget  # only a new run needs what it measures with

            self.config = fit_to_budget(self)
        config = self.settled()
        if is_fine_tuning(config, parent, self.interfaces):
            config = with_rate(config, FINE_TUNING, "fine-tuning")
        self.config = config if self.is_imported else with_columns(config, self.splits.columns)
        return self

    def learn_features(self) -> None:
        """Learn from the data what the settled configuration asks for besides a tokenizer, such as affixes of words."""

    @classmethod
    def resume(cls, config: C, folder: Path, given: Mapping[str, Sequence[E]] | None = None) -> Self:
        """The task of a resumed run, with the tokenizers and labels that it had when it began."""
        task = cls.restore(config, folder)
        task.given = given
        return task

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything derived from the data (tokenizers, labels) into a run folder."""

    @abstractmethod
    def overview(self) -> str:
        """The text of `heed check`: counts, lengths, unknown tokens, samples as the model sees them."""

    @abstractmethod
    def report_counts(self) -> dict[str, Any]:
        """For each split: the number of examples, and the task's other counts."""

    @abstractmethod
    def work(self, indices: list[int]) -> int:
        """Padded positions of a training batch."""

    @property
    @abstractmethod
    def selected_by(self) -> str:
        """The validation score that `select_by` "auto" stands for."""

    @property
    def splits(self) -> Splits[E]:
        """The examples; read on first use, with a warning of files that have changed since the run began.

        Raises:
            DataError: A file cannot be read, is not a regular file, or was not packed with the run.
        """
        if self._splits is None:
            if self.folder is not None and self.given is None:
                refuse_left_behind(self.config)
                for line in changed_files(self.config, self.folder):
                    warn(line, HeedWarning, stacklevel=2)
            self._splits = self.read_splits(self.config, self.given)
        return self._splits

    @property
    def split_names(self) -> list[str]:
        """The names of the splits that the data has."""
        return list(self.splits.examples)

    @property
    def is_imported(self) -> bool:
        """True if the run was imported: it has no data of its own, and reads a text as its tokenizer does."""
        return getattr(self.config.data, "imported", None) is not None

    def stripped(self, text: str) -> str:
        """A text without surrounding blanks, as in training; that of an imported run as it is."""
        return text if self.is_imported else text.strip()

    def validated_part(self, examples: Sequence[X]) -> Sequence[X]:
        """What `validate` scores of the validation examples, or of what belongs to each: `valid_share` of them."""
        return evenly(examples, math.ceil(self.valid_share * len(examples)))

    @property
    def title(self) -> str:
        """Title of a look without another one: the model and the data."""
        return f"{self.config.model.name} on {self.config.data.name}"

    @property
    def notes(self) -> str:
        """Remarks on what was read, kept and left out."""
        return self.splits.notes

    @property
    def places(self) -> int:
        """How often a parameter is used, at most, for a position of a batch: once for each pixel of a picture."""
        return 1

    @property
    def finishing_work(self) -> float:
        examples = self.splits.examples
        tested = sum(len(e) for name, e in examples.items() if name not in ("train", "valid"))
        return 1.2 * tested / max(1, len(examples["valid"]))

    @property
    def patience(self) -> int:
        return 3

    @property
    def trained_validation(self) -> float:
        return 1.0

    @abstractmethod
    def build_model(self) -> Any:
        """A new model, its weights drawn from torch's random state."""

    def groups(self, model: Any) -> list[Group]:
        """The parts of a model that `training.layer_decay`, `freeze` and `unfreeze_every` treat differently.

        Raises:
            ConfigError: A field names a part that the model does not have.
        """
        return groups_of(model, self.body(model), self.config.training)

    @property
    def most_updates(self) -> int | None:
        return None

    @property
    def body_class(self) -> type[Body]:
        """The class of the model's body."""
        return body_class(self.config.model.name, self.interfaces)

    def model_and_head(self) -> tuple[ModelConfig, Any]:
        """The fields of the body and of the head, typed."""
        section = self.config.model
        return model_and_head(self.body_class, self.head_class, section.size, dict(section.model_extra or {}))

    @property
    def auto_size(self) -> str:
        """The named size that "auto" stands for."""
        return "small"

    def count_of(self, kind: str) -> int:
        """The number of rows that the data has of a kind of `size_fields`, before the model section is settled."""
        return len(self.axes()[kind])

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        """Fields of the body, other than the sizes of `axes`, that follow from the data or from the head's fields."""
        return {}

    def head_fields(self, head: Any, given: dict[str, Any]) -> dict[str, Any]:
        """The head's fields to write into the configuration."""
        return dict(head.model_dump())

    def settled(self) -> C:
        """The configuration with every field of the model, and the score to select by, written out.

        Raises:
            ConfigError: A field contradicts the data, or is unknown.
        """
        config = self.config
        size: str = config.model.size
        if size == "auto":
            size = self.auto_size
            examples = counted(len(self.splits.examples["train"]), spec_of(config.task).unit)
            config = config.because(f"for {examples}", "model.size")
        fields = {**(config.model.model_extra or {})}
        large = self._is_on_gpu and size not in ("scarce", "tiny", "small") and self._attends_fused
        if large and "attention_dropout" not in fields:
            config = config.because("with it, a GPU cannot use its fastest kernels", "model.attention_dropout")
            fields["attention_dropout"] = 0.0
        values, whys = self._model_of(size, fields)
        return with_model(config, size, values, whys, self.selected_by)

    @property
    def _is_on_gpu(self) -> bool:
        return not self.is_imported and choose_device(self.config.training.device).type == "cuda"

    @property
    def _attends_fused(self) -> bool:
        """Whether the model has dropout of attention weights that keeps a GPU from its fastest kernels."""
        return {"attention_dropout", "num_heads"} <= self.body_class.config_class.model_fields.keys()

    @property
    def model_defaults(self) -> dict[str, Any]:
        """The settled `model` section as it would be if only its name and size were given."""
        return self._model_of(self.config.model.size, {})[0]

    def _model_of(self, size: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """The fields of the body and of the head for a size and the fields that were given, and reasons of others."""
        fields = {**given}
        for kind, name in self.sizes.items():
            from_data(fields, name, self.count_of(kind), self.units.get(kind, kind))
        fields |= self.fields_from_data(fields)
        if END_TOKEN in self.body_class.config_class.model_fields:
            (tokenizer,) = self.tokenizers().values()
            from_data(fields, END_TOKEN, tokenizer.special.end, "as its end token")
        model, head = model_and_head(self.body_class, self.head_class, size, fields)
        of_head = self.head_fields(head, fields)
        changed = [name for name, value in of_head.items() if value != getattr(head, name, value)]
        whys = dict.fromkeys([*fields, *changed], "suits the data and the model")
        whys |= {name: f"number of {self.units.get(kind, kind)}" for kind, name in self.sizes.items()}
        return {**model.model_dump(), **of_head}, {name: why for name, why in whys.items() if name not in given}


def scoring_tokens(training: TrainingConfig) -> int:
    """Tokens of a scoring batch: four times as many as in training, but from a GPU's batch on no more."""
    return max(training.batch_tokens, min(4 * training.batch_tokens, GPU_BATCH))


def check_positions(positions: int | None, needed: Mapping[str, int], written: int | None) -> None:
    """Refuse a table of positions that is too short, before anything is trained.

    Args:
        positions: Positions in the table; None for a model without one.
        needed: Positions that the longest text of each split needs.
        written: `generation.max_length`, if the user gave it.

    Raises:
        ConfigError: The message names the split and the number that it needs.
    """
    if positions is None or not needed:
        return
    table = f"model.max_length is {positions}, the number of learned positions, but"
    most, split = max((most, split) for split, most in needed.items())
    if most > positions:
        raise ConfigError(
            f"{table} a text of {split} needs {most}; set model.max_length={most}, or model.positions=sinusoidal"
        )
    if written is not None and written > positions:
        raise ConfigError(
            f"generation.max_length is {written}, but the model has {positions} learned positions (model.max_length); "
            f"set generation.max_length={positions} or less, or a larger model.max_length"
        )


def settings_text(task: Any, whole: bool = False) -> str:
    """The settled settings of a run as YAML: those that differ from the defaults, or all of them."""
    if whole:
        return config_text(task.config)
    told = "# Settings that differ from the defaults; --verbose prints all of them.\n"
    return told + short_config_text(task.config, task.model_defaults)


def refuse_pipes(config: RunConfig) -> None:
    """Refuse to read the data of a run from anything but files and folders: a pipe can be read only once."""
    for path, field in data_files(config).items():
        try:
            kind = kind_of(os.stat(path))
        except (OSError, ValueError):  # reported when it is read
            continue
        if kind and not os.path.isdir(path):
            raise DataError(f"{field}: '{path}' is {kind}, but a run reads its data again later; save it to a file")


def refuse_left_behind(config: RunConfig) -> None:
    """Refuse to look for the data of a packed run, which knows only the names of its files, unless they are here."""
    paths = () if config.data.origin == "hub" else data_files(config)
    if path := next((one for one in paths if not os.path.isabs(one) and not os.path.exists(one)), None):
        what = f"no file '{path}' in this folder: a packed run does not contain its data"
        raise DataError(f"{what}; copy it here, or give files, as in heed evaluate RUN FILE")


def write_digests(config: RunConfig, folder: Path) -> None:
    """Write the digests of all data files that a configuration names into a run folder; nothing if it names none."""
    files = {path: {"field": field, **digest} for path, field, digest in _digests(config)}
    if files or (folder / DATA).exists():
        text = json.dumps({"format": 1, "files": files}, indent=1, ensure_ascii=False) + "\n"
        write_whole(folder / DATA, lambda part: part.write_text(text, encoding="utf-8"))


def judged_by(config: RunConfig, folder: Path) -> str:
    """A hash of all settings except those of training, and of the data files: validations may depend on them."""
    hashed = hashlib.blake2b(config.model_dump_json(exclude={"training"}).encode(), digest_size=16)
    with suppress(FileNotFoundError):
        hashed.update((folder / DATA).read_bytes())
    return hashed.hexdigest()


def changed_files(config: RunConfig, folder: Path) -> list[str]:
    """Describe each data file that has changed since the run in a folder began, in one sentence.

    Files of runs older than `data.json` and missing files are left out; reading a missing file raises its own error.
    """
    try:
        before = read_object(folder / DATA)["files"]
        known = {path: {name: v for name, v in digest.items() if name != "field"} for path, digest in before.items()}
    except MissingFileError:
        return []
    except (RunError, KeyError, AttributeError):
        return [f"{folder / DATA} is damaged, so changes to the data since the run began cannot be detected"]
    return [
        f"{field}: '{path}' has changed since the run began: {_difference(known[path], digest)}"
        for path, field, digest in _digests(config)
        if known.get(path, digest) != digest
    ]


def _digests(config: RunConfig) -> list[tuple[str, str, dict[str, Any]]]:
    """The path, field and digest of every data file that can be read."""
    made = ((path, field, digest_of(Path(path))) for path, field in data_files(config).items())
    # The folder that `data.folder` names may have much else in it, such as runs.
    return [(path, field, digest) for path, field, digest in made if digest is not None and field != "data.folder"]


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    for unit in ("files", "bytes"):
        if before.get(unit) != now.get(unit):
            old, new = (f"{one[unit]:,}" if isinstance(one.get(unit), int) else "no" for one in (before, now))
            return f"it had {old} {unit} and now has {new}"
    return "it has the same number of bytes, but different content"


def refuse_pictures(config: Any) -> None:
    """Refuse training files that contain pictures, unless the task reads pictures.

    Raises:
        DataError: The message names the command that can use the files.
    """
    takes = (content for content, _ in spec_of(config.task).takes)
    files = getattr(config.data, "train", None)
    if not isinstance(files, list) or config.data.origin != "files" or "pictures" in takes:
        return
    for file in files:
        content = picture_content(Path(file), Findings.of(config.data))
        if content is not None:
            unit, remedy = spec_of(config.task).unit, suggest_task("pictures", Path(file))
            raise DataError(f"'{file}': {content.why}; {config.task} reads {unit}s{remedy}")
