"""Configuration sections of every task: frozen, every field documented, unknown fields refused; and their errors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from heed.errors import ConfigError, refuse_huge, suggest


@dataclass(frozen=True)
class IsPath:
    """Marks a field as a path relative to its file; with `if_folder`, only if there is such a folder."""

    if_folder: bool = False


DataPath = Annotated[str, IsPath()]
"""A file or folder; `with_paths_from` makes it absolute."""


def listed(value: Any) -> Any:
    """Allow one text where a list of them is expected."""
    return [value] if isinstance(value, str) else value


def from_left_to_right(why: str) -> Callable[[Any], Any]:
    """A validator of a whole configuration that refuses models that read from the end."""

    def check(values: Any) -> Any:
        model = values.get("model") if isinstance(values, dict) else None
        for field in ("bidirectional", "backward"):
            if isinstance(model, dict) and model.get(field) is True:
                raise ValueError(f"model.{field} is true, but {why}; leave the field out to read from left to right")
        return values

    return check


class Section(BaseModel):
    """A part of the configuration; frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class TokenizerConfig(Section):
    """Tokenization of texts."""

    from_: str | None = Field(None, alias="from")
    """Run whose tokenizers are used, with all fields here; by default new ones are trained."""
    kind: Literal["auto", "char", "byte", "word", "bpe", "unigram", "byte_bpe", "wordpiece"] = "auto"
    """A token is a Unicode character, a byte, a word or a subword (byte_bpe: of bytes, so that nothing is unknown;
    wordpiece: as in BERT, for models that only read); auto is word for grammar, char for other embedded data, bpe for
    files, and in classification word, or unigram for scripts without spaces (Thai, Lao, Burmese, Khmer). In word, bpe
    and unigram, texts are split at spaces, each punctuation mark is separate, and the output is detokenized text."""
    vocab_size: int | None = Field(None, gt=4)
    """Largest vocabulary of each side, including four special tokens; by default chosen from the amount of data: for
    subwords a quarter of the number of training texts, in steps of 500 from 1,000 to 8,000 (at least twice the number
    of different characters; byte_bpe at least 260); 30,000 for words; all characters; 260 for bytes."""
    min_count: int = Field(2, gt=0)
    """How often a word must occur in training to be in the vocabulary (word only)."""
    shared: bool = False
    """One vocabulary for both sides. Helps where they share names or an alphabet."""
    lowercase: bool | Literal["source"] = False
    """Read and write lower case only, and ignore case in BLEU and chrF; "source" reads lower case and writes both."""
    normalization: Literal["none", "nfc", "nfkc"] = "nfc"
    """Unicode normalisation of inputs and outputs; scores are of the references as they are in your files. With none,
    wordpiece has only BERT's normalisation."""
    strip_accents: bool | None = None
    """Read letters without their accents (wordpiece only); by default with lowercase, as BERT does."""
    clean_text: bool = True
    """Remove control characters and read every blank as a space (wordpiece only)."""
    chinese_characters: bool = True
    """Treat each Chinese character as a word (wordpiece only)."""

    @model_validator(mode="before")
    @classmethod
    def _without_removed_fields(cls, values: Any) -> Any:
        """Leave out removed fields that earlier runs have, where they had no effect, so that these runs still open."""
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if name not in ("sampling", "new_merges") or value != 0}

    @model_validator(mode="after")
    def _of_word_pieces(self) -> Self:
        if self.kind in ("auto", "wordpiece"):
            return self
        for name in ("strip_accents", "clean_text", "chinese_characters"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"tokenizer.{name} is for kind wordpiece, but tokenizer.kind is {self.kind}")
        return self


class ModelSection(BaseModel):
    """The model; all other fields are those of the model (`heed models NAME` lists them)."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    name: str = "bahdanau"
    """Name of the model: a file in `heed/models`."""
    size: Literal["auto", "scarce", "tiny", "small", "medium", "base", "large"] = "auto"
    """Named size: auto is chosen from the amount of data, base is the model's defaults, scarce is for a few thousand
    pairs of text; some models have scarce, medium or large (medium is below base in bert and vit). `heed models NAME`
    lists the sizes and the source of the defaults."""
    from_: str | None = Field(None, alias="from")
    """Run to start from: its weights where name and shape fit, its embeddings by token; its model name, size and fields
    unless others are given."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The fields of the body, and of the input and the head, that are known."""
        return self.model_extra or {}


class TrainingConfig(Section):
    """Training of the model."""

    minutes: float | None = Field(None, gt=0, le=10 * 366 * 24 * 60)
    """Time budget, including evaluation; the number of updates is planned from the measured speed."""
    steps: int | None = Field(None, gt=0)
    """Number of updates; overrides minutes. Only a run with a given number of steps is reproducible bit for bit."""
    epochs: float | None = Field(None, gt=0, le=1e9)
    """Passes over the training data; overrides steps and minutes, and is written into the run as its steps."""
    train_size: int | None = Field(None, gt=0)
    """Train on this many of the training examples, drawn at random by the seed with labels in the same shares; smaller
    draws are parts of larger ones. Validation and test sets are not reduced; null for all training examples."""
    seed: int = 1
    """Seed of initial weights, order of the data and dropout."""
    threads: int | None = Field(None, gt=0, le=1_024)
    """Processor threads; by default OMP_NUM_THREADS, or all cores for updates of at least 1e9 floating-point operations
    (two for each weight and position of a batch) and one for smaller ones, fewer on busy cores."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""
    deterministic: bool = False
    """On a GPU: choose kernels whose sums are reproducible bit for bit, which may be slower. On a CPU they always
    are."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """Precision of the forward pass; auto is bf16 on a GPU that supports it. On a CPU that multiplies bf16 (AVX-512
    BF16, AMX), under a time budget, updates that take over 0.05 s are timed in both, and bf16 is taken if it is 1.25
    times as fast. Elsewhere it is float32."""
    float32: Literal["highest", "high"] = "highest"
    """Precision of products of float32 matrices: with high, a GPU may use TF32, which has 10 bits of mantissa in place
    of 23. It is set for the whole process."""
    batch_tokens: int = Field(2_000, gt=0)
    """Source and target tokens of one batch, including padding; on a GPU 32,000 by default, or a
    hundredth of a pass if that is less, but no fewer than elsewhere."""
    accumulate: int = Field(1, gt=0)
    """Batches per update; the gradient is that of all of them as one batch."""
    micro_batches: int | None = Field(None, gt=0)
    """Number of parts of a batch that are computed one after the other: the gradient is that of the batch, but only the
    activations of one part are in memory for the backward pass. By default as many as keep these under 100 MiB if the
    model is made of blocks and trained on a CPU, else 1 (fewer rows slow recurrent networks down)."""
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    """Optimiser."""
    learning_rate: float = Field(0.003, gt=0)
    """Largest learning rate."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.0, ge=0)
    """Decay of matrices towards zero (not of biases and vectors)."""
    schedule: Literal["constant", "inverse_sqrt", "cosine"] = "cosine"
    """Schedule of the learning rate after the warm-up."""
    warmup: int | float | Literal["auto"] = "auto"
    """Updates over which the learning rate rises from zero: a number, or a share of the planned updates such as 0.05;
    auto is a tenth of them, at most 100. Under a time budget it is at most half of the planned updates."""
    layer_decay: float | None = Field(None, gt=0, le=1)
    """Factor of the learning rate from each layer of a pretrained body to the one below: the head has the whole rate,
    the last layer this share of it, the embeddings the smallest; 1 by default."""
    freeze: list[str] = []
    """Parts that are not trained: body, embeddings, layers<N (the first N layers), or the beginning of names of
    tensors, such as output or body.blocks.0."""
    unfreeze_every: int | None = Field(None, gt=0)
    """Gradual unfreezing: at first only the head is trained; after every this many updates one more layer of the body
    is, from the last one down, the embeddings last."""
    clip: float | None = Field(1.0, gt=0)
    """Largest norm of the gradient; null for no clipping."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Probability spread evenly over the vocabulary in the training target."""
    validate_every: int | None = Field(None, gt=0)
    """Updates between validations; by default a twelfth of the run."""
    activation_checkpointing: bool = False
    """Keep only the input of each block and recompute its activations in the backward pass: less memory, more time, the
    same gradients. For models made of blocks (transformer, encoder, bert, gpt, vit)."""
    compile: bool = False
    """Compile the model's forward and backward pass with torch, which takes a minute or more; needs triton on a GPU,
    and a C++ compiler on a CPU, where updates do not become faster."""
    save_minutes: float = Field(5.0, gt=0)
    """A checkpoint is written after each validation, and when this much time has passed since the last one."""
    snapshots: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    """Shares of the planned updates, such as [0.1, 0.5], after which the weights are kept in
    RUN/checkpoints/step-N: `heed.load(run, step=N)`."""
    patience: Annotated[int, Field(gt=0)] | Literal["auto"] | None = "auto"
    """Stop after this many validations without a better score; null for never. "auto" is never if steps are given;
    under a time budget it is after the task's number (3) in which the loss rose as well, and the learning rate falls to
    zero before training ends. Validations of the warm-up do not count."""
    log: Literal["tensorboard"] | None = None
    """Additional log of metrics, next to `metrics.jsonl`: tensorboard writes RUN/tensorboard (needs the extra
    `tensorboard`)."""
    average: int = Field(1, gt=0)
    """Average the weights of this many last checkpoints, and keep the average if it validates better than the best."""

    _one_part = field_validator("freeze", mode="before")(listed)

    @field_validator("warmup", mode="before")
    @classmethod
    def _number_or_share(cls, value: Any) -> Any:
        is_number = type(value) in (int, float) and 0 <= value < math.inf
        if value != "auto" and not (is_number and (value < 1 or value == int(value))):
            raise ValueError(f"training.warmup is {value!r}, expected a number of updates, a share below 1, or auto")
        return int(value) if is_number and not 0 < value < 1 else value

    @model_validator(mode="before")
    @classmethod
    def _budget(cls, values: Any) -> Any:
        if isinstance(values, dict) and all(values.get(name) is None for name in ("minutes", "steps", "epochs")):
            return {**values, "minutes": 2.0}
        return values


class SearchConfig(Section):
    """Search for the best output."""

    beam_size: int = Field(1, gt=0, le=1_000)
    """Outputs kept for each input by a beam search; 1 is greedy."""
    length_penalty: float = Field(1.0, ge=0, le=100)
    """Outputs are compared by log-probability / length ** length_penalty."""
    min_length: int = Field(0, ge=0, le=100_000)
    """Smallest number of tokens to write."""


class GenerationConfig(SearchConfig):
    """Generation of outputs."""

    max_length: int | None = Field(None, gt=0, le=100_000)
    """Largest number of tokens; by default 1.5 times the longest training target, plus 20. An output that reaches it
    before its end counts as `cut_off` in the scores and has `finished: false` in --json."""
    no_repeat_ngram: int = Field(0, ge=0, le=1_000)
    """No output has n tokens in a row twice, for this n; 0 allows all repetitions."""
    replace_unknown: bool = True
    """Replace an unknown word in the output by the source word with the largest weight, among those that the
    vocabulary lacks if there are any (word tokenizers only)."""


class EvaluationConfig(Section):
    """Scoring of the model."""

    select_by: str = "auto"
    """Validation score that chooses the best checkpoint; each task has its own scores."""
    bootstrap: int = Field(1_000, gt=0, le=1_000_000)
    """Resamples of the test set for the intervals."""


class WritingEvaluation(EvaluationConfig):
    """Scoring of a model that writes."""

    bleu_tokenize: Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] = "auto"
    """sacrebleu's tokenizer for BLEU. auto: zh if the training references are Chinese; ja-mecab, or char if that is not
    installed, if Japanese; char for other scripts without blanks (Thai, Lao, Khmer, Burmese); else 13a."""


class AugmentSection(Section):
    """Random changes of training pictures (`heed.data.pictures.sizing`), in this order.

    By default, sets of at most 10,000 pictures are cropped, and mirrored unless a label looks like text. Random draws
    depend only on the seed, the pass and the picture.
    """

    flip: bool = False
    """Mirror half of the pictures, left to right; by default in sets of at most 10,000 whose labels name no characters,
    numbers or directions."""
    crop: int = Field(0, ge=0)
    """Add a black border of this many pixels and crop the result to the picture's size at a random place; 4 is usual
    for pictures of 32 x 32 pixels, 0 is none. By default an eighth of the shorter side in sets of at most 10,000, but
    none for models of patches (vit)."""

    @property
    def changes_pictures(self) -> bool:
        """True if training pictures are changed."""
        return self.flip or self.crop > 0


class RunConfig(Section):
    """The configuration of a run: the sections that all tasks share; each task has its own subclass.

    It carries the reason of each value that was settled for the user (`heed.config.settling`), which is not written.
    """

    task: str
    """Name of the task (docs/tasks.md); translation by default."""
    data: Any
    """Source of the examples; each task has its own section."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """Tokenization of texts."""
    model: ModelSection = ModelSection()
    """The model."""
    training: TrainingConfig = TrainingConfig(minutes=2.0)
    """Training of the model."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Scoring of the model."""
    _reasons: dict[str, str] = PrivateAttr(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """True for equal settings, whoever decided them."""
        return type(self) is type(other) and dict(self) == dict(other)

    @property
    def reasons(self) -> Mapping[str, str]:
        """Field, such as "training.learning_rate" -> why it has its value, of those that were settled, in order."""
        return self._reasons

    def because(self, why: str, *fields: str) -> Self:
        """The same settings, with the reason of some."""
        explained = self.model_copy()
        explained._reasons = {**self._reasons, **dict.fromkeys(fields, why)}
        return explained

    def settle(self, why: str, values: Mapping[str, Any]) -> Self:
        """The configuration with the values of some fields, such as "training.learning_rate", and their reason."""
        sections: dict[str, dict[str, Any]] = {}
        for field, value in values.items():
            section, name = field.split(".")
            sections.setdefault(section, {})[name] = value
        update = {name: getattr(self, name).model_copy(update=fields) for name, fields in sections.items()}
        return self.model_copy(update=update).because(why, *values)

    def settle_open(self, why: str, values: Mapping[str, Any]) -> Self:
        """As `settle`, for those of the fields that were neither given nor settled before."""
        return self.settle(why, {field: value for field, value in values.items() if not self.has(field)})

    def has(self, field: str) -> bool:
        """True if a field was given or settled, rather than left at its default."""
        section, name = field.split(".")
        return name in getattr(self, section).model_fields_set

    @field_validator("model", mode="before")
    @classmethod
    def _of_any_task(cls, value: Any) -> Any:
        """Convert a section made in Python to the task's class, with the fields that were given."""
        return value.model_dump(by_alias=True, exclude_unset=True) if type(value) is ModelSection else value


class TextModelSection(ModelSection):
    """Which model; all other fields are the model's and the task's own (`heed models NAME` lists them)."""

    name: str = "rnn"
    """File in `heed/models`."""
    word_vectors: DataPath | None = None
    """File of word vectors (text format of word2vec, GloVe or fastText) that initialise the embeddings, relative to
    the configuration; only for word tokenizers. The embeddings have the vectors' width unless a width is given."""
    vector_words: bool = False
    """Add all words of that file to the vocabulary, so that words outside the training texts have vectors too; by
    default only words of the training texts have them. Best with train_embeddings=false."""
    train_embeddings: bool = True
    """Train the embeddings; if false, they keep their initial values."""


class TextTokenizerConfig(TokenizerConfig):
    """How text becomes tokens."""

    extend: bool = False
    """Add the characters (for kind word, the words) that the tokenizer of another run (tokenizer.from, or --from)
    lacks; its own tokens keep their numbers and weights."""


class TextConfig(RunConfig):
    """Configuration shared by the tasks over texts that one encoder reads."""

    tokenizer: TextTokenizerConfig = TextTokenizerConfig()
    """How text becomes tokens."""
    model: TextModelSection = TextModelSection()
    """Which model."""


C = TypeVar("C", bound=RunConfig)


def with_tokenizer(config: C, auto: str, subwords: Callable[[], int], words: int | None = 30_000) -> C:
    """The configuration with the kind and vocabulary size of the tokenizer set.

    A word vocabulary has all words that occur often enough, up to `words` unless that is None; `subwords` returns the
    size of others.
    """
    if config.tokenizer.kind == "auto":
        config = config.settle("usual for this data", {"tokenizer.kind": auto})
    kind = config.tokenizer.kind
    if config.tokenizer.vocab_size is None and kind not in ("char", "byte"):
        size = words if kind == "word" and words is not None else subwords()
        why = "the most words" if kind == "word" else "by the amount of text"
        config = config.settle(why, {"tokenizer.vocab_size": size})
    return config


def num_subwords(num_texts: int, num_characters: int) -> int:
    """The size of a subword vocabulary: a quarter of the texts, 1,000 to 8,000, but at least twice the characters."""
    return max(min(8_000, max(1_000, num_texts // 4 // 500 * 500)), 2 * num_characters)


S = TypeVar("S", bound=BaseModel)


def check_section(kind: type[S], values: dict[str, Any], where: str) -> S:
    """Build a section, with errors that name the field, the value and the valid values.

    Raises:
        ConfigError: All problems, one line each, after `where` (a file, "command line", "model").
    """
    _refuse_unwritable(values, where, ())
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        rules: dict[str, list[str]] = {}  # pydantic lists a problem for each type that a field may have
        for problem in error.errors():
            start, mark, rule = _explain(problem, kind).partition(", but must be ")
            rules.setdefault(start + mark, []).append(rule)
        problems = (start + " or ".join(expected) for start, expected in rules.items())
        raise ConfigError(f"{where}: {'; '.join(problems)}") from None


def _refuse_unwritable(value: Any, where: str, path: tuple[str, ...]) -> None:
    """Refuse what config.yaml or a tensor cannot hold: text that is not UTF-8, numbers beyond 64 bits."""
    if isinstance(value, dict | list | tuple):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _refuse_unwritable(item, where, (*path, str(key)))
    elif isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise ConfigError(f"{where}: {'.'.join(path)} is {value!a:.60}, which is not UTF-8, as config.yaml must be")
    elif isinstance(value, int):
        refuse_huge(f"{where}: {'.'.join(path)}", value)


def _explain(problem: Any, kind: type[BaseModel]) -> str:
    loc, kinds = problem["loc"], _data_kinds(kind)
    # pydantic adds the chosen member of a union to the path, which users never wrote
    path = [
        part
        for n, part in enumerate(loc)
        if not (n == 1 and loc[0] == "data" and part in kinds) and not _MEMBER.fullmatch(str(part))
    ]
    name = ".".join(str(part) for part in path)
    if problem["type"] == "extra_forbidden":
        # A field may belong to other data, such as an empty data.name.
        valid = [field for field in _fields_at(kind, loc[:-1]) if field != path[-1]]
        owner = "" if len(path) > 1 else f" for {kind.__name__}"
        return f"unknown field '{name}'{owner}{suggest(_OTHER_WORDS.get(path[-1], str(path[-1])), valid)}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    if problem["type"] == "missing":
        return f"field '{name}' is missing"
    if problem["type"] in ("union_tag_invalid", "union_tag_not_found"):
        name_given = problem["input"].get("name") if isinstance(problem["input"], dict) else problem["input"]
        names = _embedded(kinds)
        hint = suggest(str(name_given), names) if names else ", but there is no embedded data for this task"
        return f"{name}.name is {name_given!r}{hint} (your own files go into {name}.train)"
    if problem["type"] == "model_type":
        first = next((field for field in ("name", "kind") if field in _fields_at(kind, loc)), None)
        example = f", such as {name}: {{{first}: {problem['input']}}}" if first else ""
        return f"{name} is {_written(problem['input'])}, but must be a section of fields{example}"
    return f"{name} is {_written(problem['input'])}{_expected(problem)}"


_OTHER_WORDS = {"updates": "steps", "lr": "learning_rate"}
"""Names of fields in other programs."""
_MEMBER = re.compile(r"(literal|dict|list|tuple)\[.*\]|(constrained|function)-.*|int|float|str|bool")
"""Name that pydantic gives to a member of a union of plain types."""
_KINDS = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "string": "text",
    "model": "a section of fields",
    "dict": "a mapping, such as {name: value}",
    "list": "a list",
    "tuple": "a list",
}


def _written(value: Any) -> str:
    """A value as in YAML, where that differs from Python."""
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)


def _expected(problem: Any) -> str:
    """The valid values, as a continuation of "NAME is VALUE"."""
    kind, _, how = problem["type"].partition("_")
    if kind in _KINDS and how in ("parsing", "type", "from_float"):
        is_item = _KINDS[kind] == "a list" and isinstance(problem["input"], str)
        return f", but must be {_KINDS[kind]}" + (f", such as [{problem['input']}]" if is_item else "")
    message = problem["msg"]
    subject, _, rule = message.partition(" should ")
    if subject in ("Input", "List", "Dictionary"):
        return f", but must {rule.partition(' after validation')[0]}"
    return f": {message[0].lower()}{message[1:]}"


def _data_kinds(kind: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The classes of a `data` section by source (`heed.config.data.Sources`)."""
    marks = kind.model_fields["data"].metadata if "data" in kind.model_fields else []
    return next((mark.classes for mark in marks if hasattr(mark, "classes")), {})


def _embedded(kinds: Collection[str]) -> list[str]:
    """The names of embedded data among the sources of a task."""
    return [name for name in kinds if name not in ("files", "hub", "memory")]


def sections_with(kind: type[RunConfig], name: str) -> list[str]:
    """The sections of a configuration that have a field of this name, `data` last."""
    classes = {section: [field.annotation] for section, field in kind.model_fields.items() if section != "data"}
    classes["data"] = [*_data_kinds(kind).values()]
    return [key for key, kinds in classes.items() if any(name in getattr(each, "model_fields", ()) for each in kinds)]


def _fields_at(kind: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    """Names of the fields of the section at a path."""
    kinds = _data_kinds(kind)
    for part in path:
        if part in kinds:
            kind = kinds[part]
        elif part in kind.model_fields:
            annotation = kind.model_fields[part].annotation
            while get_origin(annotation) in (list, UnionType):  # items of a list; a section that may be left out
                annotation = get_args(annotation)[0]
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                kind = annotation
    names = [field.alias or name for name, field in kind.model_fields.items()]
    if kind is kinds.get("files"):  # its class lacks the fields that choose another source
        names += [*(["name"] if _embedded(kinds) else []), *(["hub"] if "hub" in kinds else [])]
    return names
