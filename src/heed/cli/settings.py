"""Conversion of command-line words to a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heed.config import RunConfig, apply_overrides, read_config
from heed.errors import ConfigError, suggest
from heed.folder import CONFIG
from heed.tasks import DEFAULT, check_config, config_class, spec_of, task_names, with_paths
from heed.visible import shell_word


def settings_from(words: list[str], fields: list[str]) -> RunConfig:
    """Build the configuration meant by `CONFIG [k=v]...` or `TASK FILE... [k=v]...`.

    Raises:
        ConfigError: The first word is neither a configuration nor a task, or a field is wrong.
    """
    first, *rest = words
    overrides = [word for word in rest if _is_field(word)]
    files = [word for word in rest if not _is_field(word)]
    values: dict[str, Any]
    if first.endswith((".yaml", ".yml")):
        if files:
            raise ConfigError(f"'{files[0]}' is not section.key=value, and '{first}' names its own files")
        values, where = with_paths(read_config(first), Path(first).absolute().parent), first
    elif Path(first).is_dir():
        if (Path(first) / CONFIG).is_file():
            resume = f"heed train {shell_word(first)} --resume"
            raise ConfigError(f"'{first}' is a run folder; to resume the run: {resume}")
        raise ConfigError(f"'{first}' is a folder; give a YAML file, or --resume to resume a run")
    elif first in task_names():
        values, where = {"task": first}, "command line"
        if files and files[0].startswith("hub:"):
            if len(files) > 1:
                raise ConfigError(
                    f"'{files[0]}' is a whole data set, so '{files[1]}' cannot be added; data.train, --valid and "
                    "--test select its splits, and data.extra adds files"
                )
            overrides.insert(0, f"data.hub={json.dumps(files.pop().removeprefix('hub:'))}")
        for word in files:
            _refuse_field_without_section(word, first)
        spec = spec_of(first)
        if spec.num_files[1] is not None and len(files) > spec.num_files[1]:
            raise ConfigError(
                f"{len(files)} training files were given ({', '.join(files)}), expected {spec.files}; give validation "
                "and test files with --valid and --test"
            )
        if files:
            overrides.insert(0, f"data.train={json.dumps([str(Path(f).absolute()) for f in files])}")
        elif not any(word.startswith("data.") for word in overrides):
            example = f"heed train {first} {spec.example}"
            raise ConfigError(f"heed train {first} needs its training files, for example: {example}")
    else:
        hint = suggest(first, task_names())
        if first == "last":
            hint = "; to resume a run: heed train last --resume"
        elif Path(first).exists():
            tasks = f"{', '.join(task_names()[:-1])} or {task_names()[-1]}"
            example = f"heed train {DEFAULT} {' '.join(map(shell_word, words))}"
            hint = f"; name its task first ({tasks}), for example: {example}"
        raise ConfigError(f"'{first}' is neither a task nor a YAML file{hint}")
    values = apply_overrides(values, [*overrides, *fields])
    values = with_paths(values, Path.cwd())  # files on the command line are relative to the current directory
    return check_config(values, where)


def _is_field(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and "." in name and not Path(word).exists()


def _refuse_field_without_section(word: str, task: str) -> None:
    """Refuse `learning_rate=0.1`, which would count as a file, with the section of the field where it is known.

    Raises:
        ConfigError: The word is a name, an equals sign and a value, and no file.
    """
    name, equals, _ = word.partition("=")
    if not equals or not name.isidentifier() or Path(word).exists():
        return
    sections = {key: field.annotation for key, field in config_class(task).model_fields.items()}
    meant = [f"{key}.{word}" for key, section in sections.items() if name in getattr(section, "model_fields", ())]
    hint = f"; did you mean {' or '.join(meant)}?" if meant else ": SECTION.FIELD=VALUE"
    raise ConfigError(f"'{word}' is neither a file nor a field with its section{hint}")
