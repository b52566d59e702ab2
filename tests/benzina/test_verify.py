"""Verification finds damage in datasets, sample by sample, and reports nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("av", reason="pictures are decoded by PyAV")
pytest.importorskip("PIL", reason="pictures of these tests are made by Pillow")

import bloscpack as bp
from bloscpack import benzina
from bloscpack.exceptions import UnsupportedError
from tests.conftest import Some

from . import vectors
from .codedfiles import sample, write_dataset
from .pictures import photo

NAMES = [b"0.png\0", b"1.png\0", b"2.png\0"]


def damage(path: Path, offset: int, data: bytes = b"\xff") -> Path:
    content = bytearray(path.read_bytes())
    content[offset : offset + len(data)] = data
    path.write_bytes(content)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "a.bzna", NAMES)


def location(path: Path, index: int) -> tuple[int, int]:
    with benzina.open(path) as dataset:
        return dataset[index].location, dataset[index].size


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("nthreads", [1, 3])
def test_a_valid_dataset(path: Path, decode: bool, nthreads: int) -> None:
    calls: list[tuple[int, int]] = []
    report = benzina.verify(
        path, decode=decode, nthreads=nthreads, progress=lambda *state: calls.append(state)
    )
    total = sum(len(sample(number)) for number in range(3))
    assert report.ok
    assert (report.path, report.nchunks, report.nbytes) == (str(path), 3, total)
    assert report.notices == []
    assert calls == [(total, total)]
    assert bp.verify(path) == report


@pytest.mark.parametrize("name", vectors.names("dataset"))
def test_vectors_are_valid(name: str) -> None:
    report = benzina.verify(vectors.FOLDER / name, decode=True)
    assert report.ok
    assert report.notices == []
    assert report.nchunks == vectors.facts(name)["logical"]["count"]


def test_an_empty_dataset(tmp_path: Path) -> None:
    report = benzina.verify(write_dataset(tmp_path / "a.bzna", count=0), decode=True)
    assert (report.ok, report.nchunks, report.nbytes) == (True, 0, 0)
    assert report.notices == []


def test_bytes_are_checked_too(path: Path) -> None:
    assert benzina.verify(path.read_bytes(), decode=True).nchunks == 3


def test_a_damaged_sample_is_reported_and_the_others_are_valid(path: Path) -> None:
    offset, size = location(path, 1)
    damage(path, offset)  # the size of its first box
    (found,) = benzina.verify(path).damage
    assert (found.index, found.offset, found.end) == (1, offset, offset + size)
    assert (found.clip, found.frames) == ("1.png", (0, 1))
    assert found.what.startswith("sample 1: sample: a box exceeds its parent")
    assert str(path) not in found.what


def test_damaged_pictures_need_decoding(path: Path) -> None:
    offset, _ = location(path, 2)
    with benzina.open(path) as dataset:
        track = dataset[2].layout.tracks["bzna_input"]
    damage(path, offset + track.offset, b"\x7f\xff\xff\xff")
    assert benzina.verify(path).ok
    found = benzina.verify(path, decode=True).damage
    assert [(each.index, each.clip) for each in found] == [(2, "2.png")]
    assert found[0].what.startswith("sample 2: ")


def test_thumbnails_are_decoded_where_they_are_other_pictures(tmp_path: Path) -> None:
    path = tmp_path / "a.bzna"
    with benzina.Writer(path, tile=16, preset="ultrafast") as writer:
        writer.add(photo(40, 30), name="x")
    offset, _ = location(path, 0)
    with benzina.open(path) as dataset:
        track = dataset[0].layout.tracks["bzna_thumb"]
    damage(path, offset + track.offset, b"\x7f\xff\xff\xff")
    assert benzina.verify(path).ok
    assert [each.index for each in benzina.verify(path, decode=True).damage] == [0]


def test_truncated_and_other_files_are_damaged(path: Path) -> None:
    content = path.read_bytes()
    for cut in (content[:-1], content[:100], content[:3], b"", content[:24]):
        report = benzina.verify(cut)
        (found,) = report.damage
        assert (found.index, report.nchunks, report.path) == (None, 0, None)
    path.write_bytes(content[:-1])
    assert benzina.verify(path).path == str(path)
    assert not bp.verify(path).ok
    assert "nothing was fixed" in bp.verify(path, fix=True).notices[-1]
    assert path.read_bytes() == content[:-1]


def _beyond(path: Path) -> tuple[dict[int, int], str]:
    return {1: path.stat().st_size - 10}, "extends beyond the end of the file"


def _far(path: Path) -> tuple[dict[int, int], str]:
    return {1: 2**63 + 5}, "extends beyond the end of the file"


def _index(path: Path) -> tuple[dict[int, int], str]:
    with benzina.open(path) as dataset:
        return {1: dataset.movie.moov.offset + 100 - dataset[1].size}, "lies in the box 'moov'"


def _overlap(path: Path) -> tuple[dict[int, int], str]:
    return {1: location(path, 1)[0] - 1}, "overlaps another sample"


@pytest.mark.parametrize("case", [_beyond, _far, _index, _overlap])
def test_wrong_places(
    path: Path, tmp_path: Path, case: Callable[[Path], tuple[dict[int, int], str]]
) -> None:
    offsets, what = case(write_dataset(path, NAMES))
    moved = write_dataset(tmp_path / "b.bzna", NAMES, offsets=offsets)
    found = benzina.verify(moved).damage
    assert {each.index for each in found} == {1}
    assert found[0].what == f"sample 1: it {what}" or found[0].what.startswith(
        f"sample 1: it {what}, "
    )
    assert found[0].offset is not None


def test_samples_that_share_their_bytes_are_not_damage(path: Path, tmp_path: Path) -> None:
    place = location(path, 0)[0]
    shared = write_dataset(
        tmp_path / "b.bzna", [b"0.png\0", *NAMES[1:], b"x\0"], offsets={3: place}
    )
    report = benzina.verify(shared, decode=True)
    assert report.ok
    assert "the bytes are those of another sample (1 sample)" in report.notices


def test_names_and_targets_that_differ_inside_are_notices(tmp_path: Path) -> None:
    path = write_dataset(
        tmp_path / "a.bzna",
        [b"0.png\0", b"other\0", b"2.png"],
        targets=[b"\0" * 8, b"\1" + bytes(7), b"\7" + bytes(7)],
    )
    report = benzina.verify(path)
    assert report.ok
    assert sorted(report.notices) == [
        "another 'bzna_fname' inside (1 sample)",
        "another 'bzna_target' inside (1 sample)",
    ]


def test_targets_of_another_size_are_damage_and_samples_are_checked(tmp_path: Path) -> None:
    targets = [b"\0" * 8, b"\1" * 7, b"\2" * 8]
    path = write_dataset(tmp_path / "a.bzna", NAMES, targets=targets)
    damage(path, location(path, 2)[0])
    found = benzina.verify(path).damage
    assert [each.index for each in found] == [None, 2]
    assert "7 bytes" in found[0].what


def test_more_targets_than_samples_are_damage(tmp_path: Path) -> None:
    targets = [bytes(8)] * 4
    report = benzina.verify(write_dataset(tmp_path / "a.bzna", NAMES, targets=targets))
    assert [each.what for each in report.damage] == [
        "track 'bzna_target': 4 entries, but only 3 samples"
    ]


def test_faults_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bloscpack.damage.report.MAX_DAMAGE", 5)
    far = dict.fromkeys(range(9), 2**40)
    report = benzina.verify(write_dataset(tmp_path / "a.bzna", [b"n\0"] * 9, offsets=far))
    assert len(report.damage) == 5
    assert not report.ok
    assert report.notices[-1] == "4 more faults are not listed"
    assert [each.clip for each in report.damage] == [f"n#{number}" for number in range(5)]


def test_any_damage_of_the_index_gives_a_report(tmp_path: Path, some: Some) -> None:
    content = write_dataset(tmp_path / "a.bzna", NAMES).read_bytes()
    start = content.index(b"moov") - 4
    damaged = 0
    refusals = set()  # of a valid file with a flag that places its samples elsewhere
    for number, at in some(enumerate(range(start, len(content), 9)), 5):
        new = (b"\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\xff" * 8)[number % 4]
        changed = content[:at] + new + content[at + len(new) :]
        try:
            damaged += not benzina.verify(changed[: len(content)]).ok
        except UnsupportedError as err:
            refusals.add(str(err).partition(": ")[2])
    assert damaged > 20
    outside = "its samples are in another file (data reference 'url '), which is not supported: "
    assert refusals <= {outside + "copy them into this file"}
