"""The commands that can use a file, by its content."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from heed.config import HubSection
from heed.config.data import InMemory
from heed.data.findings import Findings
from heed.data.kinds.contents import picture_content
from heed.errors import DataError
from heed.tasks import spec_of, task_names
from heed.visible import shell_word


def suggest_task(looks_like: str, path: Path) -> str:
    """The commands of the tasks that train on a file with this content, after a semicolon; "" if there are none."""
    near = os.path.relpath(path)
    file = near if len(near) < len(str(path)) else str(path)
    commands = [
        f"heed train {task} {arguments.format(file=shell_word(Path(file)))}"
        for task in task_names()
        for content, arguments in spec_of(task).takes
        if content == looks_like
    ]
    return f"; train on it with: {', or '.join(commands)}" if commands else ""


def refuse_pictures(config: Any) -> None:
    """Refuse training files that contain pictures, unless the task reads pictures.

    Raises:
        DataError: The message names the command that can use the files.
    """
    takes = (content for content, _ in spec_of(config.task).takes)
    files = getattr(config.data, "train", None)
    if not isinstance(files, list) or isinstance(config.data, HubSection | InMemory) or "pictures" in takes:
        return
    for file in files:
        content = picture_content(Path(file), Findings.of(config.data))
        if content is not None:
            unit, remedy = spec_of(config.task).unit, suggest_task("pictures", Path(file))
            raise DataError(f"'{file}': {content.why}; {config.task} reads {unit}s{remedy}")
