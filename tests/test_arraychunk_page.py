"""docs/formats/arraychunk.md: the dump is the chunk, and both readers decode it."""

import contextlib
from typing import Any

import pytest

from bloscpack.format import arraychunk
from bloscpack.format.codec import decode_into

from .reference.arraychunk import decode
from .test_docs import DOCS, blocks, dump_of, run_page

PAGE = DOCS / "formats" / "arraychunk.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with contextlib.chdir(tmp_path_factory.mktemp("page")):
        names: dict[str, Any] = run_page(PAGE)
        return names


def test_dump_of_the_page_is_the_chunk(page: dict[str, Any]) -> None:
    (dump,) = [text for language, text, _ in blocks(PAGE) if language == "hex"]
    chunk = dump_of(dump)
    assert chunk.hex(" ") == page["chunk"].hex(" ")
    out = bytearray(page["items"].nbytes)
    decode_into(chunk, out)
    assert bytes(out) == decode(chunk) == page["items"].tobytes()


def test_limits_of_the_page_are_those_of_the_code() -> None:
    text = PAGE.read_text("utf-8")
    assert f"`{arraychunk.MAX_EXPANSION} * cbytes + {arraychunk.FREE_EXPANSION}`" in text
    assert f"at most {arraychunk.MAX_BLOCK_NBYTES} |" in text
    assert f"1 to {arraychunk.MAX_ENTRIES} entries" in text
    assert f"at most `nbytes / {arraychunk.MIN_CHUNK_PER_DICTIONARY}` bytes" in text
