"""Print the size of each room of the project, as tests/test_size.py holds it: `python tools/size.py`.

A line of code is a line of Python with more than blanks, a comment, a docstring or an import; a string that is a
statement of its own is a docstring. Of templates, YAML, CSS, JavaScript and C++ every line counts. A room is a
top-level folder or file of `src/heed`, each task and `tasks/base`, or one of the folders beside `src`. Of `docs` the
words of the pages count; pages that a script writes are left out.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
WHOLE = (".html", ".yaml", ".css", ".js", ".cpp")
"""Endings of files of which every line counts."""
GENERATED = ("configuration.md", "claims.md", "gallery")
"""Pages and folders of `docs` that a script writes."""
_NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


class Size(NamedTuple):
    """The size of a room."""

    code: int
    files: int


def lines_of_code(text: str) -> int:
    """The lines of code of a Python file."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - left_out)


def files_in(folder: str) -> Iterator[Path]:
    """The files of a folder that count, in order of their names, relative to it."""
    for path in sorted((ROOT / folder).rglob("*")):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(ROOT).parts)
        if path.is_file() and not hidden and path.suffix in (".py", *WHOLE):
            yield path.relative_to(ROOT / folder)


def size_of(path: Path) -> int:
    """The lines of a file that count."""
    text = path.read_text(encoding="utf-8")
    return lines_of_code(text) if path.suffix == ".py" else len(text.splitlines())


def rooms() -> dict[str, Size]:
    """The size of each room, by its path."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for path in files_in("src/heed"):
        depth = 2 if path.parts[0] == "tasks" and len(path.parts) > 2 else 1
        sizes["/".join(("src/heed", *path.parts[:depth]))].append(size_of(ROOT / "src/heed" / path))
    for folder in ("examples", "tools", "tests"):
        sizes[folder] = [size_of(ROOT / folder / path) for path in files_in(folder)]
    return {name: Size(sum(lines), len(lines)) for name, lines in sizes.items()}


def words_of_docs() -> int:
    """The words of the pages of `docs` that people write."""
    pages = (
        path for path in (ROOT / "docs").rglob("*.md") if path.relative_to(ROOT / "docs").parts[0] not in GENERATED
    )
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def main() -> None:
    """Print the table."""
    sizes = rooms()
    for name, (code, files) in sizes.items():
        print(f"{code:7,} {files:4}  {name}")
    source = {name: size for name, size in sizes.items() if name.startswith("src/")}
    python = sum(lines_of_code(path.read_text(encoding="utf-8")) for path in (ROOT / "src/heed").rglob("*.py"))
    print(f"{sum(s.code for s in source.values()):7,} {sum(s.files for s in source.values()):4}  src/heed")
    print(f"{python:7,}       src/heed, Python")
    for folder, endings in (("src/heed", (".py", *WHOLE)), ("src/heed", (".py",)), ("tests", (".py",))):
        files = [ROOT / folder / path for path in files_in(folder) if path.suffix in endings]
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        print(f"{lines:7,} {len(files):4}  all lines of {folder}: {', '.join(endings)}")
    print(f"{words_of_docs():7,}       words of docs, generated pages left out")


if __name__ == "__main__":
    main()
