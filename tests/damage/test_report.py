"""Reports of damage: faults and their places, and that verification changes nothing."""

from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container.reader import Container
from bloscpack.damage import report as reports
from bloscpack.damage.report import Damage, Findings, damage_of, message_of
from bloscpack.damage.verify import verify
from bloscpack.exceptions import (
    FormatError,
    FormatVersionMismatch,
    NotBloscpackError,
    TruncatedError,
)
from bloscpack.format.metadata import pack_section
from bloscpack.storage.file import FileSource

from ..arrayfiles import flipped
from ..container.files import CONTENT, CONTENTS, SIZE, make
from ..reference.file import take_apart

STARTS = take_apart(make()).starts


def damaged(position: int, data: bytes | None = None) -> bytes:
    return flipped(data or make(), position)


@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize("trailing", [b"", b"rest"])
def test_sound_file(tmp_path: Path, offsets: bool, trailing: bytes) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(make(offsets=offsets, trailing=trailing))
    report = bp.verify(path)
    assert report.ok
    assert report.damage == []
    assert (report.path, report.nchunks, report.nbytes) == (str(path), 5, len(CONTENT))


def test_takes_bytes_and_files(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(make())
    assert verify(make()).ok
    with path.open("rb") as stream:
        assert verify(stream).ok
    assert verify(make()).path is None


def test_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(damaged(STARTS[1] + 20))
    path.chmod(0o444)
    before = path.stat()
    assert not verify(path).ok
    after = path.stat()
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
    assert path.read_bytes() == damaged(STARTS[1] + 20)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.blp"]


def test_all_damaged_chunks_are_reported() -> None:
    data = damaged(STARTS[4] + 20, damaged(STARTS[1] + 20))
    report = verify(data)
    assert not report.ok
    assert [one.index for one in report.damage] == [1, 4]
    assert [one.offset for one in report.damage] == [STARTS[1], STARTS[4]]
    assert [(one.first, one.last) for one in report.damage] == [
        (SIZE, 2 * SIZE),
        (4 * SIZE, len(CONTENT)),
    ]
    assert all("adler32" in one.what for one in report.damage)


def test_content_that_no_checksum_covers_is_decoded() -> None:
    data = bytearray(make(checksum="None"))
    start = take_apart(bytes(data)).starts[2]
    data[start + 16 : start + 60] = b"\xff" * 44
    assert [one.index for one in verify(bytes(data)).damage] == [2]


def test_wrong_offset_table() -> None:
    table = [*STARTS[:2], STARTS[2] + 1, *STARTS[3:]]
    report = verify(make(offsets=table))
    assert not report.ok
    assert all("offset" in one.what for one in report.damage)


def test_unused_offset_table() -> None:
    report = verify(make(offsets=[-1] * 5))
    assert not report.ok
    assert "offset table" in report.damage[0].what
    assert [one.index for one in report.damage] == [None]


def test_damaged_metadata() -> None:
    section = pack_section({"a": 1}, codec="None")
    report = verify(damaged(32 + 34, make(section=section)))
    assert not report.ok
    assert "metadata" in report.damage[0].what
    assert report.damage[0].index is None


def test_metadata_that_are_not_json() -> None:
    section = bytearray(pack_section({"a": 1}, codec="None", checksum=None))
    section[32] = 0xFF
    report = verify(make(section=bytes(section)))
    assert not report.ok
    assert "JSON" in report.damage[0].what


@pytest.mark.parametrize("offsets", [True, False])
def test_truncated_file(offsets: bool) -> None:
    data = make(offsets=offsets)
    for length in range(5, len(data), 7):
        report = verify(data[:length])
        assert not report.ok, f"{length} of {len(data)} bytes were found sound"
    lost = verify(data[: take_apart(data).starts[3] + 30])
    assert [one.index for one in lost.damage if one.index is not None][-1:] in ([3], [4])


def test_a_header_that_promises_a_huge_file_is_reported_at_once() -> None:
    data = bytearray(make(offsets=False))
    data[16:24] = (2**40).to_bytes(8, "little")
    report = verify(bytes(data))
    assert not report.ok
    assert "missing" in report.damage[-1].what
    assert len(report.damage) < 1000


def test_chunk_that_the_header_does_not_count() -> None:
    report = verify(make(CONTENTS[:4], offsets=False, nchunks=3))
    assert not report.ok
    assert "another chunk follows" in report.damage[0].what


def test_foreign_and_unknown_files_are_errors() -> None:
    with pytest.raises(NotBloscpackError):
        verify(b"something else")
    with pytest.raises(FormatVersionMismatch):
        verify(b"blpk\x09" + bytes(60))


@pytest.mark.parametrize("nthreads", [1, 4])
def test_number_of_threads_does_not_matter(nthreads: int) -> None:
    contents = [bytes([n]) * (1 << 20) for n in range(6)]
    data = make(contents)
    assert verify(data, nthreads=nthreads).ok
    starts = take_apart(data).starts
    report = verify(damaged(starts[5] + 18, damaged(starts[2] + 18, data)), nthreads=nthreads)
    assert [one.index for one in report.damage] == [2, 5]


def test_an_array_that_its_chunks_do_not_hold_is_damage() -> None:
    # An append by bloscpack 0.16 leaves more content, and the old shape.
    metadata = {"dtype": "'|u1'", "shape": [3], "order": "C", "container": "numpy"}
    report = verify(bp.pack_bytes_to_bytes(b"four", metadata=metadata))
    assert [one.what for one in report.damage] == [
        "metadata: shape [3] of uint8 needs 3 bytes, the chunks hold 4"
    ]


@pytest.mark.parametrize("nthreads", [1, 3])
def test_progress_counts_every_byte_once(nthreads: int) -> None:
    content = bytes(range(256)) * (5 << 12)
    seen: list[tuple[int, int]] = []
    report = verify(
        bp.pack_bytes_to_bytes(content, "500K"),
        nthreads=nthreads,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert report.ok
    assert len(seen) == report.nchunks > 5
    assert sorted(seen) == seen
    assert seen[-1] == (len(content), len(content))


def test_an_error_becomes_damage_without_the_path() -> None:
    error = FormatError("chunk 3: too short", offset=512).at(path="a.blp")
    assert message_of(error) == "chunk 3: too short"
    assert damage_of(error, 3) == Damage("chunk 3: too short", 3, 512)
    assert damage_of(error, None, 0, 32) == Damage("chunk 3: too short", None, 0, 32)
    assert message_of(ValueError()) == ""


def test_findings_list_few_faults_and_count_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_DAMAGE", 3)
    found, batch = Findings(), Findings()
    for number in range(5):
        batch.add(Damage("bad", number))
        batch.note("odd")
    found.add(Damage("first"))
    found.note("odd")
    found.note("x" * 1000)
    found.merge(batch)
    assert [each.index for each in found.damage] == [None, 0, 1]
    assert found.nfaults == 6
    odd, long, unlisted = found.notices("record")
    assert (odd, unlisted) == ("odd (6 records)", "3 more faults are not listed")
    assert long.endswith("x (1 record)")
    assert len(long) < 500


def test_each_chunk_of_a_cut_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.blp"
    bp.save(path, np.random.default_rng(0).integers(0, 256, (4, 1000), "u1"), chunks=1)
    with Container.open(FileSource(path)) as container:
        starts = [container.fetch(index).offset for index in range(4)]
    content = path.read_bytes()
    for cut, first in ((starts[0] + 100, 0), (starts[1] + 5, 1), (starts[2] - 1, 1)):
        path.write_bytes(content[:cut])
        damage = bp.verify(path).damage
        assert [each.index for each in damage] == list(range(first, 4))
        for each in damage:
            assert each.what.startswith((f"chunk {each.index} ", f"chunks {each.index} to "))
            assert each.offset in (None, starts[first] if each.index == first else None)
        with bp.open(path) as array:
            for index in range(first + 1, 4):
                reason = f"chunk {index} cannot be found: chunk {first} at offset"
                with pytest.raises(TruncatedError, match=reason):
                    array[index]
