"""Configuration sections of data: own files, columns, data passed in Python, further corpora, embedded data."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from heed.config.sections import DataPath, IsPath, Section, listed


class HeldSplit(Section):
    """The record of the data passed in Python for one split."""

    examples: int = Field(ge=0)
    """Number of examples."""
    content: str
    """Hash of the examples in their order, by which a resumed run recognises them."""


class InMemory(Section):
    """The part of a `data` section that records data passed in Python; the data itself is not kept."""

    memory: dict[str, HeldSplit]
    """By split, the number of examples passed in Python and a hash of them; written by `heed.train`."""
    imported: str | None = None
    """Name of the checkpoint that the run was imported from, written by `heed import`; such a run has no data."""
    train: list[str] = ["train"]  # noqa: RUF012  # pydantic copies it
    """Not a file here: the name of the split."""
    valid: list[str] | int | None = None
    """Not files here: the name of the split, or the number of examples to hold out."""
    test: list[str] | int | None = None
    """Not files here: the name of the split."""

    @model_validator(mode="after")
    def _of_no_file(self) -> Self:
        for field in ("format", "separator", "encoding"):
            kind = type(self).model_fields.get(field)
            if kind is not None and (value := getattr(self, field)) != kind.default:
                raise ValueError(
                    f"data.{field} is {value!r}, which applies to files, but the data was passed in Python; leave it "
                    "out"
                )
        return self

    @property
    def name(self) -> str:
        """Name of the data."""
        return "memory" if self.imported is None else PurePath(self.imported).name

    @property
    def not_kept(self) -> str:
        """Error message for a command that needs the data, which was not passed."""
        if self.imported is not None:
            return (
                f"this run was imported from {self.imported} and has no data; to score it, give files: heed evaluate "
                "RUN FILE; to train it further, start a run from it: heed train TASK FILE --from RUN"
            )
        held = ", ".join(f"{name} {split.examples:,}" for name, split in self.memory.items())
        return (
            f"the data was passed in Python{f' (examples: {held})' if held else ''} and is not stored in the run "
            "folder; to score the run, give files (heed evaluate RUN FILE) or examples (run.evaluate(examples)); to "
            "resume it, pass the same data to heed.train in Python, with out= and resume=True"
        )


def is_memory(value: Any) -> bool:
    """True if a `data` section, as values or checked, is of data passed in Python."""
    return isinstance(value, InMemory) or (isinstance(value, dict) and "memory" in value)


class EmbeddedData(Section):
    """Examples that come with heed; validation and test examples are never trained on."""

    auto_tokenizer: ClassVar[str] = "char"
    """The tokenizer.kind that auto means."""

    name: str
    """Name of the embedded data."""
    train: int = Field(40_000, gt=0)
    """Number of training examples."""
    valid: int = Field(400, gt=0)
    """Number of validation examples."""
    test: int = Field(1_000, gt=0)
    """Number of test examples."""


class DrawnData(EmbeddedData):
    """Embedded data drawn from a seed."""

    seed: int = 1
    """Seed of the generated examples."""


class DatesData(DrawnData):
    """Embedded data: dates as people write them in many languages, to ISO (`heed.data.embedded.pairs`)."""

    name: Literal["dates"] = "dates"
    """Name of the embedded data."""
    languages: list[str] | None = None
    """CLDR codes of the languages to train on, of 28; all but five by default."""
    unseen: list[str] | None = None
    """CLDR codes of languages kept for a score on unseen languages, on as many examples as test; a few by default."""
    styles: list[Literal["medium", "long", "full"]] = ["medium", "long", "full"]  # noqa: RUF012  # pydantic copies it
    """CLDR date styles."""
    joined: int | tuple[int, int] = 1
    """Dates per example: a number, or [smallest, largest]; at most 6."""
    years: tuple[int, int] = (1900, 2099)
    """First and last year."""


class DigitsData(DrawnData):
    """Embedded data: digit strings to copy or to reverse (`heed.data.embedded.pairs`)."""

    name: Literal["copy", "reverse"]
    """Copy or reverse the string."""
    length: tuple[int, int] = (3, 12)
    """Smallest and largest number of digits."""


class GrammarData(EmbeddedData):
    """Embedded data: sentences of a small grammar in English, and their Spanish (`heed.data.embedded.pairs`)."""

    auto_tokenizer: ClassVar[str] = "word"

    name: Literal["grammar"] = "grammar"
    """Name of the embedded data."""
    train: int = Field(8_000, gt=0, le=8_000)
    """Number of training examples, at most 8,000."""
    valid: int = Field(400, gt=0, le=400)
    """Number of validation examples, at most 400."""
    test: int = Field(1_000, gt=0, le=1_000)
    """Number of test examples, at most 1,000."""


class Columns(Section):
    """Columns of both sides in a file of columns."""

    source: int | str | None = None
    """Column of the source: a number from 0 or a name; 0 by default, "source" in JSON lines."""
    target: int | str | None = None
    """Column of the target: a number from 0 or a name; 1 by default, "target" in JSON lines."""


class ExtraData(Section):
    """A further training corpus, never held out: back-translations, another domain, crawled pairs."""

    files: list[DataPath] = Field(min_length=1, max_length=2)
    """Two parallel files, source first, or one with both sides; relative to the configuration."""
    columns: Columns = Columns()
    """Columns of both sides in a file of columns."""
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Times a pair is seen in one pass over data.train: 0.5 is half of the corpus, drawn again for each pass, 2 is
    twice."""
    tag: str | None = None
    """Token put before the source of these pairs, such as <bt> (Caswell et al. 2019); no text is ever split into it."""

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


class OwnData(Section):
    """Common fields of your own data: files, and the treatment of unusable lines."""

    train: list[DataPath] = Field(min_length=1)
    """Training files. Relative to the configuration."""
    valid: list[DataPath] | int | None = None
    """Validation files, or the number of training examples to hold out; by default a twentieth, 200 to 1,000. Never
    more than a fifth, nor, beyond 50, more than a tenth of examples with labels; chosen by a hash of the source or
    text."""
    test: list[DataPath] | None = None
    """Test files."""
    bad_lines: Literal["error", "skip"] = "error"
    """Treatment of unusable lines (docs/data.md lists the reasons): error stops at the first, skip leaves them out,
    counts them and lists the first ones."""
    encoding: str = "utf-8"
    """Encoding of lines that are not UTF-8: windows-1252, iso-8859-2, gb18030 or another that includes ASCII; such
    lines are counted. With utf-8 they are bad lines. Decided line by line: a line in UTF-8 is always read as UTF-8."""
    max_line: int = Field(100_000, gt=0, le=1 << 27)
    """A line with more characters than this is a bad line."""
    duplicates: Literal["keep", "drop"] = "keep"
    """Repeated training examples: keep them all, or drop all but the first of each."""
    overlap: Literal["keep", "drop"] = "keep"
    """Training examples whose source or text is in the validation or test set: keep or drop them."""

    _one_file = field_validator("train", "valid", "test", mode="before")(listed)

    @field_validator("encoding")
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

    @property
    def name(self) -> str:
        """Name of the data: the first training file without its endings, or its folder if the file is "train"."""
        path = Path(self.train[0]).absolute()
        stem = path.name.split(".")[0]
        return (path.parent.name if stem in ("", "train") else stem) or "data"


class CorpusData(OwnData):
    """Common fields of your own corpora that may be larger than memory."""

    in_memory: int = Field(100_000, ge=0)
    """Splits with more examples than this are kept in the cache folder (HEED_CACHE), not in memory. Tokens are then
    encoded batch by batch; only lengths, order and hashes are in memory. A learned alignment stays in memory, some
    kilobytes a pair."""


class FilesData(CorpusData):
    """Your own pairs, in two parallel files or in one file of columns (`heed.data.kinds.pairs`)."""

    chosen_by: ClassVar = ("name",)
    train: list[DataPath] = Field(min_length=1, max_length=2)
    """Training files: two parallel files, source first, or one with both sides. Relative to the configuration."""
    max_length: int = Field(250, gt=0)
    """Training examples with more tokens than this on a side are left out, and counted."""
    columns: Columns = Columns()
    """Columns of both sides in a file of columns."""
    extra: list[ExtraData] = []  # noqa: RUF012  # pydantic copies it
    """Further training corpora, weighted and optionally tagged; their pairs are never held out."""


class HubSection(OwnData):
    """A data set of the Hugging Face Hub (`heed.data.readers`): these fields, and those of a task's own files."""

    hub: Annotated[str, IsPath(if_folder=True)]
    """Name of the data set, as user/name; or a folder that the `datasets` library can read."""
    config: str | None = None
    """Name of a configuration of the data set, if it has several."""
    revision: str | None = None
    """Branch, tag or commit of the data set; the newest by default."""
    train: list[str] = Field(["train"], min_length=1, max_length=1)
    """Split to train on, or a part of it such as train[:1000]."""
    valid: list[str] | int | None = None
    """Split to validate on, or the number of training examples to hold out; by default its split validation, if it has
    one."""
    test: list[str] | None = None
    """Split to test on; by default its split test, if it has one."""

    @field_validator("encoding")
    @classmethod
    def _no_bytes(cls, value: str) -> str:
        if value != "utf-8":
            raise ValueError(f"data.encoding is {value!r}, but a data set of the Hub contains texts, not bytes")
        return value

    @property
    def name(self) -> str:
        return Path(self.hub).name or "data"


class HubData(HubSection, FilesData):
    """Pairs of a data set of the Hub."""


class LabelledData(OwnData):
    """Common fields of your own labelled files."""

    train: list[DataPath] = Field(min_length=1)
    """Training files (for classification also folders); several are read one after the other. Relative to the
    configuration."""
    max_line: int = Field(1_000_000, gt=0, le=1 << 27)
    """A line with more characters than this is a bad line; a line may be a whole document."""


class KeptData(LabelledData):
    """Common fields of labelled texts that may be larger than memory."""

    in_memory: int = Field(200_000, ge=0)
    """Splits with more examples than this, or that may take more than a quarter of the free memory, are kept in the
    cache folder (HEED_CACHE). Their tokens are kept there, too, and tokenizers trained on a sample of 10 MB."""


class EmbeddedLabels(DrawnData):
    """Embedded data with labels."""

    train: int = Field(2_000, gt=0)
    """Number of training examples."""
    valid: int = Field(200, gt=0)
    """Number of validation examples."""
    test: int = Field(500, gt=0)
    """Number of test examples."""


class TagColumns(Section):
    """Columns of words, tags and sentences: by number, or by name (in a header, JSON, Python, or CoNLL-U)."""

    word: int | str | None = None
    """Column of the word, or of the text of entities, from 0 (negative numbers count from the last, -1); by default the
    one with a usual name, FORM in CoNLL-U, else the first."""
    label: int | str | None = None
    """Column of the tag, or of entities; by default the one with a usual name, UPOS in CoNLL-U, else the last."""
    sentence: int | str | None = None
    """Column with another value for each sentence, in files without blank lines between them; by default the one with a
    usual name or the only such column."""


class TagOptions(Section):
    """Options of data of sentences with tags."""

    columns: TagColumns = TagColumns()
    """Columns of words, tags and sentences."""
    tag_names: tuple[str, ...] = ()
    """Names of the tags where the data has their numbers: of 0, 1, 2 and so on."""
    scheme: Literal["auto", "bio", "iob1", "io", "bioes", "plain"] = "auto"
    """Tagging scheme of entities; auto detects it for each set, plain tags (such as parts of speech) mark no
    entities."""
    max_length: int = Field(500, gt=0)
    """Training sentences with more tokens than this are left out, and counted."""


D = TypeVar("D", bound=Section)


def with_columns(data: D, read: Mapping[str, int | str]) -> D:
    """A `data` section with the columns that were read by name, where it gave none; numbers are recognised again."""
    columns = getattr(data, "columns", None)
    if not isinstance(columns, Section):
        return data
    named = {field: column for field, column in read.items() if isinstance(column, str)}
    update = {field: column for field, column in named.items() if getattr(columns, field, "") is None}
    return data.model_copy(update={"columns": columns.model_copy(update=update)}) if update else data


def without_missing(data: D, names: Collection[Any] | None) -> D:
    """A `data` section without the columns that other data does not have, which has columns of these names."""
    columns = getattr(data, "columns", None)
    if not isinstance(columns, Section) or not names:
        return data
    update = {field: None for field, column in columns if isinstance(column, str) and column not in names}
    return data.model_copy(update={"columns": columns.model_copy(update=update)}) if update else data


def by_name(files: str = "files", hub: bool = False, tags: Mapping[str, str] | None = None) -> Callable[[Any], str]:
    """Discriminator of `data` sections, which returns the tag of a section.

    Args:
        files: Tag of the user's own files, which have no name.
        hub: True if there is a section for data sets of the Hub, which has the tag "hub".
        tags: Tags of embedded data that differ from its name.
    """
    others = {files, "hub", "memory"}

    def kind(value: Any) -> str:
        if is_memory(value):
            return "memory"
        if hub and (isinstance(value, HubSection) or (isinstance(value, dict) and "hub" in value)):
            return "hub"
        if isinstance(value, dict):
            name = value.get("name")
        else:
            name = value.name if isinstance(value, EmbeddedData) else None
        if name is None:
            return files
        return "unknown" if str(name) in others else (tags or {}).get(str(name), str(name))

    return kind


class DocumentColumns(Section):
    """Column of the text in a file of columns or of JSON lines."""

    text: int | str | None = None
    """Column of the text: a number from 0 or a name; "text" by default."""


class DocumentReading(Section):
    """Reading of documents."""

    format: Literal["auto", "text", "lines", "jsonl", "csv", "tsv"] = "auto"
    """Format of the files: auto goes by the ending; text is one document a file, lines is one document a line."""
    columns: DocumentColumns = DocumentColumns()
    """Column of the text in a file of columns or of JSON lines."""
    separator: str | None = None
    """A line with this content ends a document of a text file; "" is an empty line. By default a file is one
    document."""


class DocumentFiles(DocumentReading, CorpusData):
    """Your own texts: files and folders of files, or tables of texts (`heed.data.kinds.documents`)."""

    train: list[DataPath] = Field(min_length=1)
    """Training files and folders. Relative to the configuration."""
    max_line: int = Field(10_000_000, gt=0, le=1 << 27)
    """A line with more characters than this is a bad line; a line may be a whole document."""
    in_memory: int = Field(100_000, ge=0)
    """Splits with more documents than this, or of more than 1 GiB, are kept in the cache folder (HEED_CACHE)."""

    @model_validator(mode="after")
    def _of_text_files(self) -> Self:
        if self.separator is not None and self.format not in ("auto", "text"):
            raise ValueError(
                f"data.separator is {self.separator!r}, but with data.format {self.format} each line is a document; "
                "set only one of the two"
            )
        return self


class DocumentHub(HubSection):
    """Documents of a data set of the Hub; options of file formats do not apply to them."""

    @field_validator("format", "separator", check_fields=False)
    @classmethod
    def _no_files(cls, value: Any) -> Any:
        if value not in (None, "auto"):
            raise ValueError(
                f"{value!r} sets the format of a file, but a data set of the Hub is not a file; remove the field"
            )
        return value


class ConversationColumns(Section):
    """Names of the parts of a conversation."""

    turns: int | str | None = None
    """JSON lines: field with the list of turns; by default turns, messages, conversation or a similar name, or the only
    list. Text: column with the turns if tabs separate columns, from 0, the default."""
    text: str | None = None
    """Field of a turn with its text; by default text, utterance, content, value or a similar name."""
    speaker: str | None = None
    """Field of a turn with its speaker; by default speaker, role, from or a similar name."""


class FirstOf(Section):
    """Number of conversations to read of each set, from the start of its files; null for all."""

    train: int | None = Field(None, gt=0)
    """Training conversations."""
    valid: int | None = Field(None, gt=0)
    """Validation conversations, if files are given."""
    test: int | None = Field(None, gt=0)
    """Test conversations."""


class ConversationFiles(OwnData):
    """Your own conversations: JSON lines with a list of turns, or text (`heed.data.kinds.conversations`)."""

    max_line: int = Field(1_000_000, gt=0, le=1 << 27)
    """A line with more characters than this is a bad line; a line may be a whole conversation."""
    train: list[DataPath] = Field(min_length=1)
    """Training files; several are read one after the other. Relative to the configuration."""
    columns: ConversationColumns = ConversationColumns()
    """Names of the parts of a conversation."""
    separator: str | None = None
    r"""Text: separator of turns in a line, such as __eou__ or \t; "" if each turn is on its own line and an empty line
    ends a conversation. By default __eou__ or tabs, whichever occurs."""
    first: FirstOf = FirstOf()
    """Read only this many conversations of a set."""
    respond: str = "both"
    """Speaker whose turns are the responses: both (every speaker), or the name of one speaker."""
    history: int | None = Field(None, gt=0)
    """Number of last turns read before a response; null for all."""
    max_length: int = Field(250, gt=0)
    """For models that read the history as one text: its most tokens; the oldest turns are left out, and counted."""
    max_turn: int = Field(100, gt=0)
    """Most tokens read of one turn; longer ones are cut off there and counted, and not trained on as responses."""

    @field_validator("separator")
    @classmethod
    def _typed(cls, value: str | None) -> str | None:
        return None if value is None else value.replace("\\t", "\t").strip(" ")

    @model_validator(mode="after")
    def _turns_fit(self) -> Self:
        if self.max_turn >= self.max_length:
            raise ValueError(
                f"data.max_turn is {self.max_turn}, but data.max_length is {self.max_length}: the last turn and the "
                f"token before it must fit; set data.max_length above {self.max_turn}, or data.max_turn below it"
            )
        return self


class MemoryConversations(InMemory, ConversationFiles):
    """Conversations passed in Python."""
