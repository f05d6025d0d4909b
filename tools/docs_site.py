"""mkdocs hooks for `make docs`: add README and CONTRIBUTING, and rewrite links that lead out of docs/.

mkdocs calls `on_files` and `on_page_markdown` (mkdocs.yml, hooks).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages outside docs/, and their names on the site."""


def linked(text: str, folder: str) -> str:
    """Rewrite the links of a page from `folder` for the site; links to files that are not pages become plain text."""
    place = folder.removeprefix("docs").removeprefix("/") if folder.startswith("docs") else ""  # "" is the site's root

    def mended(link: re.Match[str]) -> str:
        shown, target, anchor = link.groups(default="")
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path not in OUTSIDE and not path.startswith("docs/"):
            return shown
        there = OUTSIDE.get(path) or path.removeprefix("docs/")
        return f"[{shown}]({posixpath.relpath(there, place or '.')}{anchor})"

    parts = re.split(r"(^ *```.*?^ *```)", text, flags=re.MULTILINE | re.DOTALL)  # code blocks are not changed
    parts[::2] = [re.sub(r"\[([^][]*)\]\(([^)#\s]+)(#[^)\s]*)?\)", mended, part) for part in parts[::2]]
    return "".join(parts)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/."""
    from mkdocs.structure.files import File

    for path, name in OUTSIDE.items():
        text = linked((ROOT / path).read_text(encoding="utf-8"), posixpath.dirname(path))
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links that lead out of docs/."""
    if page.file.src_uri in OUTSIDE.values():
        return markdown
    return linked(markdown, posixpath.dirname(f"docs/{page.file.src_uri}"))
