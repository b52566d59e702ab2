"""Recovery of arrays: what is saved and reported, and that no data are invented."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.damage.recover import ATTRS_KEY
from bloscpack.exceptions import (
    BloscpackError,
    ChecksumMismatch,
    FileChangedError,
    FormatError,
    NotBloscpackError,
)
from tests.conftest import Some

from .. import arrayfiles
from ..arrayfiles import wreck
from ..container.files import CONTENT, SIZE, make
from ..reference.file import take_apart

# Rising noise: array chunks of it are smaller than Blosc chunks.
NOISE = np.random.default_rng(5).integers(0, 100, (40, 60))
ARRAY = (NOISE + 1000 * np.arange(2400).reshape(40, 60)).astype("<i4")
OPTIONS: dict[str, Any] = {"chunks": 7, "attrs": {"unit": "m"}}


@pytest.fixture(params=["zstd", "auto"], autouse=True)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Codec of `saved`."""
    monkeypatch.setitem(OPTIONS, "codec", request.param)
    found: str = request.param
    return found


def saved(array: Any = ARRAY, **options: Any) -> bytes:
    return arrayfiles.saved(array, **{**OPTIONS, **options})


def recovered(data: bytes) -> tuple[bp.Report, bytes]:
    """Recover `data`; check that the new file is sound and has a trailer."""
    target = io.BytesIO()
    report = bp.recover(data, target)
    found = bp.verify(target.getvalue())
    assert found.ok, found
    assert found.trailer == "valid"
    return report, target.getvalue()


def test_a_sound_file_is_copied_chunk_by_chunk(codec: str) -> None:
    data = saved()
    versions = {data[start] for start in take_apart(data).starts}
    assert versions == {0x82 if codec == "auto" else 2}
    report, new = recovered(data)
    assert report.ok
    assert (report.saved, report.nchunks, report.nbytes) == (6, 6, ARRAY.nbytes)
    assert new == data


@pytest.mark.sampled(5)
@pytest.mark.parametrize("options", [{}, {"checksum": None}, {"checksum": "xxh3_128"}])
def test_cut_at_every_byte(options: dict[str, Any], some: Some) -> None:
    data = saved(**options)
    parts = take_apart(data) if not options.get("checksum") else None
    with bp.open(data) as array:
        starts = [array.chunk_offset(index) for index in range(6)]
    ends = [*starts[1:], len(data) - len(parts.trailing) if parts else len(data)]
    for size in some(range(len(data)), 5):
        whole = sum(end <= size for end in ends)
        try:
            report, new = recovered(data[:size])
        except BloscpackError:
            assert whole == 0
            continue
        assert parts is None or report.saved == whole
        count = min(7 * (report.saved or 0), 40)
        assert np.array_equal(bp.load(new), ARRAY[:count])
        assert report.ok == (count == 40)
        if count < 40:
            assert report.damage[-1].rows == (count, 40)


def test_missing_inside_is_zeros_and_listed() -> None:
    data = saved()
    starts = take_apart(data).starts
    report, new = recovered(wreck(data, (starts[1], starts[3]), (starts[4] + 16, starts[4] + 30)))
    assert [(one.index, one.rows) for one in report.damage] == [(1, (7, 21)), (4, (28, 35))]
    assert [(one.offset, one.end) for one in report.damage] == [
        (starts[1], starts[3]),
        (starts[4], starts[5]),
    ]
    with bp.open(new) as array:
        assert array.attrs == {"unit": "m", ATTRS_KEY: {"missing_rows": [[7, 21], [28, 35]]}}
        assert not array[7:21].any()
        assert not array[28:35].any()
        for rows in (slice(0, 7), slice(21, 28), slice(35, 40)):
            assert np.array_equal(array[rows], ARRAY[rows])
    again, newer = recovered(new)
    assert again.ok
    assert newer == new


@pytest.mark.parametrize("swapped", [False, True])
def test_whole_chunks_in_the_places_of_others(swapped: bool, tmp_path: Path) -> None:
    array = np.random.default_rng(6).integers(0, 256, (10, 1000)).astype("u1")
    data = bytearray(saved(array, chunks=1, codec="zstd"))
    starts = take_apart(bytes(data)).starts
    size = starts[1] - starts[0]
    two, five = slice(starts[2], starts[2] + size), slice(starts[5], starts[5] + size)
    other = bytes(data[five])
    data[five] = data[two]
    if swapped:
        data[two] = other
    report, found = recovered(bytes(data))
    wanted = array.copy()
    if not swapped:
        wanted[5] = 0
    assert np.array_equal(bp.load(found), wanted)
    assert report.ok is swapped
    (tmp_path / "a.blp").write_bytes(data)
    before = bytes(data)
    with pytest.raises(ChecksumMismatch, match="recorded in the trailer"):  # noqa: SIM117
        with bp.open(tmp_path / "a.blp", "r+") as opened:
            opened[0] = 1
    assert (tmp_path / "a.blp").read_bytes() == before


def test_a_second_recovery_adds_to_the_list() -> None:
    data = saved()
    starts = take_apart(data).starts
    _, new = recovered(wreck(data, (starts[1], starts[2])))
    starts = take_apart(new).starts
    _, newer = recovered(wreck(new, (starts[2], starts[3])))
    with bp.open(newer) as array:
        assert array.attrs[ATTRS_KEY] == {"missing_rows": [[7, 21]]}


@pytest.mark.sampled(11)
@pytest.mark.parametrize("position", range(60))
def test_a_damaged_front_comes_from_the_trailer(position: int) -> None:
    data = saved()
    for bit in range(8):
        changed = bytearray(data)
        changed[position] ^= 1 << bit
        report, new = recovered(bytes(changed))
        assert report.ok
        assert np.array_equal(bp.load(new), ARRAY)
        assert new == data


def test_a_front_of_zeros() -> None:
    data = saved()
    front = take_apart(data).starts[0]
    report, new = recovered(bytes(front) + data[front:])
    assert report.ok
    assert "restored" in report.notices[0]
    assert new == data


def test_a_lost_table_is_rebuilt() -> None:
    data = saved()
    parts = take_apart(data)
    table = 32 + len(parts.section)
    lost = data[:table] + b"\xff" * (parts.starts[0] - table) + data[parts.starts[0] :]
    assert recovered(lost)[1] == data
    report, new = recovered(make(offsets=[-1] * 5))
    assert report.ok
    assert take_apart(new).offsets == take_apart(new).starts


def test_fortran_order_and_large_rows() -> None:
    array = np.asfortranarray(np.arange(60.0).reshape(5, 12))
    data = saved(array, chunks=(5, 2))
    starts = take_apart(data).starts
    report, new = recovered(wreck(data, (starts[1], starts[2]))[: starts[4] + 5])
    assert [one.rows for one in report.damage] == [(2, 4), (8, 12)]
    found = bp.load(new)
    assert found.shape == (5, 8)
    assert np.array_equal(found[:, 4:], array[:, 4:8])
    assert np.isfortran(found)


def test_chunks_that_cut_rows() -> None:
    array = np.arange(100, dtype="<i4").reshape(10, 10)
    data = bp.pack_ndarray_to_bytes(array, chunk_size=64)  # rows of 40 bytes
    starts = take_apart(data).starts
    report, new = recovered(data[: starts[4]])
    assert np.array_equal(bp.load(new), array[:6])  # 256 bytes are 6.4 rows
    assert "not whole" in report.damage[-1].what
    report, new = recovered(wreck(data, (starts[2], starts[3])))
    with bp.open(new) as opened:
        assert opened.attrs[ATTRS_KEY] == {"missing_rows": [[3, 5]]}
        assert np.array_equal(opened[:3], array[:3])
        assert np.array_equal(opened[5:], array[5:])


def test_not_even_a_row() -> None:
    array = np.arange(200, dtype="<i4").reshape(2, 100)
    data = bp.pack_ndarray_to_bytes(array, chunk_size=128)
    report, new = recovered(data[: take_apart(data).starts[2]])
    found = bp.load(new)
    assert found.shape == (1, 100)
    assert np.array_equal(found[0, :64], array[0, :64])
    assert not found[0, 64:].any()
    assert not report.ok
    with bp.open(new) as opened:
        assert opened.attrs[ATTRS_KEY] == {"missing_rows": [[0, 1]]}


def test_other_content_and_its_metadata() -> None:
    data = bp.pack_bytes_to_bytes(CONTENT, chunk_size=SIZE, metadata=["anything"])
    starts = take_apart(data).starts
    report, new = recovered(wreck(data, (starts[1], starts[2])))
    content, metadata = bp.unpack_bytes_from_bytes(new)
    assert metadata == ["anything"]
    assert content == CONTENT[:SIZE] + bytes(SIZE) + CONTENT[2 * SIZE :]
    assert [(one.first, one.last, one.rows) for one in report.damage] == [(SIZE, 2 * SIZE, None)]


def test_damaged_metadata_without_a_checksum_come_from_the_trailer() -> None:
    plain = bp.MetadataArgs(meta_checksum="None")
    _, data = recovered(bp.pack_bytes_to_bytes(CONTENT, metadata=["anything"], metadata_args=plain))
    report, new = recovered(data.replace(b"anything", b"anyth1ng", 1))
    assert "restored" in report.notices[0]
    assert new == data


def test_a_first_chunk_of_no_bytes_gives_no_size() -> None:
    """Without a checksum, a damaged header may say that the chunk is empty, and be decoded."""
    data = bytearray(make(checksum="None"))
    start = take_apart(bytes(data)).starts[0]
    data[start + 4 : start + 8] = bytes(4)
    report, new = recovered(bytes(data))
    assert bp.unpack_bytes_from_bytes(new)[0] == bytes(SIZE) + CONTENT[SIZE:]
    assert [(one.first, one.last) for one in report.damage] == [(0, SIZE)]
    data[8 : 8 + 4] = b"\xff" * 4  # the size of chunks is unknown
    with pytest.raises(FormatError, match="a chunk of no bytes before others; the chunk size"):
        recovered(bytes(data))


def test_lost_metadata_leave_bytes() -> None:
    data = bytearray(bp.pack_ndarray_to_bytes(ARRAY))
    data[32 + 34] ^= 1
    report, new = recovered(bytes(data))
    assert not report.ok
    assert "lost" in report.damage[0].what
    assert bp.load(new).tobytes() == ARRAY.tobytes()


@pytest.mark.parametrize("version", [1, 2])
def test_old_versions_become_new_ones(version: int) -> None:
    data = make(version=2)
    if version == 1:
        data = b"blpk\1\0\0\0" + (5).to_bytes(8, "little") + b"".join(take_apart(data).chunks)
    report, new = recovered(data)
    assert report.ok
    assert bp.unpack_bytes_from_bytes(new)[0] == CONTENT


def test_version_2_with_a_larger_last_chunk() -> None:
    contents = [b"a" * 100, b"b" * 100, b"c" * 250]
    data = make(contents, version=2, offsets=False)
    report, new = recovered(data)
    assert report.ok
    assert bp.unpack_bytes_from_bytes(new)[0] == b"".join(contents)


def test_empty_and_scalar_arrays() -> None:
    for array in (np.zeros((0, 3)), np.array(3.5), np.zeros(4)[:0]):
        report, new = recovered(saved(array, chunks=None))
        assert report.ok
        assert bp.load(new).shape == array.shape


def test_nothing_to_save_leaves_the_target(tmp_path: Path) -> None:
    target = tmp_path / "new.blp"
    target.write_bytes(b"old")
    data = saved()
    start = take_apart(data).starts[0]
    for damaged in (data[:start], data[:40], data[:10], data[: start + 20]):
        with pytest.raises(FormatError):
            bp.recover(damaged, target)
    with pytest.raises(NotBloscpackError):
        bp.recover(b"something else", target)
    assert target.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["new.blp"]


def test_a_source_that_changes_leaves_the_target(tmp_path: Path) -> None:
    data = bytearray(saved())
    last = take_apart(bytes(data)).starts[-1]

    def change(done: int, total: int) -> None:
        data[last + 30] = 0 if data[last + 30] else 1

    with pytest.raises(FileChangedError, match="nothing was written"):
        bp.recover(data, tmp_path / "new.blp", progress=change)
    assert list(tmp_path.iterdir()) == []


def test_same_file_is_refused(tmp_path: Path) -> None:
    path, link = tmp_path / "a.blp", tmp_path / "b.blp"
    path.write_bytes(saved())
    link.symlink_to(path)
    for target in (path, str(path), link):
        with pytest.raises(ValueError, match="same file"):
            bp.recover(path, target)
    assert path.read_bytes() == saved()


@pytest.mark.parametrize("nthreads", [1, 4])
def test_paths_threads_and_progress(tmp_path: Path, nthreads: int) -> None:
    array = np.arange(3 << 20, dtype="u1").reshape(-1, 1024)
    source, target = tmp_path / "a.blp", tmp_path / "b.blp"
    source.write_bytes(saved(array, chunks=256))
    seen: list[tuple[int, int]] = []
    report = bp.recover(
        source, target, nthreads=nthreads, progress=lambda *state: seen.append(state)
    )
    assert report.path == str(source)
    assert source.read_bytes() == target.read_bytes()
    assert seen[-1] == (array.nbytes, array.nbytes)
    assert len(seen) == 12


@pytest.mark.parametrize("count", [1 << 60, 1 << 62])
def test_a_count_of_spare_entries_that_no_file_has(tmp_path: Path, count: int) -> None:
    """The first chunk would be at an offset beyond those at which a system reads."""
    path = tmp_path / "damaged.blp"
    rows = np.arange(40, dtype="u2").reshape(10, 4)
    bp.save(path, rows, chunks=3, checksum="crc32")
    data = bytearray(path.read_bytes())
    data[24:32] = count.to_bytes(8, "little")
    path.write_bytes(data[:-64])  # without the trailer, which restores the header
    report = bp.recover(path, tmp_path / "found.blp")
    assert report.ok
    assert np.array_equal(bp.load(tmp_path / "found.blp"), rows)
