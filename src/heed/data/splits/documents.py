"""Documents for training, validation and test: read and held out; of a single document, its end is held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from heed.config import HubSection
from heed.config.data import DocumentFiles, InMemory
from heed.data.corpus import StoredExamples, bytes_of
from heed.data.findings import Findings
from heed.data.kinds.documents import Document, document_reader
from heed.data.splits.splits import Splits, open_splits
from heed.errors import ConfigError

_HELD = 1 << 30
"""Bytes of files, unpacked, above which documents are kept on disk, however few they are."""
_MUCH = 0.4
"""Held-out share of the text above which there is a warning."""


def open_documents(data: Any, given: Mapping[str, Sequence[Document]] | None = None) -> Splits[Document]:
    """The documents of every split, from a `data` section or as `given`.

    Validation documents are held out by a hash of their text. If all training data is one document and `data.valid` is
    not given, the last share `data.held_out` of it is the validation set, from character int(n * (1 - held_out)).

    Raises:
        DataError: A file cannot be read, or nothing is left to train on or to validate on.
        ConfigError: `data.valid` is a number of documents, and there is only one document.
    """
    splits = _open(data, given)
    splits.remarks += _large_share(splits) if not isinstance(data.valid, list) and given is None else []
    return splits


def _open(data: Any, given: Mapping[str, Sequence[Document]] | None) -> Splits[Document]:
    reader, held_out = document_reader(data), getattr(data, "held_out", 0.1)
    fields = type(data).model_fields
    # Fields that do not decide what is read are set to defaults, so that runs that differ in them share the cache.
    reading = {*DocumentFiles.model_fields, *HubSection.model_fields, *InMemory.model_fields}
    plain = {
        name: field.get_default(call_default_factory=True) for name, field in fields.items() if name not in reading
    }
    data = data.model_copy(update=plain)
    if given is None and isinstance(data, HubSection):
        return open_splits(data, reader)
    if given is None and bytes_of(data.train) > _HELD and hasattr(data, "in_memory"):
        data = data.model_copy(update={"in_memory": 0})
    whole = None
    if given is not None:
        whole = None if "valid" in given else _only(given["train"])
    elif not isinstance(data.valid, list):  # read by another reader: this one would remember the columns
        whole = _only(document_reader(data).read(data.train, Findings.of(data)))
    if whole is None:
        return open_splits(data, reader, given)
    if data.valid is not None:
        raise ConfigError(
            f"data.valid is {data.valid} (documents to hold out), but {', '.join(data.train)} is one document "
            f"({len(whole.text):,} characters); remove data.valid (then the last data.held_out of the text is "
            "the validation set), name validation files, or cut the text into documents with data.separator"
        )
    total = len(whole.text)
    cut = int(total * (1 - held_out))
    first, rest = replace(whole, text=whole.text[:cut]), replace(whole, text=whole.text[cut:])
    last = [f"{whole.origin} from character {cut + 1:,} on"]

    def read(files: Sequence[str], findings: Findings) -> Iterable[Document]:
        if files == last:
            return [rest]
        documents = reader.read(files, findings)
        return (first if one == whole else one for one in documents) if files == data.train else documents

    if given is not None:
        splits = open_splits(data, reader, {**given, "train": [first], "valid": [rest]})
    else:
        shares = replace(reader, read=read, settings={**reader.settings, "first": cut})
        splits = open_splits(data.model_copy(update={"valid": last}), shares)
    splits.remarks.append(
        f"{whole.origin or 'the text'} is one document: its last {held_out:.0%} ({total - cut:,} of {total:,} "
        f"characters, from character {cut + 1:,} on) is the validation set"
    )
    return splits


def _large_share(splits: Splits[Document]) -> list[str]:
    """A warning if the held-out documents are much of the text, as with few documents of very different lengths."""
    held = _num_bytes(splits.examples["valid"])
    total = held + _num_bytes(splits.examples["train"])
    if held <= _MUCH * total:
        return []
    what = f"{len(splits.examples['valid']):,} held-out documents contain {held / total:.0%} of the text"
    return [f"warning: the {what}; name validation files, or cut long files with data.separator"]


def _num_bytes(documents: Sequence[Document]) -> int:
    if isinstance(documents, StoredExamples):
        return documents.num_bytes
    return sum(len(document.text.encode()) for document in documents)


def _only(documents: Iterable[Document]) -> Document | None:
    """The only document that is not blank; None if there are several or none."""
    found = list(islice((document for document in documents if not document.blank), 2))
    return found[0] if len(found) == 1 else None
