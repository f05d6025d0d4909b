"""Which command can use a file, by what it looks like."""

from __future__ import annotations

import os
from pathlib import Path

from heed.tasks import spec_of, task_names


def advice(looks_like: str, path: Path) -> str:
    """The commands of the tasks that train on such a file, after a semicolon; "" where there is none."""
    near = os.path.relpath(path)
    file = near if len(near) < len(str(path)) else str(path)
    commands = [
        f"heed train {task} {arguments.format(file=file)}"
        for task in task_names()
        for content, arguments in spec_of(task).takes
        if content == looks_like
    ]
    return f"; train on it with: {', or '.join(commands)}" if commands else ""
