"""Sources of data: files, data sets of the Hub, data passed in Python, embedded data.

A kind of example has one class, derived from `Source`, which declares every option of its data; it is never used
itself. `Sources` makes a class of it for each source that a task has, with the fields that apply to that source.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import Field, GetCoreSchemaHandler, create_model, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from heed.config.sections import C, DataPath, IsPath, Section, listed

OWN = "files hub memory"
"""Sources of the user's own data; all others are embedded data, by name."""


@dataclass(frozen=True)
class Only:
    """Marks a field that only some sources or tasks have: those of `names`, separated by blanks.

    It also applies to a source whose defaults, as given to `Sources`, contain it.
    """

    names: str = ""


def section(*columns: str, **fields: tuple[Any, Any]) -> Any:
    """The fields of a section within `data`, as the default of a field of type Any.

    `columns` are numbers or names of columns, or None; other fields have a type and a default. The docstring of the
    field documents the section, in its first paragraph, and the section's fields, in a list.
    """
    return {**dict.fromkeys(columns, (int | str | None, None)), **fields}


_MADE = {"use_attribute_docstrings": False}
"""Configuration of classes made by a function, which have no source code to read docstrings from."""


def section_class(about: str, fields: Mapping[str, tuple[Any, Any]]) -> Any:
    """The class of a section, documented by a paragraph and a list of `- field: meaning`."""
    first, *items = re.split(r"\n+- (?=\w+: )", about.strip())
    meanings = dict(item.split(": ", 1) for item in items)
    described = {name: (kind, Field(default, description=meanings[name])) for name, (kind, default) in fields.items()}
    return create_model("DataSection", __base__=Section, __doc__=first, __cls_kwargs__=_MADE, **described)  # type: ignore[call-overload]


HeldSplit = TypedDict("HeldSplit", {"examples": Annotated[int, Field(ge=0)], "content": str})  # noqa: UP013  # a record
"""The record of the data passed in Python for one split: number of examples, and a hash of them in their order."""
Columns = section_class(
    """Columns of both sides in a file of columns.
- source: Column of the source: a number from 0 or a name; 0 by default, "source" in JSON lines.
- target: Column of the target: a number from 0 or a name; 1 by default, "target" in JSON lines.""",
    section("source", "target"),
)


class Source(Section, defer_build=True):  # built where it is used
    """A source of examples: the fields of every kind of data."""

    origin: ClassVar[str] = ""
    """The source: files, hub, memory (data passed in Python), or the name of embedded data."""
    labelled: ClassVar[bool] = False
    """Whether examples have labels."""

    name: str = ""
    """Name of the embedded data."""
    hub: Annotated[str, IsPath(if_folder=True), Only("hub")]
    """Name of the data set, as user/name; or a folder that the `datasets` library can read."""
    config: Annotated[str | None, Only("hub")] = None
    """Name of a configuration of the data set, if it has several."""
    revision: Annotated[str | None, Only("hub")] = None
    """Branch, tag or commit of the data set; the newest by default."""
    memory: Annotated[dict[str, HeldSplit], Only("memory")]
    """By split, the number of examples passed in Python, and their content: a hash of them in their order, by which a
    resumed run recognises them. Written by `heed.train`."""
    imported: Annotated[str | None, Only("memory")] = None
    """Name of the checkpoint that the run was imported from, written by `heed import`; such a run has no data."""
    train: list[DataPath] = Field(min_length=1)
    """Training files, in some tasks also folders, relative to the configuration; several are read one after the other.
    Of a data set of the Hub its split, or a part of it such as train[:1000]; of embedded data the number of
    examples."""
    valid: list[DataPath] | int | None = None
    """Validation files, or the number of training examples to hold out; by default a twentieth, 200 to 1,000. Never
    more than a fifth, nor, beyond 50, more than a tenth of examples with labels; chosen by a hash of the source or
    text. Of a data set of the Hub its split, by default validation if it has one; of embedded data the number of
    examples."""
    test: list[DataPath] | None = None
    """Test files. Of a data set of the Hub its split, by default test if it has one; of embedded data the number of
    examples."""
    seed: Annotated[int, Only()] = 1
    """Seed of the generated examples."""
    bad_lines: Annotated[Literal["error", "skip"], Only(OWN)] = "error"
    """Treatment of unusable lines (docs/data.md lists the reasons): error stops at the first, skip leaves them out,
    counts them and lists the first ones."""
    encoding: Annotated[str, Only(OWN)] = "utf-8"
    """Encoding of lines that are not UTF-8: windows-1252, iso-8859-2, gb18030 or another that includes ASCII; such
    lines are counted. With utf-8 they are bad lines. Decided line by line: a line in UTF-8 is always read as UTF-8."""
    max_line: Annotated[int, Only(OWN)] = Field(1_000_000, gt=0, le=1 << 27)
    """A line with more characters than this is a bad line; a line may be a whole document."""
    duplicates: Annotated[Literal["keep", "drop"], Only(OWN)] = "keep"
    """Repeated training examples: keep them all, or drop all but the first of each."""
    overlap: Annotated[Literal["keep", "drop"], Only(OWN)] = "keep"
    """Training examples whose source or text is in the validation or test set: keep or drop them."""

    @field_validator("train", "valid", "test", mode="before")
    @classmethod
    def _one_file(cls, value: Any) -> Any:
        return listed(value) if cls.origin in OWN.split() else value  # of embedded data these are numbers

    @property
    def is_embedded(self) -> bool:
        """True for data that comes with heed."""
        return self.origin not in OWN.split()

    @property
    def not_kept(self) -> str:
        """Error message for a command that needs data passed in Python, which was not passed."""
        if self.imported is not None:
            return (
                f"this run was imported from {self.imported} and has no data; to score it, give files: heed evaluate "
                "RUN FILE; to train it further, start a run from it: heed train TASK FILE --from RUN"
            )
        held = ", ".join(f"{name} {split['examples']:,}" for name, split in self.memory.items())
        return (
            f"the data was passed in Python{f' (examples: {held})' if held else ''} and is not stored in the run "
            "folder; to score the run, give files (heed evaluate RUN FILE) or examples (run.evaluate(examples)); to "
            "resume it, pass the same data to heed.train in Python, with out= and resume=True"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, which finds classes by their names in a module, where those made by a function have none."""
        return _loaded, (type(self).__base__, type(self).__name__, self.model_dump(exclude_unset=True))

    @field_validator("encoding", check_fields=False)
    @classmethod
    def _has_ascii(cls, value: str) -> str:
        probe = 'Az09 ,"\\u0041-\t\n'
        try:
            same = probe.encode("ascii").decode(value) == probe
        except (LookupError, UnicodeError):
            same = False
        if not same:
            wide = value.lower().startswith(("utf-16", "utf16"))
            raise ValueError(
                f"data.encoding is {value!r}, expected an encoding that Python knows and that includes ASCII, such as "
                "windows-1252, iso-8859-2, koi8-r, gb18030, euc-kr"
                + ("; convert the file (iconv -f UTF-16 -t UTF-8)" if wide else "")
            )
        return value

    @model_validator(mode="after")
    def _of_files(self) -> Self:
        """Refuse options of files for data that is not read from files."""
        others = {"hub": "the data is a data set of the Hub", "memory": "the data was passed in Python"}
        for field in ("format", "separator", "encoding") if self.origin in others else ():
            kind = type(self).model_fields.get(field)
            if kind is not None and (value := getattr(self, field)) != kind.default:
                raise ValueError(
                    f"data.{field} is {value!r}, which applies to files, but {others[self.origin]}; leave it out"
                )
        return self


def _loaded(kind: type[Source], name: str, values: dict[str, Any]) -> Source:
    """A pickled section, of a class that `Sources` made of a kind of data."""
    return next(made for made in kind.__subclasses__() if made.__name__ == name).model_validate(values)


def _name(data: Source) -> str:
    """Name of a user's own data: the first training file without its endings, or its folder if the file is "train"."""
    if data.origin == "memory":
        return "memory" if data.imported is None else PurePath(data.imported).name
    if data.origin == "hub":
        return Path(data.hub).name or "data"
    path = Path(data.train[0]).absolute()
    stem = path.name.split(".")[0]
    return (path.parent.name if stem in ("", "train") else stem) or "data"


class Sources:
    """Marks the `data` field of a configuration, whose type is a kind of data: the sources that the task has.

    Attributes:
        classes: The class of `data` by source: files, memory, hub, and embedded data by name.
    """

    def __init__(
        self,
        kind: type[Source],
        task: str = "",
        *,
        hub: bool = False,
        own: Mapping[str, Any] | None = None,
        without: str = "",
        **embedded: Mapping[str, Any],
    ) -> None:
        """Make the classes.

        Args:
            kind: The kind of data.
            task: The task, for fields that only some tasks have.
            hub: Whether data sets of the Hub can be read.
            own: Defaults of the user's own data that differ in this task.
            without: Fields of the kind that the task lacks.
            embedded: Embedded data by name, with its defaults.
        """
        sources = {**dict.fromkeys(["files", "memory", *(["hub"] if hub else [])], own or {}), **embedded}
        self.classes = {source: _class_of(kind, source, task, without, given) for source, given in sources.items()}

    def source(self, value: Any) -> str:
        """The source that a `data` section means, as values or checked."""
        if isinstance(value, Source):
            return value.origin
        named = value if isinstance(value, dict) else {}
        if source := next((one for one in ("memory", "hub") if one in named and one in self.classes), None):
            return source
        name = str(named.get("name") or "files")
        return name if named.get("name") is None or name not in OWN.split() else "unknown"

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {source: handler.generate_schema(one) for source, one in self.classes.items()}
        return core_schema.tagged_union_schema(choices, self.source)


def generated(train: int, valid: int, test: int, **others: Any) -> dict[str, Any]:
    """Defaults of embedded data that is drawn from a seed: the sizes of its sets, and others."""
    return {"train": train, "valid": valid, "test": test, "seed": 1, **others}


def _class_of(kind: type[Source], source: str, task: str, without: str, defaults: Mapping[str, Any]) -> type[Source]:
    """The class of a kind of data for one source: fields that do not apply are constants, with their defaults."""
    fields: dict[str, Any] = {"origin": (ClassVar[str], source)}
    for name, field in kind.model_fields.items():
        annotation, default, limits = _as_of(source, name, field)
        only = [mark.names for mark in limits if isinstance(mark, Only)]
        applies = not only or name in defaults or {source, task} & set(only[0].split())
        if name == "name" and source in OWN.split():
            fields[name] = ClassVar[Any], property(_name)
        elif name in without.split() or not applies:
            fields[name] = ClassVar[Any], None if default is ... else default
        else:
            about = Field(description=(field.description or "").partition("\n\n")[0])
            fields[name] = Annotated[(annotation, about, *limits)], defaults.get(name, default)
    made = f"{kind.__name__}[{', '.join(filter(None, (source, task)))}]"
    about = {"__doc__": kind.__doc__, "__module__": kind.__module__, "__cls_kwargs__": _MADE}
    return create_model(made, __base__=kind, **about, **fields)


def _as_of(source: str, name: str, field: FieldInfo) -> tuple[Any, Any, Sequence[Any]]:
    """Type, default (... for none) and limits of a field of a kind of data in the class for a source."""
    annotation: Any = field.annotation
    default: Any = ... if field.is_required() else field.get_default(call_default_factory=True)
    if annotation is Any:
        annotation = section_class(field.description or "", default)
        return annotation, annotation(), field.metadata
    if name == "name":
        return Literal[source], source, field.metadata
    if name not in ("train", "valid", "test") or source == "files":
        return annotation, default, field.metadata
    if source not in OWN.split():
        return int, ..., [Field(gt=0)]
    if name == "train":
        return list[str], ["train"], [Field(min_length=1, max_length=1)]
    names = [list[str] if get_origin(one) is list else one for one in get_args(annotation)]
    return Union[tuple(names)], default, []  # noqa: UP007  # of a list that is known only here


S = TypeVar("S", bound=Source)


def with_columns(config: C, read: Mapping[str, int | str]) -> C:
    """The configuration with the columns that were read by name, where it gave none; numbers are recognised again."""
    named = {field: column for field, column in read.items() if isinstance(column, str)}
    found = {name: named[name] for name, column in _columns(config.data) if column is None and name in named}
    data = _with(config.data, found)
    return config.model_copy(update={"data": data}).because("its name", *(f"data.columns.{name}" for name in found))


def without_missing(data: S, names: Collection[Any] | None) -> S:
    """A `data` section without the columns that other data does not have, which has columns of these names."""
    lacking = [field for field, column in _columns(data) if names and isinstance(column, str) and column not in names]
    return _with(data, dict.fromkeys(lacking))


def _columns(data: Source) -> Any:
    return getattr(data, "columns", ())


def _with(data: S, columns: Mapping[str, Any]) -> S:
    """A `data` section with these columns in place of its own."""
    return data.model_copy(update={"columns": _columns(data).model_copy(update=columns)}) if columns else data


class Extra(Section):
    """A further training corpus, never held out: back-translations, another domain, crawled pairs."""

    files: list[DataPath] = Field(min_length=1, max_length=2)
    """Two parallel files, source first, or one with both sides; relative to the configuration."""
    columns: Columns = Columns()  # type: ignore[valid-type]  # a class made by a function
    """Columns of both sides in a file of columns."""
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Times a pair is seen in one pass over data.train: 0.5 is half of the corpus, drawn again for each pass, 2 is
    twice."""
    tag: str | None = None
    """Token put before the source of these pairs, such as <bt> (Caswell et al. 2019); no text is ever split into it."""

    source_language: str | None = None
    """Language of the sources; that of the training set by default."""
    target_language: str | None = None
    """Language of the targets; that of the training set by default."""

    _one_file = field_validator("files", mode="before")(listed)

    @field_validator("tag")
    @classmethod
    def _unlike_text(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"<[^<>\s]+>", value):
            raise ValueError(
                f"data.extra tag is {value!r}, expected a name in angle brackets without spaces, such as <bt>"
            )
        if value in ("<pad>", "<unk>", "<s>", "</s>"):
            raise ValueError(f"data.extra tag {value} is a special token; choose another name, such as <bt>")
        return value


class TextSource(Source):
    """Texts, or pairs of texts, that are read whole or sentence by sentence."""

    in_memory: Annotated[int, Only(OWN)] = Field(200_000, ge=0)
    """Splits with more examples than this, or that may take more than a quarter of the free memory, are kept in the
    cache folder (HEED_CACHE). Their tokens are kept there, too, and tokenizers trained on a sample of 10 MB."""
    sentence_separator: str | None = Field(None, min_length=1)
    """Separator between the sentences of a document, for models that read sentence by sentence; by default line
    breaks, `<br />` and sentence ends."""
    max_sentence: int = Field(60, gt=0)
    """Sentences with more tokens than this are cut into several, for models that read sentence by sentence."""
    max_length: int = Field(1_000, gt=0)
    """Largest number of tokens read of a text; the rest is cut off, and the texts cut are counted. In a pair the longer
    text is cut first. A model with fewer positions reads as many tokens as it has positions."""


class Documents(Source):
    """Documents, cut into rows: files and folders of files, or tables of texts (`heed.data.kinds.documents`)."""

    max_line: Annotated[int, Only(OWN)] = Field(10_000_000, gt=0, le=1 << 27)
    """A line with more characters than this is a bad line; a line may be a whole document."""
    in_memory: Annotated[int, Only(OWN)] = Field(100_000, ge=0)
    """Splits with more documents than this, or of more than 1 GiB, are kept in the cache folder (HEED_CACHE)."""
    format: Annotated[Literal["auto", "text", "lines", "jsonl", "csv", "tsv"], Only(OWN)] = "auto"
    """Format of the files: auto goes by the ending; text is one document a file, lines is one document a line."""
    columns: Annotated[Any, Only(OWN)] = section("text")
    """Column of the text in a file of columns or of JSON lines.

    - text: Column of the text: a number from 0 or a name; "text" by default.
    """
    separator: Annotated[str | None, Only(OWN)] = None
    """A line with this content ends a document of a text file; "" is an empty line. By default a file is one
    document."""
    held_out: Annotated[float, Only(OWN)] = Field(0.1, gt=0, lt=1)
    """Share of a single training document that is held out for validation: its end, from character int(n * (1 -
    held_out)), as in nanoGPT."""
    end_token: Annotated[bool, Only("language_modelling")] = True
    """Put an end token after each document, and before the first; false joins documents without one."""
    context: Annotated[int, Only("language_modelling")] = Field(256, gt=0)
    """Tokens that the model sees at once: the length of training rows and, for models that carry no state, the largest
    number of tokens that a token is predicted from."""
    documents: Annotated[Literal["mask", "run_on"], Only("language_modelling")] = "mask"
    """Attention in a training row of several documents: with mask a document sees only itself, with run_on also those
    before it. Models that carry a state always run on."""
    max_length: Annotated[int, Only("pretraining")] = Field(128, gt=6)
    """Most tokens that are read at once, start and end tokens included."""
    side_words: Annotated[int | None, Only("pretraining")] = Field(None, gt=0)
    """Words of each of the two texts of a pair; by default whole sentences, as many as data.max_length has room for."""
    mask_share: Annotated[float, Only("pretraining")] = Field(0.15, gt=0, lt=1)
    """Share of the tokens of a text to predict, drawn again in each pass."""
    mask_token_share: Annotated[float, Only("pretraining")] = Field(0.8, ge=0, le=1)
    """Share of these that are read as the mask token."""
    random_token_share: Annotated[float, Only("pretraining")] = Field(0.1, ge=0, le=1)
    """Share of these that are read as a random token; the rest is read unchanged."""
    whole_words: Annotated[bool, Only("pretraining")] = False
    """Mask all pieces of a word together."""

    @model_validator(mode="after")
    def _of_text_files(self) -> Self:
        if self.separator is not None and self.format not in ("auto", "text"):
            raise ValueError(
                f"data.separator is {self.separator!r}, but with data.format {self.format} each line is a document; "
                "set only one of the two"
            )
        return self

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.mask_token_share + self.random_token_share > 1 + 1e-9:
            raise ValueError(
                f"data.mask_token_share {self.mask_token_share} and data.random_token_share {self.random_token_share} "
                "are shares of the same tokens; their sum must be at most 1"
            )
        return self
