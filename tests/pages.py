"""Code blocks and dumps of the pages of the documentation."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Return (language, text, line number) of every fenced block."""
    text = page.read_text("utf-8")
    return [
        (match[1], match[2], text.count("\n", 0, match.start(2)) + 1)
        for match in FENCE.finditer(text)
    ]


def run_page(page: Path) -> dict[str, Any]:
    """Run the Python blocks of a page in order and return their namespace."""
    names: dict[str, Any] = {"__name__": "docs"}
    for language, text, line in blocks(page):
        if language == "python":
            # Leading empty lines, so that tracebacks show the line number of the page.
            exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)
    return names


def page_fixture(page: Path) -> Any:
    """Return a fixture for a module of tests: the namespace of a page that was run."""

    @pytest.fixture(scope="module")
    def namespace(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
        if "import blosc\n" in page.read_text("utf-8"):
            pytest.importorskip("blosc", reason="the page uses the blosc package")
        with contextlib.chdir(tmp_path_factory.mktemp("page")):
            return run_page(page)

    return namespace


def dump_lines(page: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the position and the bytes of each line of the dump of a page."""
    (dump,) = [text for language, text, _ in blocks(page) if language == "hex"]
    for line in dump.splitlines():
        match = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)", line)
        if match:
            yield int(match[1], 16), bytes.fromhex(match[2])
        else:
            assert re.fullmatch(r"[A-Z0-9 ]+", line), f"no line of a dump: {line!r}"


def dump_of(page: Path) -> bytes:
    """Return the bytes that the dump of a page shows, without gaps."""
    data = b""
    for position, line in dump_lines(page):
        assert position == len(data), f"position {position:04x}"
        data += line
    return data
