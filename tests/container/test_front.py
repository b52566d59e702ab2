"""Front of a file: which fronts are states of one file, and one that changes while it is read."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bloscpack.container import front
from bloscpack.container.front import Front, open_front, read_front
from bloscpack.format.metadata import pack_section
from bloscpack.storage.file import open_source
from bloscpack.storage.memory import MemorySource

from .files import CONTENTS, make

LONGER = [*CONTENTS[:-1], CONTENTS[0], CONTENTS[-1]]


def front_of(data: bytes) -> Front:
    return read_front(MemorySource(data))


def test_a_longer_file_with_fewer_spare_entries_continues_a_file() -> None:
    one, two = front_of(make(spare=3)), front_of(make(LONGER, spare=2))
    assert one.is_continued(one)
    assert one.is_continued(two)
    assert one.has_start_of(two)
    assert not two.is_continued(one)
    assert not two.has_start_of(one)


@pytest.mark.parametrize(
    "changes",
    [
        {"contents": [each[:-1] for each in LONGER]},
        {"checksum": "crc32"},
        {"typesize": 2},
    ],
    ids=str,
)
def test_a_file_of_other_chunks_continues_none(changes: dict[str, Any]) -> None:
    one, two = front_of(make(spare=3)), front_of(make(**{"contents": LONGER, "spare": 2} | changes))
    assert one.data_offset == two.data_offset
    assert not one.has_start_of(two)
    assert not one.is_continued(two)


@pytest.mark.parametrize("offsets", [True, False])
def test_a_file_with_another_table_continues_none(offsets: bool) -> None:
    one, two = (front_of(make(each, offsets=offsets, spare=0)) for each in (CONTENTS, LONGER))
    assert one.has_start_of(two)
    assert not one.is_continued(two)


def test_a_file_with_another_metadata_section_continues_none() -> None:
    small, large = (pack_section([1], reserve=nbytes) for nbytes in (40, 80))
    one = front_of(make(spare=3, section=small))
    two = front_of(make(LONGER, spare=2, section=large))
    assert one.has_start_of(two)
    assert not one.is_continued(two)


def test_a_header_that_changes_while_the_front_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(make(spare=3))
    later = make(LONGER, spare=2)
    heads = []

    def read(*args: Any, **options: Any) -> Front:
        found = read_front(*args, **options)
        heads.append(found.head)
        path.write_bytes(later)  # the same file, as a writer changes it
        return found

    monkeypatch.setattr(front, "read_front", read)
    found, source = open_front(open_source(path))
    with closing(source):
        assert found.head == heads[-1] == later[: len(found.head)]
        assert found.nchunks == len(LONGER)
    assert heads[0] != heads[1]
