"""VRS recording truncated at any byte, on disk or while it is open: whole records, or an error."""

import struct
from pathlib import Path
from typing import Any

import pytest

from bloscpack import vrs
from bloscpack.exceptions import CodecError, FormatError, TruncatedError, UnsupportedError
from tests.conftest import ReferenceFolder
from tests.vrs.recordingfiles import build, numbered

FOLDER = ReferenceFolder("vrs")
# Files up to this size are cut at every byte, larger ones near the ends of records.
SMALL_NBYTES = 2000
ERRORS = (FormatError, CodecError, UnsupportedError)
TAGS = 4


def listed() -> list[str]:
    """Return the vectors of one file whose file order is the order of the records."""
    names = [path.stem for path in FOLDER.glob("*.vrs")]
    return [name for name in names if not list(FOLDER.glob(f"{name}.vrs_*"))]


def places(data: bytes) -> list[tuple[int, int, bool]]:
    """Return the offset and end of every record, and whether it is visible to users."""
    found, at = [], int.from_bytes(data[16:20], "little")
    while at + 32 <= len(data):
        size, type_id = struct.unpack_from("<I4xi", data, at)
        if not 32 <= size <= len(data) - at:
            break
        found.append((at, at + size, type_id not in (1, 2) and data[at + 26] != TAGS))
        at += size
    return found


def cuts(data: bytes, records: list[tuple[int, int, bool]]) -> list[int]:
    if len(data) <= SMALL_NBYTES:
        return list(range(len(data)))
    step = max(1, len(records) // 12)
    about = [end + by for _, end, _ in records[::step] for by in (-1, 0, 1, 31, 32)]
    return [*range(0, 300, 7), *sorted({at for at in about if at < len(data)})]


@pytest.mark.parametrize("name", listed())
def test_all_whole_records_come_back(name: str) -> None:
    data = (FOLDER / f"{name}.vrs").read_bytes()
    records = places(data)
    with vrs.open(data) as whole:
        rows = dict(zip(whole.table.offset.tolist(), range(len(whole)), strict=True))
        payloads = {offset: bytes(whole.read_payload(row)) for offset, row in rows.items()}
        file_tags = whole.file_tags
    assert set(payloads) <= {offset for offset, _, is_shown in records if is_shown}
    described = int.from_bytes(data[32:40], "little")
    description_end = next((end for at, end, _ in records if at == described), 0)
    for nbytes in cuts(data, records):
        if nbytes < int.from_bytes(data[16:20], "little"):
            if nbytes < 80:
                with pytest.raises(TruncatedError):
                    vrs.open(data[:nbytes])
            continue
        expected = [at for at, end, _ in records if at in payloads and end <= nbytes]
        try:
            recording = vrs.open(data[:nbytes])
        except FormatError:  # an index at the front, without the records that it lists
            if expected:
                raise
            continue
        with recording:
            assert sorted(recording.table.offset.tolist()) == expected, nbytes
            assert recording.file_tags == (file_tags if nbytes >= description_end else {})
            # Only the last record, as the cut is near it.
            for row, offset in enumerate(recording.table.offset.tolist()):
                if offset in expected[-1:]:
                    assert bytes(recording.read_payload(row)) == payloads[offset], nbytes


@pytest.mark.sampled(3)
@pytest.mark.parametrize("index", ["end", "front", "none"])
def test_cut_while_it_is_open(index: str, tmp_path: Path) -> None:
    """Reading missing data raises in every way; the rest is read, and nothing is zeros."""
    built = build(numbered(12, 700), index)
    path = tmp_path / "a.vrs"
    for nbytes in range(len(built.data) - 1, 0, -97):
        path.write_bytes(bytes(built.data))
        with vrs.open(path) as recording:
            with path.open("r+b") as file:
                file.truncate(nbytes)
            count = built.whole(nbytes)
            for row, record in enumerate(built.records):
                if row < count:
                    assert recording.read_payload(row) == record.payload
                    continue
                with pytest.raises(TruncatedError, match=f"record {row} of stream 241-1"):
                    recording.read_payload(row)
            found: list[Any] = []
            try:
                found.extend(record.payload for record in recording)
            except TruncatedError:
                assert count < 12
            assert found == [record.payload for record in built.records[:count]]
            if count < 12:
                with pytest.raises(TruncatedError):
                    recording.checksum()
            if nbytes < built.offsets[-1] + 32:
                with pytest.raises(TruncatedError):
                    recording.streams["241-1"].versions()
