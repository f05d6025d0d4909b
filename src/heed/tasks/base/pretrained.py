"""The command that starts from a checkpoint of the Hugging Face Hub, for tasks and data where that is worth a try."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from heed.config import RunConfig, Source
from heed.tasks import spec_of
from heed.tasks.base.report import counted
from heed.visible import shell_word

_LANGUAGES = (
    "cs ces cze czech, da dan danish, de deu ger german, es spa spanish, et est estonian, fi fin finnish, "
    "fr fra fre french, hi hin hindi, hu hun hungarian, id ind indonesian, it ita italian, nl nld dut dutch, "
    "ru rus russian, sv swe swedish, uk ukr ukrainian"
)
"""Names of languages that OPUS-MT has a translator for, from English and to English."""
_CODES = {name: names.split()[0] for names in _LANGUAGES.split(", ") for name in names.split()}
_ENGLISH = frozenset("the of and that it you this with are he not have".split())
_SHARE = 0.04
"""Share of these words from which a text counts as English: tweets have 0.09, other English more, German 0.00."""
_READ = 1_000


def start_command(task: Any, given: RunConfig, words: Sequence[str]) -> str:
    """The advice, given the settings and the words after `heed train`; "" with many examples or a model chosen."""
    spec, data = spec_of(given.task), given.data
    chosen = given.model.model_fields_set | given.tokenizer.model_fields_set
    if not spec.pretrained or chosen or data.is_embedded:
        return ""
    examples = task.splits.examples["train"]
    if len(examples) >= spec.few or not (name := _checkpoint(spec.pretrained, data, examples)):
        return ""
    run, translator = name.rpartition("/")[2], "opus" in name
    steps = [
        "" if find_spec("sentencepiece" if translator else "huggingface_hub") else "pip install -e '.[hf]'",
        "" if os.path.exists(run) else f"heed import {name} --out {run}",
        f"heed train {' '.join(map(shell_word, words))} --from {run}",
    ]
    few = f"{counted(len(examples), spec.unit)} are few for a model trained from scratch"
    return f"{few}; to start from a pretrained one, with more minutes:\n  {' && '.join(filter(None, steps))}"


def _checkpoint(names: Sequence[str], data: Source, examples: Sequence[Any]) -> str:
    """The checkpoint for the language of the examples, of those in a task's specification; "" if there is none."""
    is_translator = "{source}" in names[0]
    if not is_translator and len(names) == 1:
        return names[0]  # for pictures
    some = [examples[n] for n in range(min(_READ, len(examples)))]
    source_is_english = _is_english(one.source for one in some)
    if not is_translator:
        return names[0] if source_is_english else names[-1]
    columns = getattr(data, "columns", None)
    named = [data.hub] if data.origin == "hub" else [Path(file).name for file in data.train]
    named += [str(getattr(columns, side, "")) for side in ("source", "target")]
    found = {_CODES[word] for word in re.split(r"[\W_\d]+", " ".join(named).lower()) if word in _CODES}
    if len(found) != 1 or _is_english(one.truth for one in some) == source_is_english:
        return ""
    source, target = ("en", *found) if source_is_english else (*found, "en")
    return names[0].format(source=source, target=target)


def _is_english(texts: Iterable[str]) -> bool:
    words = re.findall(r"\w+", " ".join(texts).lower())
    return sum(word in _ENGLISH for word in words) > _SHARE * len(words)
