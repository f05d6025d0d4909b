"""`huggingface.json` of a run folder: the checkpoint from which the run, or its parent, was imported.

It has the family, the fields of the checkpoint's `config.json`, and by role the numbering of the vocabulary with a
digest of its tokens. An export restores the original numbering if the tokens are still the imported ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import RunError
from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.exchange.huggingface.config_file import read_json
from heed.exchange.huggingface.numbering import Numbering
from heed.storage.disk import write_whole

ORIGIN = "huggingface.json"
_FORMAT = 1


@dataclass(frozen=True)
class Origin:
    """Record in a run folder of the checkpoint that it was imported from.

    Attributes:
        source: Name of the checkpoint or of its folder.
        family: Its `model_type`.
        architecture: The class of its model.
        settings: The fields of its `config.json`.
        vocabularies: By role, the numbering and the digest of the tokens.
    """

    source: str
    family: str
    architecture: str
    settings: Mapping[str, Any]
    vocabularies: Mapping[str, tuple[Numbering, str]]

    @classmethod
    def of(cls, checkpoint: Checkpoint, source: str) -> Origin:
        """The record of an opened checkpoint."""
        found = {role: (numbering, digest(one)) for role, (one, numbering) in checkpoint.vocabularies.items()}
        settings = checkpoint.settings
        return cls(source, settings.model_type, checkpoint.architecture, settings.values, found)

    @classmethod
    def read(cls, folder: Path) -> Origin | None:
        """The record of a run folder; None if neither the run nor its parent was imported.

        Raises:
            RunError: The file is damaged.
        """
        path = folder / ORIGIN
        if not path.is_file():
            return None
        values = read_json(path)
        try:
            if values["format"] != _FORMAT:
                raise RunError(f"{path} has format {values['format']}, this version of heed reads format {_FORMAT}")
            vocabularies = {
                role: (Numbering.from_json(one), str(one["tokens"])) for role, one in values["vocabularies"].items()
            }
            source, family, architecture = (str(values[name]) for name in ("source", "family", "architecture"))
            return cls(source, family, architecture, dict(values["settings"]), vocabularies)
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{path} is damaged: {error}") from None

    def write(self, folder: Path) -> None:
        """Write it into a run folder."""
        values = {
            "format": _FORMAT,
            "source": self.source,
            "family": self.family,
            "architecture": self.architecture,
            "settings": dict(self.settings),
            "vocabularies": {
                role: {**numbering.as_json(), "tokens": tokens}
                for role, (numbering, tokens) in self.vocabularies.items()
            },
        }
        text = json.dumps(values, ensure_ascii=False) + "\n"
        write_whole(folder / ORIGIN, lambda part: part.write_text(text, encoding="utf-8"))

    def numbering(self, tokenizer: TextTokenizer) -> Numbering | None:
        """The imported numbering that fits a tokenizer; None if its tokens are not the imported ones."""
        own = digest(tokenizer)
        return next((numbering for numbering, tokens in self.vocabularies.values() if tokens == own), None)


def digest(tokenizer: TextTokenizer) -> str:
    """A hash of a tokenizer's tokens, in order."""
    text = "\n".join(tokenizer.tokens)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
