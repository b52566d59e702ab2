"""Bundles: small arrays that follow one another are compressed together, and read as any other."""

import io
import multiprocessing
import os
import pickle
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.exceptions import (
    BloscpackError,
    FileChangedError,
    FormatError,
    UnsupportedError,
    WrongKindError,
)
from bloscpack.format.archiveindex import (
    INDEX_TAIL_SIZE,
    MAX_BUNDLE_NBYTES,
    RECORD_SIZE,
    Bundle,
    Bundled,
    Member,
    pack_archive_front,
    pack_bundle,
    pack_index,
)
from bloscpack.format.codec import CodecParams, Shuffle, encode

from ..conftest import Some
from ..pages import DOCS, page_fixture
from ..reference.archive_reader import read_archive
from .archives import content_of, packed, read

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, 6000, "u1")
FEW = {f"few {n}": np.arange(n, dtype="<i2") for n in range(7)}
MANY: dict[str, Any] = {f"layer/{n}/\u00b5": RNG.random(n % 70) for n in range(100)}
MIXED: dict[str, Any] = {
    **{f"a{n}": np.full((2, n), n, "<i4", order="F") for n in range(20)},
    "noise": NOISE,
    **{f"b{n}": np.datetime64(n, "D") for n in range(9)},
}
ATTRS = {"title": "x"}
DATA = packed(MIXED, attrs=ATTRS)
WHOLE = read(DATA)

page = page_fixture(DOCS / "formats" / "archive.md")


def members_of(data: bytes) -> dict[str, Any]:
    return dict(bp.Archive(data)._members.named)


def parts_of(data: bytes) -> list[Any]:
    return list(dict.fromkeys(member.part for member in members_of(data).values()))


def file_of(array: Any) -> bytes:
    stream = io.BytesIO()
    bp.save(stream, array)
    return stream.getvalue()


# What is in a bundle.


def test_a_thousand_small_arrays_take_little_more_than_their_items() -> None:
    data = packed({f"layer {n}": RNG.integers(0, 256, 512, "u1") for n in range(1000)})
    assert len(data) / 1000 - 512 < 100


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        (FEW, [1] * 7),
        ({**FEW, "one more": 1}, [8]),
        ({**FEW, "noise": NOISE, **{f"x{n}": n for n in range(7)}}, [1] * 15),
        (MIXED, [20, 1, 9]),
        ({f"{n}": NOISE[n : n + 3500] for n in range(20)}, [8, 8, 1, 1, 1, 1]),
        ({f"{n}" * 400: n for n in range(12)}, [10, 1, 1]),
        ({f"{n}" * 4070: n for n in range(9)}, [1] * 9),
        ({"a": NOISE, "b": NOISE}, [1, 1]),
        ({}, []),
    ],
    ids=["few", "enough", "in two runs", "mixed", "full", "long names", "names", "large", "empty"],
)
def test_small_members_that_follow_one_another(arrays: Any, expected: list[int]) -> None:
    data = packed(arrays)
    assert [len(part.members()) for part in parts_of(data)] == expected
    for part in parts_of(data):
        assert isinstance(part, Bundle) == (len(part.members()) > 1)
    assert content_of(bp.load(data)) == content_of(arrays)
    assert bp.verify(data).ok


def test_the_files_in_a_bundle_are_those_of_save() -> None:
    with bp.Archive(DATA) as archive:
        for name, array in archive.items():
            source = array.container.source
            assert bytes(source.read_at(0, source.size())) == file_of(MIXED[name])


def test_an_archive_of_large_members_has_no_bundle() -> None:
    """Its bytes are those of a file that is written member by member."""
    arrays = {"a": NOISE, "b": NOISE[::-1].copy(), "c": np.arange(3)}
    expected, parts = pack_archive_front({}), []
    for name, array in arrays.items():
        file = file_of(array)
        parts.append(Member(name, len(expected), len(file)))
        expected += parts[-1].pack() + file
    assert packed(arrays) == expected + pack_index(parts, len(expected))


# Reading.


def test_all_ways_of_reading(tmp_path: Path, page: dict[str, Any]) -> None:
    (tmp_path / "a.blp").write_bytes(DATA)
    for place in (DATA, tmp_path / "a.blp", io.BytesIO(DATA)):
        assert read(place) == WHOLE
        assert content_of(bp.load(place)) == content_of(MIXED)
    assert list(bp.Archive(DATA)) == list(MIXED)
    assert content_of({"b3": bp.load(f"{tmp_path}/a.blp::/b3")})["b3"] == WHOLE[0]["b3"]
    assert bp.verify(f"{tmp_path}/a.blp::/b3").ok
    for files in (
        page["read_archive"](DATA),
        {name: member.file for name, member in read_archive(DATA)[1].items()},
    ):
        assert content_of({name: bp.load(file) for name, file in files.items()}) == WHOLE[0]


def test_handles_pickle_and_notice_another_file(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(DATA)
    for place in (path, DATA):
        with bp.Archive(place) as archive:
            pickled = pickle.dumps(archive["a19"])
            assert content_of(pickle.loads(pickle.dumps(archive))) == WHOLE[0]
        with pickle.loads(pickled) as array:
            assert np.array_equal(array, MIXED["a19"])
    with bp.Archive(path) as archive:
        pickled = pickle.dumps(archive["a19"])
    path.write_bytes(packed({**MIXED, "a19": 1}))
    with pytest.raises(FileChangedError):
        pickle.loads(pickled)


def test_an_array_is_not_read_after_its_archive_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a.blp").write_bytes(DATA)
    archive = bp.open(tmp_path / "a.blp")
    array = archive["a5"]
    archive.close()
    with pytest.raises(ValueError, match="closed"):
        array.read_whole()


def test_refresh_finds_the_array_in_another_file(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(packed(MANY))
    array = bp.open(path)["layer/50/\u00b5"]
    bp.savez(tmp_path / "b.blp", {k: v for k, v in MANY.items() if "/50/" not in k})
    os.replace(tmp_path / "b.blp", path)
    with pytest.raises(FileChangedError, match="deleted or renamed"):
        array.refresh()


def test_threads_and_forks_share_an_archive(tmp_path: Path) -> None:
    (tmp_path / "a.blp").write_bytes(packed(MANY))
    archive = bp.open(tmp_path / "a.blp")
    names = [*MANY] * 5
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: archive[name].read_whole(), names))
    assert all(np.array_equal(a, MANY[name]) for a, name in zip(found, names, strict=True))
    child = multiprocessing.get_context("fork").Process(target=_read_all, args=(archive,))
    child.start()
    child.join()
    assert child.exitcode == 0


def _read_all(archive: bp.Archive) -> None:
    assert content_of(archive) == content_of(MANY)


def test_each_bundle_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    original = Bundle.files

    def files(bundle: Bundle, chunk: Any) -> bytes:
        decoded.append(bundle.at)
        return original(bundle, chunk)

    monkeypatch.setattr(Bundle, "files", files)
    data = packed(MANY)
    with bp.Archive(data) as archive:
        for _ in range(2):
            assert content_of(archive) == content_of(MANY)
    assert len(decoded) == len(set(decoded)) == len(parts_of(data)) > 2


# Changes.


def test_a_change_makes_a_log_and_compact_the_archive_again(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(packed(MANY, attrs=ATTRS))
    with bp.open(path, "r+") as archive:
        archive["new"] = np.arange(3)
        archive["layer/7/\u00b5"][2] = -1.0
        del archive["layer/90/\u00b5"]
    changed = {**MANY, "new": np.arange(3)}
    changed["layer/7/\u00b5"] = MANY["layer/7/\u00b5"].copy()
    changed["layer/7/\u00b5"][2] = -1.0
    del changed["layer/90/\u00b5"]
    assert read(path) == (content_of(changed), ATTRS)
    assert bp.verify(path).ok
    bp.compact(path)
    assert path.read_bytes() == packed(changed, attrs=ATTRS)


def test_arrays_are_copied_byte_for_byte() -> None:
    with bp.Archive(DATA) as archive:
        assert packed(archive) == DATA


# Damage.


def flipped(place: int) -> bytes:
    return DATA[:place] + bytes([DATA[place] ^ 1 << place % 8]) + DATA[place + 1 :]


def names_at(place: int) -> set[str]:
    """Return the names of the members whose stored bytes have this position."""
    return {
        member.name
        for part in parts_of(DATA)
        for member in part.members()
        if part.offset <= place < part.end
    }


def test_every_byte_flipped(some: Some) -> None:
    parts, index = parts_of(DATA), parts_of(DATA)[-1].end
    places = [*range(len(pack_archive_front(ATTRS)), parts[0].end), *range(parts[2].at, len(DATA))]
    for place in some(places, 31):
        data, target, damaged = flipped(place), io.BytesIO(), names_at(place)
        report = bp.verify(data)
        assert not report.ok, place
        assert {one.member for one in report.damage} - {None} == damaged, place
        for name, array in WHOLE[0].items() if place < index else ():
            if name in damaged:
                with pytest.raises(FormatError, match=r"::/.*digest is|bundle at offset \d+: "):
                    bp.Archive(data)[name].read_whole()
            else:
                assert content_of({name: bp.Archive(data)[name]})[name] == array
        assert bp.recover(data, target).ok == (not damaged and place < index), place
        expected = {k: v for k, v in WHOLE[0].items() if k not in damaged}
        assert read(target.getvalue())[0] == expected, place
        assert bp.verify(target.getvalue()).ok


def test_a_damaged_bundle_names_every_member_in_it(tmp_path: Path) -> None:
    bundle = parts_of(DATA)[0]
    data = flipped(bundle.end - 20)
    report = bp.verify(data)
    assert [one.member for one in report.damage] == [f"a{n}" for n in range(20)]
    assert {(one.offset, one.end) for one in report.damage} == {(bundle.offset, bundle.end)}
    assert f"member 'a0' in the bundle at offset {bundle.at}: " in str(report.damage[0])
    assert list(bp.Archive(data)) == list(MIXED)
    assert bp.Archive(data)["b3"][()] == MIXED["b3"]
    report = bp.recover(data, tmp_path / "new.blp")
    assert all("it is not in the new archive" in one.what for one in report.damage)
    assert list(bp.open(tmp_path / "new.blp")) == ["noise", *(f"b{n}" for n in range(9))]


def test_a_lost_index_is_rebuilt(some: Some) -> None:
    end = parts_of(DATA)[-1].end
    for size in some(range(parts_of(DATA)[0].at, len(DATA)), 31):
        target = io.BytesIO()
        whole = {m.name for part in parts_of(DATA) for m in part.members() if part.end <= size}
        try:
            report = bp.recover(DATA[:size], target)
        except FormatError:
            assert not whole
            continue
        content, attrs = read(target.getvalue())
        assert {name: WHOLE[0][name] for name in whole}.items() <= content.items(), size
        assert attrs == ATTRS
        assert not report.ok
        assert size < end or content == WHOLE[0]


def test_a_record_is_restored_from_its_copy(tmp_path: Path) -> None:
    bundle = parts_of(DATA)[0]
    data = flipped(bundle.at + RECORD_SIZE + 20)
    (damage,) = bp.verify(data).damage
    assert "members 'a0', 'a1', 'a2', 'a3', 'a4', 'a5', ...: the record" in damage.what
    assert bp.recover(data, tmp_path / "a.blp").ok
    assert (tmp_path / "a.blp").read_bytes() == DATA


# Crafted archives, whose digests are right.

FRONT = pack_archive_front({})
PARAMS = CodecParams("zstd", 1, Shuffle.NONE, 1)
FILE = file_of(np.arange(3))


def crafted(rows: bytes, files: bytes, total: int | None = None, chunk: bytes = b"") -> bytes:
    """Return an archive of one bundle."""
    chunk = chunk or encode(files, PARAMS)
    total = len(files) if total is None else total
    directory = xxh3_64_digest(chunk) + struct.pack("<I", total) + encode(rows, PARAMS)
    bundle = Bundle(len(FRONT), len(chunk), directory)
    return FRONT + bundle.pack() + chunk + pack_index([bundle], bundle.end)


def row(name: bytes, nbytes: int = len(FILE)) -> bytes:
    return struct.pack("<HH", nbytes, len(name)) + name


def test_a_crafted_archive_is_as_written() -> None:
    assert content_of(bp.load(crafted(row(b"a") + row(b"b"), FILE * 2))) == content_of(
        {"a": np.arange(3), "b": np.arange(3)}
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (crafted(row(b"a") * 2, FILE * 2), "two members have the name 'a'"),
        (crafted(row(b"a", 9) + row(b"b"), FILE * 2), r"directory .*: files of \d+ bytes, \d+ are"),
        (crafted(row(b"a") + row(b"b"), FILE), r"directory .*: files of \d+ bytes, \d+ are"),
        (crafted(row(b"a"), FILE, 2**32 - 1), r"directory .*, 4294967295 are declared"),
        (crafted(row(b"a", 65535), FILE, 65535), "directory .*: files of 65535 bytes"),
        (crafted(row(b"a")[:-1], FILE), "directory .*: files of"),
        (crafted(row(b"a")[:3], FILE), "directory .*: found 3 of 4 bytes"),
        (crafted(row(b"\xff"), FILE), "not UTF-8"),
        (crafted(row(bytes(5000)), FILE), "directory .* decodes to 5004 bytes, expected 4096"),
    ],
    ids=["twice", "less", "more", "total", "limit", "name", "row", "text", "large directory"],
)
def test_a_directory_that_lies_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        bp.open(data)
    report = bp.verify(data)
    assert not report.ok
    with pytest.raises(ValueError, match=r".|\n"):
        read_archive(data)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (crafted(row(b"a"), b"", len(FILE), encode(FILE + b"x", PARAMS)), FormatError, "declared"),
        (crafted(row(b"a"), b"", len(FILE), encode(FILE[:-1], PARAMS)), FormatError, "declared"),
        (crafted(row(b"a"), b"", len(FILE), encode(bytes(1 << 26), PARAMS)), FormatError, "67108"),
        (crafted(row(b"a"), b"", len(FILE), b"\2\1\x93\1" + bytes(12)), FormatError, "stored size"),
        (crafted(row(b"a", 0), b""), BloscpackError, r"::/a"),
        (crafted(row(b"a", len(DATA)), DATA), WrongKindError, "an archive of named arrays"),
    ],
    ids=["more", "less", "bomb", "no chunk", "no file", "an archive"],
)
def test_a_chunk_that_lies_is_refused(
    data: bytes, error: type[Exception], message: str, tmp_path: Path
) -> None:
    assert list(bp.open(data)) == ["a"]
    with pytest.raises(error, match=message):
        bp.open(data)["a"]
    with pytest.raises(BloscpackError):
        bp.load(data)
    (damage,) = bp.verify(data).damage
    assert damage.member == "a"
    with pytest.raises(FormatError, match="nothing can be saved"):
        bp.recover(data, tmp_path / "a.blp")


def test_a_part_of_a_later_kind_is_refused() -> None:
    record = bytearray(Member("a", len(FRONT), len(FILE)).pack())
    record[28] = 2
    record[32:40] = xxh3_64_digest(bytes(record[:32]) + b"a")
    end = len(FRONT) + len(record) + len(FILE)
    index = pack_index([], end)[:-INDEX_TAIL_SIZE] + bytes(record)
    tail = struct.pack("<8sHHIQQ", b"BLPKARCH", 1, 0, 1, end, len(index) + INDEX_TAIL_SIZE)
    data = FRONT + bytes(record) + FILE + index + tail + xxh3_64_digest(index + tail)
    with pytest.raises(UnsupportedError, match="kind 2"):
        bp.open(data)


def test_a_bundle_in_a_bundle_is_refused() -> None:
    inner, chunk = pack_bundle(0, {"x": FILE, "y": FILE})
    content = inner.pack() + chunk
    data = crafted(row(b"a", len(content)), content)
    with pytest.raises(BloscpackError):
        bp.open(data)["a"]


def test_members_stay_in_their_bundle() -> None:
    bundle, chunk = pack_bundle(64, dict.fromkeys("abc", FILE))
    members = bundle.members()
    assert [(one.start, one.nbytes) for one in members] == [
        (n * len(FILE), len(FILE)) for n in range(3)
    ]
    assert isinstance(members[0], Bundled)
    assert b"".join(one.file(bundle.files(chunk)) for one in members) == FILE * 3
    assert len(bundle.files(chunk)) <= MAX_BUNDLE_NBYTES
