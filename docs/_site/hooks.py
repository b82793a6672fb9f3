"""What the site shows beside docs/: files of the repository as pages, the command line's help, all operators.

Links in the repository lead from file to file, so that they work where the files are read as they are. Here each file
gets a place in the site, and links to it are turned accordingly.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import click
import typer
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "jfuse/refusals.md": "refusals.md",
    "examples/micro/README.md": "examples/micro/README.md",
}
"""File of the repository -> its page."""
AS_CODE = ("examples/own_cell.py", "examples/own_lstm.py", "examples/rules_package/acme_rules.py", "LICENSE")
"""Files that are shown as they are, each on a page of its own."""
AS_FILES = ("examples/keras_lstm_fusion.ipynb",)
"""Files that a link downloads."""
STYLE = "site.css"
OPS = "<!-- jfuse ops --markdown -->"
"""Where docs/ops.md shows the tables of operators."""
_LINK = re.compile(r"(?<=\]\()(?!https?://)([^)#\s]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that docs/ does not hold."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for source in AS_CODE:
        code = (ROOT / source).read_text(encoding="utf-8")
        fence = "python" if source.endswith(".py") else "text"
        text = f"# {source}\n\n```{fence}\n{code}```\n"
        files.append(File.generated(config, _code_page(source), content=text))
    for source in AS_FILES:
        files.append(File.generated(config, source, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, "command-line.md", content=command_line()))
    files.append(File.generated(config, STYLE, abs_src_path=str(ROOT / "docs" / "_site" / STYLE)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between files of the repository become links between pages."""
    place = page.file.src_uri
    home = next((source for source, shown in PAGES.items() if shown == place), f"docs/{place}")

    def turned(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), link[1]))
        shown = _shown(target)
        return link[0] if shown is None else posixpath.relpath(shown, posixpath.dirname(place) or ".") + (link[2] or "")

    if place == "ops.md":
        from jfuse.reports import coverage

        before, after = markdown.split(OPS)
        markdown = before + coverage.markdown() + after
    if place == "index.md":
        page.meta["hide"] = ["toc"]  # its tables and commands take the place
    return _LINK.sub(turned, markdown)


def command_line() -> str:
    """The page of the command line: what `--help` says of each command."""
    from jfuse.cli.app import app

    group = typer.main.get_command(app)
    context = click.Context(group, info_name="jfuse")
    text = ["# Command line", "", group.get_help(context).splitlines()[2].strip(), ""]
    for name in sorted(group.commands):
        command = group.commands[name]
        shown = command.get_help(click.Context(command, info_name=name, parent=context))
        text += [f"## jfuse {name}", "", "```text", shown, "```", ""]
    return "\n".join(text)


def _shown(target: str) -> str | None:
    """The page of a file or folder of the repository; None where the site has none."""
    if target in PAGES:
        return PAGES[target]
    if target in AS_FILES:
        return target
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    code = next((c for c in AS_CODE if c == target or c.startswith(f"{target}/")), None)
    return None if code is None else _code_page(code)


def _code_page(source: str) -> str:
    return f"{source}.md"
