"""The configuration of a run: typed sections, every field documented, unknown fields refused with a suggestion."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from heed.errors import ConfigError, suggest

__all__ = [
    "DatesData",
    "DigitsData",
    "EvaluationConfig",
    "ExtraData",
    "FilesData",
    "GenerationConfig",
    "GrammarData",
    "HubData",
    "ModelSection",
    "OwnData",
    "RunConfig",
    "Section",
    "TokenizerConfig",
    "TrainingConfig",
    "TranslationConfig",
    "apply_overrides",
    "check_section",
    "config_text",
    "read_config",
    "with_paths_from",
    "write_config",
]


class Section(BaseModel):
    """A part of the configuration; frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DatesData(Section):
    """Embedded data: dates as people write them in many languages, to ISO (`heed.data.dates`)."""

    name: Literal["dates"] = "dates"
    """Which embedded data."""
    languages: list[str] | Literal["all"] | None = None
    """CLDR codes of the languages to train on; about twenty by default."""
    unseen: list[str] | None = None
    """CLDR codes of languages kept for the score on languages never seen; a few by default."""
    styles: list[Literal["medium", "long", "full"]] = ["medium", "long", "full"]
    """CLDR date styles."""
    joined: int | tuple[int, int] = 1
    """Dates per example: a number, or [smallest, largest]; at most 6."""
    years: tuple[int, int] = (1900, 2099)
    """First and last year."""
    seed: int = 1
    """Seed of the generated examples."""
    train: int = Field(40_000, gt=0)
    """Number of training examples."""
    valid: int = Field(400, gt=0)
    """Number of validation examples (dates that training never sees)."""
    test: int = Field(1_000, gt=0)
    """Number of test examples, also of languages never seen."""


class DigitsData(Section):
    """Embedded data: digit strings to copy or to reverse (`heed.data.digits`)."""

    name: Literal["copy", "reverse"]
    """What to do with the string."""
    length: tuple[int, int] = (3, 12)
    """Smallest and largest number of digits."""
    seed: int = 1
    """Seed of the generated examples."""
    train: int = Field(40_000, gt=0)
    """Number of training examples."""
    valid: int = Field(400, gt=0)
    """Number of validation examples."""
    test: int = Field(1_000, gt=0)
    """Number of test examples."""


class GrammarData(Section):
    """Embedded data: sentences of a small grammar in English and another language (`heed.data.grammar`)."""

    name: Literal["grammar"] = "grammar"
    """Which embedded data."""
    language: Literal["es", "de", "hi"] = "es"
    """What English is translated into: Spanish, German or Hindi in Latin letters."""
    seed: int = 1
    """Seed of the generated examples."""
    train: int = Field(40_000, gt=0)
    """Number of training examples."""
    valid: int = Field(400, gt=0)
    """Number of validation examples (sentences that training never sees)."""
    test: int = Field(1_000, gt=0)
    """Number of test examples."""


class Columns(Section):
    """Where both sides stand in a file of columns."""

    source: int | str | None = None
    """Column of the source: a number from 0 or a name; 0 by default, "source" in JSON lines."""
    target: int | str | None = None
    """Column of the target: a number from 0 or a name; 1 by default, "target" in JSON lines."""


class ExtraData(Section):
    """A further training corpus, never held out: back-translations, another domain, crawled pairs."""

    files: list[str] = Field(min_length=1, max_length=2)
    """Two parallel files, source first, or one with both sides; relative to the configuration."""
    columns: Columns = Columns()
    """Where both sides stand in a file of columns."""
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)
    """How often a pair is seen in one pass over data.train: 0.5 is half of the corpus, drawn anew each pass, 2 is
    twice."""
    tag: str | None = None
    """Token put before the source of these pairs, as <bt> (Caswell et al. 2019); no text is ever cut into it."""

    @field_validator("files", mode="before")
    @classmethod
    def _one_file(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("tag")
    @classmethod
    def _unlike_text(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"<[^<>\s]+>", value):
            raise ValueError(f"data.extra tag is {value!r}, expected a name in angle brackets without blanks, as <bt>")
        if value in ("<pad>", "<unk>", "<s>", "</s>"):
            raise ValueError(f"data.extra tag {value} has a meaning already; choose another name, as <bt>")
        return value


class OwnData(Section):
    """Your own data, as far as all tasks share it: which files, and what becomes of lines that cannot be used."""

    train: list[str] = Field(min_length=1)
    """Training files. Relative to the configuration."""
    valid: list[str] | int | None = None
    """Validation files, or how many training examples to hold out; by default a twentieth, 200 to 1,000."""
    test: list[str] | None = None
    """Test files."""
    bad_lines: Literal["error", "skip"] = "error"
    """What becomes of a line that cannot be used (docs/data.md lists why): error stops at the first, skip leaves them
    out, counts them and says where the first are."""
    encoding: str = "utf-8"
    """How a line is read that is not UTF-8: windows-1252, iso-8859-2, gb18030 or another encoding that has ASCII in it;
    such lines are counted. utf-8 makes them bad lines."""
    max_line: int = Field(100_000, gt=0)
    """A line with more characters than this is a bad line."""
    duplicates: Literal["keep", "drop"] = "keep"
    """Training examples that stand there more than once: keep them all, or drop all but the first of each."""
    overlap: Literal["keep", "drop"] = "keep"
    """Training examples whose source or text stands in the validation or test set: keep them, or drop them."""

    @field_validator("train", "valid", "test", mode="before")
    @classmethod
    def _one_file(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("encoding")
    @classmethod
    def _has_ascii(cls, value: str) -> str:
        probe = 'Az09 ,"\\u0041-\t\n'
        try:
            same = probe.encode("ascii").decode(value) == probe
        except (LookupError, UnicodeError):
            same = False
        if not same:
            wide = (
                "; convert the file (iconv -f UTF-16 -t UTF-8)" if value.lower().startswith(("utf-16", "utf16")) else ""
            )
            raise ValueError(
                f"data.encoding is {value!r}, expected an encoding that Python knows and that has ASCII in it, as "
                f"windows-1252, iso-8859-2, koi8-r, gb18030, euc-kr{wide}"
            )
        return value

    @property
    def name(self) -> str:
        """What to call the data: the first training file without its endings, or its folder where it is "train"."""
        path = Path(self.train[0]).absolute()
        stem = path.name.split(".")[0]
        return (path.parent.name if stem in ("", "train") else stem) or "data"


class FilesData(OwnData):
    """Your own pairs, in two parallel files or in one file of columns (`heed.data.readers`)."""

    train: list[str] = Field(min_length=1, max_length=2)
    """Training files: two parallel ones, source first, or one with both sides. Relative to the configuration."""
    columns: Columns = Columns()
    """Where both sides stand in a file of columns."""
    extra: list[ExtraData] = []
    """Further training corpora, weighted and perhaps tagged; their pairs are never held out."""
    max_length: int = Field(250, gt=0)
    """Training pairs with more tokens than this on a side are left out, and counted."""
    in_memory: int = Field(100_000, ge=0)
    """Splits with more pairs than this are kept in the cache folder (HEED_CACHE), not in memory."""
    stream: bool = False
    """Read data.train forward, without end, and never hold it; data.valid is then files, or how many of the first
    pairs to hold out (1,000 by default)."""
    window: int = Field(100_000, gt=0)
    """Pairs of a stream that are shuffled and batched together; one window is one pass."""

    @model_validator(mode="after")
    def _of_a_stream(self) -> Self:
        if self.stream and self.extra:
            raise ValueError(
                "data.stream is true and data.extra names further corpora; a weight is counted in passes over "
                "data.train, and a stream has none: join the files, or leave one of the two fields out"
            )
        if self.stream and self.duplicates == "drop":
            raise ValueError(
                "data.stream is true and data.duplicates drop; what a stream said before is not held, so that repeats "
                "are not known: leave one of the two fields out"
            )
        if not self.stream and self.window != type(self).model_fields["window"].default:
            raise ValueError(f"data.window is {self.window}, but only a stream has windows; add data.stream=true")
        return self


class HubData(FilesData):
    """Pairs of a data set of the Hugging Face Hub (`heed.data.hub`): all fields of your own files, and these."""

    hub: str
    """Name of the data set, as user/name; or a folder that the `datasets` library can read."""
    config: str | None = None
    """Which of its configurations, where it has several."""
    revision: str | None = None
    """Branch, tag or commit of the data set; the newest by default."""
    train: list[str] = Field(["train"], min_length=1, max_length=1)
    """Split to train on, also a part of one as train[:1000]."""
    valid: list[str] | int | None = None
    """Split to validate on, or how many training pairs to hold out; by default its split validation, if it has one."""
    test: list[str] | None = None
    """Split to test on; by default its split test, if it has one."""

    @field_validator("encoding")
    @classmethod
    def _no_bytes(cls, value: str) -> str:
        if value != "utf-8":
            raise ValueError(f"data.encoding is {value!r}, but a data set of the Hub holds texts, not bytes")
        return value

    @model_validator(mode="after")
    def _no_stream(self) -> Self:
        if self.stream:
            raise ValueError(f"data.stream is true, but only files are read as a stream, not data.hub '{self.hub}'")
        return self

    @property
    def name(self) -> str:
        """What to call the data."""
        return Path(self.hub).name or "data"


class TokenizerConfig(Section):
    """How text becomes tokens."""

    from_: str | None = Field(None, alias="from")
    """Run whose tokenizers are taken as they are, with all fields here but sampling; new ones by default."""
    kind: Literal["auto", "char", "word", "bpe", "unigram"] = "auto"
    """A token is a Unicode character, a word or a subword; auto is word for grammar, char for other embedded data, bpe
    for files."""
    vocab_size: int | None = Field(None, gt=4)
    """Largest vocabulary of each side, four special tokens included; by default chosen from the amount of data."""
    min_count: int = Field(2, gt=0)
    """How often a word must occur in training to be in the vocabulary (word only)."""
    shared: bool = False
    """One vocabulary for both sides."""
    lowercase: bool | Literal["source"] = False
    """Read and write lower case only; "source" reads lower case and writes both."""
    normalization: Literal["none", "nfc", "nfkc"] = "nfc"
    """Unicode normalisation of what is read and written."""
    sampling: float = Field(0.0, ge=0, lt=1)
    """Subword sampling in training: share of merges dropped (bpe), or temperature 1 of sampling cuts (unigram)."""


class ModelSection(BaseModel):
    """Which model; all other fields are the model's own (`heed models` lists them)."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    name: str = "bahdanau"
    """File in `heed/models`."""
    size: Literal["auto", "scarce", "tiny", "small", "base"] = "auto"
    """Named size; base is the paper's, scarce is for a few thousand pairs of text (where the model has it), auto is
    chosen from the amount of data."""
    from_: str | None = Field(None, alias="from")
    """Run to start from: its weights where name and shape fit, its embeddings by token; its name, size and fields
    where others are not given."""


class TrainingConfig(Section):
    """How the model is trained."""

    minutes: float | None = Field(None, gt=0)
    """Time budget, evaluation included; the number of updates is fitted to it once, from measured speed."""
    steps: int | None = Field(None, gt=0)
    """Number of updates; overrides minutes. A run given in steps is the one that repeats bit for bit."""
    seed: int = 1
    """Seed of initial weights, order of the data and dropout."""
    threads: int | None = Field(None, gt=0)
    """Processor threads; by default the faster of a few counts in a half-second probe."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""
    deterministic: bool = False
    """On a GPU: choose kernels whose sums repeat bit for bit, which may be slower. On a CPU they always do."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """Precision of the forward pass; auto is bf16 on a GPU that has it, float32 elsewhere."""
    batch_tokens: int = Field(2_000, gt=0)
    """Source and target tokens of one batch, padding included."""
    accumulate: int = Field(1, gt=0)
    """Batches per update; the gradient is that of one batch of all of them."""
    micro_batches: int | None = Field(None, gt=0)
    """Into how many a batch is divided, which go through the model one after the other: the gradient is that of the
    batch, and memory holds what one of them leaves for the way back. By default as many as keep that under 100 MiB,
    where the model is made of blocks and trained on a CPU, and 1 elsewhere (steps of fewer rows slow recurrent nets
    down)."""
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    """Optimiser."""
    learning_rate: float = Field(0.003, gt=0)
    """Largest learning rate."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.0, ge=0)
    """Decay of matrices towards zero (not of biases and vectors)."""
    schedule: Literal["constant", "inverse_sqrt", "cosine"] = "cosine"
    """Course of the learning rate after the warm-up."""
    warmup: int = Field(100, ge=0)
    """Updates over which the learning rate rises from zero."""
    clip: float | None = Field(1.0, gt=0)
    """Largest norm of the gradient; null for no clipping."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Probability spread evenly over the vocabulary in the training target."""
    validate_every: int | None = Field(None, gt=0)
    """Updates between validations; by default a twelfth of the run."""
    activation_checkpointing: bool = False
    """Keep of each block its input only, and compute its inside again on the way back: less memory, more time, the same
    gradients. For models that have blocks (transformer, encoder)."""
    compile: bool = False
    """Let torch compile the model's forward and backward pass, which takes a minute or more; needs a C++ compiler on a
    CPU, triton on a GPU. See docs/performance.md for what it gives."""
    save_minutes: float = Field(5.0, gt=0)
    """A checkpoint is written after each validation, and when this much time has passed since the last one."""
    patience: int | None = Field(None, gt=0)
    """Stop after this many validations without a better score; null for never."""
    average: int = Field(1, gt=0)
    """Average the weights of this many last checkpoints, and keep the average if it validates better than the best."""

    @model_validator(mode="before")
    @classmethod
    def _budget(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("minutes") is None and values.get("steps") is None:
            return {**values, "minutes": 2.0}
        return values


class TranslationTraining(TrainingConfig):
    """How a translation model is trained."""

    guided_attention: float = Field(0.0, ge=0)
    """Weight of a loss that holds the attention to the source to a word alignment, which is learned from the training
    pairs beforehand; not with tokenizer.sampling."""


class GenerationConfig(Section):
    """How the model writes."""

    beam_size: int = Field(1, gt=0)
    """Sequences kept per source; 1 is greedy."""
    length_penalty: float = Field(1.0, ge=0)
    """Hypotheses are compared by log-probability / length ** length_penalty."""
    min_length: int = Field(0, ge=0)
    """Smallest number of tokens."""
    max_length: int | None = Field(None, gt=0)
    """Largest number of tokens; by default what the data needs: 1.5 times the longest training target, and 20."""
    replace_unknown: bool = True
    """A word model writes, for a word it does not know, the source word it looked at most (word tokenizers only)."""


class EvaluationConfig(Section):
    """How a model is scored."""

    select_by: str = "auto"
    """Validation score that chooses the best checkpoint; each task has its own."""
    bootstrap: int = Field(1_000, gt=0)
    """Resamples of the test set for the intervals."""


class TranslationEvaluation(EvaluationConfig):
    """How a translation is scored."""

    select_by: Literal["auto", "exact_match", "token_accuracy", "chrf", "bleu", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is exact_match for embedded data, else chrf."""


def _data_kind(value: Any) -> str:
    """Which class a `data` section is: embedded data has a name, files do not."""
    if isinstance(value, BaseModel):
        return next((kind for kind, section in _DATA_KINDS.items() if type(value) is section), "files")
    if isinstance(value, dict) and "hub" in value:
        return "hub"
    name = value.get("name") if isinstance(value, dict) else None
    if name is None:
        return "files"
    return _EMBEDDED.get(name, "unknown") if isinstance(name, str) else "unknown"


_EMBEDDED = {"copy": "digits", "dates": "dates", "grammar": "grammar", "reverse": "digits"}
"""Name of embedded data -> kind of its section."""

_DATA_KINDS: dict[str, type[BaseModel]] = {
    "dates": DatesData,
    "digits": DigitsData,
    "grammar": GrammarData,
    "files": FilesData,
    "hub": HubData,
}


class RunConfig(Section):
    """Everything that decides a run, as far as all tasks share it; each task has a class of its own."""

    task: str
    """What is learned: translation (where nothing is said), classification, tagging, table or series."""
    data: Any
    """Where the examples come from; each task has its own."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How text becomes tokens."""
    model: ModelSection = ModelSection()
    """Which model."""
    training: TrainingConfig = TrainingConfig(minutes=2.0)
    """How it is trained."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """How it is scored."""


class TranslationConfig(RunConfig):
    """Everything that decides a run of translation."""

    task: Literal["translation"] = "translation"
    """What is learned."""
    data: Annotated[
        Annotated[DatesData, Tag("dates")]
        | Annotated[DigitsData, Tag("digits")]
        | Annotated[GrammarData, Tag("grammar")]
        | Annotated[FilesData, Tag("files")]
        | Annotated[HubData, Tag("hub")],
        Discriminator(_data_kind),
    ]
    """Where the examples come from."""
    training: TranslationTraining = TranslationTraining(minutes=2.0)
    """How it is trained."""
    generation: GenerationConfig = GenerationConfig()
    """How it writes."""
    evaluation: TranslationEvaluation = TranslationEvaluation()
    """How it is scored."""

    @model_validator(mode="after")
    def _one_case(self) -> Self:
        if self.tokenizer.shared and self.tokenizer.lowercase == "source":
            raise ValueError(
                "tokenizer.lowercase is 'source', but tokenizer.shared makes both sides one; set one of them to false"
            )
        return self

    @model_validator(mode="after")
    def _one_cut_to_align(self) -> Self:
        if self.training.guided_attention and self.tokenizer.sampling:
            raise ValueError(
                f"training.guided_attention is {self.training.guided_attention} and tokenizer.sampling "
                f"{self.tokenizer.sampling}; an alignment holds for one cut of a text into tokens: set one of them to 0"
            )
        return self

    @model_validator(mode="after")
    def _a_look_at_what_is_kept(self) -> Self:
        if self.training.guided_attention and self.training.activation_checkpointing:
            raise ValueError(
                f"training.guided_attention is {self.training.guided_attention} and training.activation_checkpointing "
                "true; what guides attention looks into every block, so nothing could be left out: set one of them to "
                "0 or false"
            )
        return self

    @model_validator(mode="after")
    def _an_end_to_align(self) -> Self:
        if self.training.guided_attention and isinstance(self.data, FilesData) and self.data.stream:
            raise ValueError(
                f"training.guided_attention is {self.training.guided_attention} and data.stream true; words are "
                "aligned over the whole corpus, and a stream has no end: set one of them to 0 or false"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _one_kind_of_data(cls, values: Any) -> Any:
        data = values.get("data") if isinstance(values, dict) else None
        if isinstance(data, dict) and "name" in data and isinstance(data.get("train"), str | list):
            raise ValueError(
                f"data.name '{data['name']}' means embedded data and data.train {data['train']} your own files; "
                "give one of the two"
            )
        return values


S = TypeVar("S", bound=BaseModel)


def check_section(kind: type[S], values: dict[str, Any], where: str) -> S:
    """Build a section, with errors that name the field, the value and what would be right.

    Args:
        kind: The section's class.
        values: What the user wrote.
        where: What messages call the place: a file, "the command line", "model".

    Raises:
        ConfigError: All problems, one line each.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        lines = [_explain(problem, kind) for problem in error.errors()]
        raise ConfigError(f"{where}: " + "; ".join(lines)) from None


def _explain(problem: Any, kind: type[BaseModel]) -> str:
    loc, kinds = problem["loc"], _data_kinds(kind)
    # pydantic names the chosen member of a union in it, which users never wrote
    path = [part for n, part in enumerate(loc) if not (n == 1 and loc[0] == "data" and part in kinds)]
    name = ".".join(str(part) for part in path)
    if problem["type"] == "extra_forbidden":
        valid = _fields_at(kind, loc[:-1])
        owner = "" if len(path) > 1 else f" for {kind.__name__}"
        return f"unknown field '{name}'{owner}{suggest(str(path[-1]), valid)}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    if problem["type"] == "missing":
        return f"field '{name}' is missing"
    if problem["type"] in ("union_tag_invalid", "union_tag_not_found"):
        given = problem["input"].get("name") if isinstance(problem["input"], dict) else problem["input"]
        hint = suggest(str(given), [name for member in kinds.values() for name in _embedded_names(member)])
        return f"{name}.name is {given!r}{hint} (your own files go into {name}.train)"
    return f"{name} is {problem['input']!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _data_kinds(kind: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The classes that a `data` section may be, by the tags of their union."""
    if "data" not in kind.model_fields:
        return {}
    members = [get_args(member) for member in get_args(kind.model_fields["data"].annotation)]
    return {tag.tag: member for member, *marks in members for tag in marks if isinstance(tag, Tag)}


def _embedded_names(kind: type[BaseModel]) -> tuple[str, ...]:
    """What embedded data of a class may be called; nothing for files."""
    return get_args(kind.model_fields["name"].annotation) if "name" in kind.model_fields else ()


def _fields_at(kind: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    """Names of the fields of the section at a path."""
    kinds = _data_kinds(kind)
    for part in path:
        if part in kinds:
            kind = kinds[part]
        elif part in kind.model_fields:
            annotation = kind.model_fields[part].annotation
            annotation = get_args(annotation)[0] if get_origin(annotation) is list else annotation
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                kind = annotation
    names = [field.alias or name for name, field in kind.model_fields.items()]
    return [*names, *(["name"] if kind is FilesData else [])]


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a YAML file into plain values.

    Raises:
        ConfigError: The file is missing, is not YAML, or does not hold fields.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"no file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read '{path}': {error}") from None
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}{where} is not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {type(values).__name__}, expected fields such as 'task: translation'")
    return with_paths_from(values, Path(path).absolute().parent)


def with_paths_from(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Values whose data files are relative to a folder, with absolute paths: a run must find them from anywhere."""
    model = values.get("model")
    if isinstance(model, dict) and isinstance(model.get("word_vectors"), str):
        values = {**values, "model": {**model, "word_vectors": str(folder / model["word_vectors"])}}
    data = values.get("data")
    if not isinstance(data, dict) or "name" in data:
        return values

    def absolute(given: Any) -> Any:
        if isinstance(given, list):
            return [absolute(one) for one in given]
        return str(folder / given) if isinstance(given, str) else given

    if "hub" not in data:
        files = {key: absolute(data[key]) for key in ("train", "valid", "test") if key in data}
    else:  # these are names of splits; the data set itself may be a folder
        files = {"hub": absolute(data["hub"])} if (folder / str(data["hub"])).is_dir() else {}
    if isinstance(data.get("extra"), list):
        files["extra"] = [
            {**one, "files": absolute(one["files"])} if isinstance(one, dict) and "files" in one else one
            for one in data["extra"]
        ]
    return {**values, "data": {**data, **files}}


def apply_overrides(values: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Apply `section.key=value` words from a command line; values are YAML.

    Raises:
        ConfigError: A word has no '='.
    """
    result = yaml.safe_load(yaml.safe_dump(values)) or {}
    for word in overrides:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"'{word}' is neither a file nor section.key=value")
        *sections, key = name.split(".")
        place = result
        for section in sections:
            if place.get(section) is None:  # absent, or a heading with nothing under it
                place[section] = {}
            place = place[section]
            if not isinstance(place, dict):
                raise ConfigError(f"'{word}': '{section}' is not a section")
        try:
            place[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"'{word}': {text!r} is not YAML: {getattr(error, 'problem', error)}") from None
    return result


def write_config(config: RunConfig, path: Path) -> None:
    """Write a configuration with every default in it."""
    path.write_text(config_text(config), encoding="utf-8")


def config_text(config: RunConfig) -> str:
    """The configuration as YAML, every default written."""
    return yaml.safe_dump(config.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)
