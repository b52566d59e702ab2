"""docs/formats/archive.md: its dump matches the file, its reader reads our archives."""

from pathlib import Path
from typing import Any

import pytest

import bloscpack as bp

from ..pages import DOCS, dump_lines, page_fixture
from ..reference.archive_reader import read_archive
from .archives import ARRAYS, content_of, packed

PAGE = DOCS / "formats" / "archive.md"

page = page_fixture(PAGE)


def test_the_dump_is_the_file(page: dict[str, Any]) -> None:
    example, shown = page["example"], 0
    for at, data in dump_lines(PAGE):
        assert example[at : at + len(data)] == data, f"position {at:04x}"
        shown += len(data)
    files = page["read_archive"](example)
    assert shown == len(example) - sum(map(len, files.values())) + 5


def test_both_readers_read_and_refuse_as_ours_does(page: dict[str, Any]) -> None:
    data = packed()
    readers = [
        page["read_archive"],
        lambda file: {k: v[1] for k, v in read_archive(file)[1].items()},
    ]
    for read in readers:
        assert content_of({name: bp.load(file) for name, file in read(data).items()}) == (
            content_of(ARRAYS)
        )
        index = int.from_bytes(data[-24:-16], "little")
        for place in (*range(64), *range(index, len(data))):
            with pytest.raises(ValueError, match=r".|\n"):
                read(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        for size in range(0, len(data), 31):
            with pytest.raises(ValueError, match=r".|\n"):
                read(data[:size])


def test_members_can_be_copied_out(page: dict[str, Any], tmp_path: Path) -> None:
    for number, (name, file) in enumerate(page["read_archive"](packed()).items()):
        (tmp_path / f"{number}.blp").write_bytes(file)
        assert bp.verify(tmp_path / f"{number}.blp").trailer == "valid"
        assert bp.load(tmp_path / f"{number}.blp").tobytes() == ARRAYS[name].tobytes()
