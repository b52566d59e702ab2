"""Damage at every byte: an error or the same data, and what is whole is recovered."""

import io
import struct
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, FormatError, TruncatedError
from bloscpack.format.archiveindex import (
    INDEX_TAIL_SIZE,
    RECORD_MAGIC,
    Member,
    pack_archive_front,
    pack_index,
)

from ..conftest import Some
from .archives import ARRAYS, ATTRS, Content, content_of, packed, read

DATA = packed(attrs=ATTRS)
MEMBERS = list(bp.Archive(DATA)._members.named.values())
INDEX = MEMBERS[-1].end
WHOLE = read(DATA)


def flipped(place: int, bit: int = 0) -> bytes:
    return DATA[:place] + bytes([DATA[place] ^ 1 << bit]) + DATA[place + 1 :]


def partly(data: bytes) -> Content:
    """Return the arrays of an archive that can be read; they must have the right content."""
    found: Content = {}
    with bp.Archive(data) as archive:
        for name in archive:
            try:
                found |= content_of({name: archive[name]})
            except BloscpackError:
                continue
    return found


def test_every_byte_flipped(some: Some) -> None:
    for place in some(range(len(DATA)), 7):
        data, target = flipped(place, place % 8), io.BytesIO()
        try:
            found = read(data)
        except BloscpackError:
            found = None
        assert found in (None, WHOLE), place
        report = bp.verify(data)
        in_member = [one for one in MEMBERS if one.offset <= place < one.end]
        assert found or not report.ok, place
        if not in_member:
            # Each byte outside of the members' files has a digest of its own, or a second copy.
            assert not report.ok or place in range(64, 96), place
        elif not report.ok:
            assert {one.member for one in report.damage} == {in_member[0].name}, place
            assert all(
                one.offset is None or in_member[0].offset <= one.offset <= in_member[0].end
                for one in report.damage
            )
        recovered = bp.recover(data, target)
        content, attrs = read(target.getvalue())
        assert attrs in ([ATTRS] if recovered.ok else [{}, ATTRS])
        assert not recovered.ok or content == WHOLE[0]
        for name, array in WHOLE[0].items():
            if not in_member or name != in_member[0].name:
                assert content[name] == array, place
        assert bp.verify(target.getvalue()).ok


def test_every_truncation(some: Some) -> None:
    for size in some(range(len(DATA)), 13):
        data, target = DATA[:size], io.BytesIO()
        with pytest.raises(BloscpackError):
            bp.open(data)
        complete = {one.name: WHOLE[0][one.name] for one in MEMBERS if one.end <= size}
        try:
            report = bp.recover(data, target)
        except FormatError:
            assert not complete
            continue
        assert not report.ok
        assert report.damage[-1].what
        assert complete.items() <= read(target.getvalue())[0].items()
        assert size < 64 or not bp.verify(data).ok


def test_a_torn_end_names_the_way_out() -> None:
    with pytest.raises(TruncatedError, match=r"index: .*cut off; bloscpack.recover writes"):
        bp.open(DATA[:-1])


def test_a_damaged_index_and_record_lose_one_member(tmp_path: Path) -> None:
    """Both copies of a name are gone; the other members are still found."""
    data = bytearray(flipped(INDEX + 3))
    data[MEMBERS[1].at + 41] ^= 1
    report = bp.recover(bytes(data), tmp_path / "a.blp")
    assert list(bp.load(tmp_path / "a.blp")) == [MEMBERS[0].name, MEMBERS[2].name]
    whats = [(one.what.split(":")[0], one.offset, one.end) for one in report.damage]
    assert whats == [
        ("no record of a member", MEMBERS[1].at, MEMBERS[2].at),
        ("index", INDEX, len(DATA)),
    ]
    assert report.trailer == "damaged"


def test_a_member_in_the_place_of_another_is_lost(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 256, (8, 9000)).astype("u1")
    bp.savez(tmp_path / "a.blp", one=array, two=array + 1)
    data = bytearray((tmp_path / "a.blp").read_bytes())
    one, two = data.find(RECORD_MAGIC), data.find(RECORD_MAGIC, 1000)
    data[one:two] = data[two : 2 * two - one]
    report = bp.verify(bytes(data))
    assert not report.ok
    assert "member 'one': the content of others is in its place" in str(report.damage[0])
    report = bp.recover(bytes(data), tmp_path / "b.blp")
    assert not report.ok
    assert {name: each.tolist() for name, each in bp.load(tmp_path / "b.blp").items()} == {
        "two": (array + 1).tolist()
    }


def test_records_inside_of_members_are_not_members(tmp_path: Path) -> None:
    """The content of an array may be an archive, also one that was made for this place."""
    inner = packed({"inner": np.arange(3)})
    data = bytearray(packed({"outer": np.frombuffer(inner, "u1"), "b": 1}, codec="lz4", clevel=0))
    assert inner in data
    members = list(bp.Archive(bytes(data))._members.named.values())
    data[members[0].at] ^= 1
    data[-1] ^= 1
    assert bp.recover(bytes(data), tmp_path / "a.blp").damage[0].end == members[1].at
    assert list(bp.load(tmp_path / "a.blp")) == ["b"]


def test_a_search_takes_time_for_the_bytes_that_are_there(tmp_path: Path) -> None:
    data = bytearray(FRONT)
    while len(data) < 1 << 20:
        data += RECORD_MAGIC + len(data).to_bytes(8, "little") + struct.pack("<QII8x", 5, 4096, 0)
    path = tmp_path / "sparse.blp"
    with path.open("wb") as file:
        file.write(FRONT)
        file.truncate(1 << 40)
    began = process_time()
    for where in (bytes(data), path):
        assert not bp.verify(where).ok
        with pytest.raises(FormatError, match="nothing can be saved"):
            bp.recover(where, io.BytesIO())
    assert process_time() - began < 3  # a tenth of that; a search that is not linear takes 10


def test_damage_names_the_member_and_the_chunk(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (40, 1000), "u1")
    data = bytearray(packed({"a": np.arange(3), "b": rows}, chunks=10))
    with bp.Archive(bytes(data)) as archive:
        member = archive._members.named["b"]
        at = member.offset + archive["b"].chunk_offset(2) + 50
    data[at] ^= 1
    with bp.Archive(bytes(data)) as archive:
        with pytest.raises(FormatError, match="memory::/b: chunk 2"):
            archive["b"].read_whole()
        assert archive["b"][35].tolist() == rows[35].tolist()
    (damage,) = bp.verify(bytes(data)).damage
    assert (damage.member, damage.index, damage.rows) == ("b", 2, (20, 30))
    assert damage.offset is not None
    assert damage.offset <= at < (damage.end or 0)
    assert f"member 'b' at offset {member.offset}: chunk 2" in str(damage)
    report = bp.recover(bytes(data), tmp_path / "new.blp")
    assert (report.saved, report.nchunks) == (4, 5)
    with bp.Archive(tmp_path / "new.blp") as archive:
        assert archive["b"].attrs["bloscpack_recovered"] == {"missing_rows": [[20, 30]]}
        expected = rows.copy()
        expected[20:30] = 0
        assert np.array_equal(archive["b"], expected)


def test_progress_counts_stored_bytes(tmp_path: Path) -> None:
    total = sum(one.nbytes for one in MEMBERS)
    for call in (
        lambda note: bp.verify(DATA, progress=note),
        lambda note: bp.recover(DATA, tmp_path / "a.blp", progress=note),
    ):
        seen: list[tuple[int, int]] = []
        call(lambda done, of, seen=seen: seen.append((done, of)))
        assert seen == sorted(seen)
        assert seen[-1] == (total, total)


def test_nothing_to_recover(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="nothing can be saved"):
        bp.recover(DATA[:100], tmp_path / "a.blp")
    assert not list(tmp_path.iterdir())
    (tmp_path / "b.blp").write_bytes(packed({})[:-1])
    with pytest.raises(FormatError, match="nothing can be saved"):
        bp.recover(tmp_path / "b.blp", tmp_path / "a.blp")


def test_fix_advises_recover(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(flipped(INDEX))
    report = bp.verify(path, fix=True)
    assert (
        report.notices[-1] == "nothing was fixed: recover writes a new archive of the whole arrays"
    )
    assert path.read_bytes() == flipped(INDEX)
    path.write_bytes(DATA)
    with pytest.raises(ValueError, match="cannot be fixed; recover writes a new archive"):
        bp.verify(f"{path}::/ramp", fix=True)


FRONT = pack_archive_front({})
FILE = DATA[MEMBERS[0].offset : MEMBERS[0].end]


def crafted(*members: Member, offset: int | None = None, count: int | None = None) -> bytes:
    """Return an archive with a right digest over an index of these members."""
    body = b"".join(one.pack() + FILE for one in members)
    index = bytearray(pack_index(members, len(FRONT + body) if offset is None else offset))
    return FRONT + body + bytes(index)


def placed(*names: str) -> list[Member]:
    found: list[Member] = []
    for name in names:
        at = found[-1].end if found else len(FRONT)
        found.append(Member(name, at, len(FILE)))
    return found


def test_crafted_archives_are_as_written() -> None:
    assert list(bp.load(crafted(*placed("a", "b")))) == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b: (a, b._replace(name="a")), "two members have the name 'a'"),
        (lambda a, b: (a, b._replace(at=b.at - 1)), "the member before it ends at"),
        (lambda a, b: (a, b._replace(at=b.at + 1)), "the member before it ends at"),
        (lambda a, b: (a._replace(nbytes=a.nbytes + 1), b), "the member before it ends at"),
        (lambda a, b: (a, b._replace(nbytes=2**63)), "expected 2 that end at"),
        (lambda a, b: (a, b._replace(nbytes=0)), "expected 2 that end at"),
        (lambda a, b: (a._replace(at=0), b), "is at 0"),
        (lambda a, b: (b, a), "the member before it ends at"),
        (lambda a, b: (a, a), "the member before it ends at"),
    ],
)
def test_members_that_overlap_or_lie_elsewhere_are_refused(change: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        bp.open(crafted(*change(*placed("a", "b"))))


def test_bytes_between_the_parts_are_refused_or_reported() -> None:
    with pytest.raises(FormatError, match="do not fit into a file of"):
        bp.open(DATA[:INDEX] + b"extra" + DATA[INDEX:])
    member = Member("a", len(FRONT) + 5, len(FILE))
    data = FRONT + b"extra" + member.pack() + FILE + pack_index([member], member.end)
    (damage,) = bp.verify(data).damage
    assert (damage.offset, damage.end) == (len(FRONT), member.at)


def test_the_first_of_two_members_of_one_name_is_found(tmp_path: Path) -> None:
    one, two = placed("a", "a")
    other = io.BytesIO()
    bp.save(other, np.zeros(3))
    data = FRONT + one.pack() + FILE + two._replace(nbytes=0).pack() + other.getvalue()
    report = bp.recover(data, tmp_path / "a.blp")
    assert bp.load(tmp_path / "a.blp")["a"].tolist() == ARRAYS["ramp"].tolist()
    assert not report.ok


@pytest.mark.parametrize(
    ("at", "field"),
    [(12, 2**32 - 1), (12, 1), (12, 3), (16, 0), (16, 2**40), (24, 0), (24, 2**40), (8, 9)],
)
def test_a_tail_that_lies_is_refused(at: int, field: int) -> None:
    from xxhash import xxh3_64_digest

    data = bytearray(crafted(*placed("a", "b")))
    size = {8: 2, 12: 4, 16: 8, 24: 8}[at]
    start = len(data) - INDEX_TAIL_SIZE + at
    data[start : start + size] = field.to_bytes(size, "little")
    index = MEMBERS and len(crafted(*placed("a", "b"))) - 2 * (40 + 1) - INDEX_TAIL_SIZE
    data[-8:] = xxh3_64_digest(bytes(data[index:-8]))
    with pytest.raises(BloscpackError):
        bp.open(bytes(data))


def test_names_that_are_not_utf_8_are_refused() -> None:
    class Raw(bytes):
        """Text that encodes to other bytes."""

        def encode(self) -> bytes:
            return bytes(self)

    member = Member(Raw(b"\xff\xfe"), len(FRONT), len(FILE))  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="not UTF-8"):
        bp.open(crafted(member))
