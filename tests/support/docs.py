"""The pages of the documentation, and the examples in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT

DOCS = ROOT / "docs"


PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


FENCE = re.compile(
    r"^(?:<!-- test: run(?: (?P<scene>\w+))?(?: prints (?P<prints>.+?))?"
    r"(?: simulated (?P<simulated>.+?))? -->\n(?P<runs>))?"
    r"```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


SHELL = re.compile(
    r"^(?:<!-- test: (?P<how>\w+) -->\n)?```sh\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL
)


ANY_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    return (DOCS / name).read_text()


@dataclass(frozen=True)
class Example:
    """One Python block of a page."""

    page: str
    line: int
    code: str
    runs: bool
    scene: str
    prints: str
    simulated: str
    """What it prints on the simulator."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def parse(self) -> ast.Module:
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return compile(self.code, str(self), "exec", flags, dont_inherit=True)


def examples() -> Iterator[Example]:
    for path in PAGES:
        text = path.read_text()
        for found in FENCE.finditer(text):
            yield Example(
                page=path.name,
                line=text.count("\n", 0, found.start("code")) + 1,
                code=found["code"],
                runs=found["runs"] is not None,
                scene=found["scene"] or "text",
                prints=found["prints"] or "",
                simulated=found["simulated"] or found["prints"] or "",
            )


EXAMPLES = list(examples())


@dataclass(frozen=True)
class ShellBlock:
    """Lines of a page that are to be typed."""

    path: Path
    line: int
    how: str
    """What the page says of how they are tested."""
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}"


def shell_blocks(path: Path) -> Iterator[ShellBlock]:
    text = path.read_text()
    for found in SHELL.finditer(text):
        yield ShellBlock(
            path=path,
            line=text.count("\n", 0, found.start("lines")) + 1,
            how=found["how"] or "",
            lines=tuple(found["lines"].splitlines()),
        )


def code_in(text: str) -> str:
    """What stands in fences and in backticks; prose uses many a name as a plain word."""
    inline = re.findall(r"`([^`\n]+)`", ANY_FENCE.sub("", text))
    return "\n".join([*ANY_FENCE.findall(text), *inline])


def is_documented(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", code_in(text)) is not None
