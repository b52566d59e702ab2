"""docs/formats/arraychunk.md: the dump is the chunk, and both readers decode it."""

from typing import Any

from bloscpack.format import arraychunk
from bloscpack.format.codec import decode_into

from .pages import DOCS, dump_of, page_fixture
from .reference.arraychunk import decode

PAGE = DOCS / "formats" / "arraychunk.md"

page = page_fixture(PAGE)


def test_dump_of_the_page_is_the_chunk(page: dict[str, Any]) -> None:
    chunk = dump_of(PAGE)
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
