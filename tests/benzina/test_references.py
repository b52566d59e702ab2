"""Tracks with samples in another file, or encrypted or restricted ones, are refused on opening."""

from pathlib import Path

import pytest

from bloscpack import benzina
from bloscpack.benzina.mp4.bmff import pack_full_box
from bloscpack.benzina.mp4.samplelayout import parse_sample
from bloscpack.exceptions import FormatError, UnsupportedError

from .datasetfiles import boxes, dataset_bytes, patched, replaced
from .making import sample

INSIDE = pack_full_box(b"url ", 0, 1)
OUTSIDE = pack_full_box(b"url ", 0, 0, b"other.mp4\0")
URN = pack_full_box(b"urn ", 0, 1, b"urn:x\0")


def with_references(*references: bytes, number: int = 1) -> bytes:
    """Return a dataset with other data references, one of which the samples use."""
    data = dataset_bytes([b"one", b"two"], [b"a\0", b"b\0"])
    (stsd,) = boxes(data, b"stsd", "bzna_input")
    entry = stsd.payload_offset + 8
    data = patched(data, entry + 8 + 6, number.to_bytes(2, "big"))
    dref = boxes(data, b"dref", "bzna_input")[0]
    count = len(references).to_bytes(4, "big")
    return replaced(data, dref, pack_full_box(b"dref", 0, 0, count, *references))


def test_samples_of_this_file_are_read() -> None:
    for data in (with_references(INSIDE), with_references(OUTSIDE, INSIDE, number=2)):
        with benzina.open(data) as dataset:
            assert dataset[1].data == b"two"


@pytest.mark.parametrize(("reference", "kind"), [(OUTSIDE, "url "), (URN, "urn ")])
def test_samples_of_another_file_are_refused(reference: bytes, kind: str) -> None:
    words = rf"'bzna_input': its samples are in another file \(data reference '{kind}'\)"
    for data in (with_references(reference), with_references(INSIDE, reference, number=2)):
        with pytest.raises(UnsupportedError, match=words):
            benzina.open(data)
        with pytest.raises(UnsupportedError, match=words):
            benzina.verify(data, decode=True)


@pytest.mark.parametrize("number", [0, 2, 65535])
def test_a_reference_that_is_not_there_is_damage(number: int) -> None:
    data = with_references(INSIDE, number=number)
    with pytest.raises(FormatError, match=rf"data reference {number}, the track has 1"):
        benzina.open(data)
    assert not benzina.verify(data).ok


@pytest.mark.parametrize("kind", [b"encv", b"encm", b"resv"])
def test_encrypted_samples_are_refused(kind: bytes) -> None:
    data = with_references(INSIDE)
    (stsd,) = boxes(data, b"stsd", "bzna_input")
    data = patched(data, stsd.payload_offset + 8 + 4, kind)
    with pytest.raises(UnsupportedError, match=f"'{kind.decode()}': the samples are encrypted"):
        benzina.open(data)


def test_every_sample_entry_is_looked_at() -> None:
    data = with_references(INSIDE, OUTSIDE)
    (stsd,) = boxes(data, b"stsd", "bzna_input")
    first = data[stsd.payload_offset + 8 : stsd.end]
    second = patched(first, 8 + 6, b"\0\2")
    changed = pack_full_box(b"stsd", 0, 0, b"\0\0\0\2", first, second)
    with pytest.raises(UnsupportedError, match="in another file"):
        benzina.open(replaced(data, stsd, changed))


def test_an_encrypted_picture_is_refused() -> None:
    data = sample()
    assert parse_sample(data).tracks
    with pytest.raises(UnsupportedError, match="'encv' marks it as encrypted"):
        parse_sample(data.replace(b"hvc1", b"encv"))


def elsewhere(data: bytes) -> bytes:
    """Return a sample whose tracks refer to bytes in another file."""
    assert INSIDE in data
    return data.replace(INSIDE, INSIDE[:-1] + b"\0")


class TestPictures:
    """Data references inside the mp4 of one picture."""

    def test_one_in_another_file_is_refused_by_name(self, tmp_path: Path) -> None:
        path = tmp_path / "pictures.bzna"
        path.write_bytes(dataset_bytes([sample(), elsewhere(sample())], [b"a\0", b"b\0"]))
        words = r"pictures\.bzna: sample 1: .*the bytes of a track are in another file"
        with benzina.open(path) as dataset:
            assert dataset[0].read_track("bzna_thumb")
            for read in (
                lambda: dataset[1].read_track("bzna_thumb"),
                lambda: dataset[1].decode(),
                lambda: dataset["b"][0],
                lambda: dataset.read([("b", 0)]),
            ):
                with pytest.raises(UnsupportedError, match=words):
                    read()

    @pytest.mark.parametrize("decode", [False, True])
    def test_verify_reports_it(self, decode: bool) -> None:
        pytest.importorskip("av")
        report = benzina.verify(
            dataset_bytes([elsewhere(sample()), sample().replace(b"hvc1", b"encv")]), decode=decode
        )
        assert not report.ok
        assert [damage.index for damage in report.damage] == [0, 1]
        assert "the bytes of a track are in another file" in report.damage[0].what
        assert "'encv' marks it as encrypted" in report.damage[1].what

    def test_the_writer_refuses_it(self, tmp_path: Path) -> None:
        pytest.importorskip("av")
        with (
            pytest.raises(UnsupportedError, match="in another file"),
            benzina.Writer(tmp_path / "new.bzna") as writer,
        ):
            writer.add_encoded(elsewhere(sample()), 0, "b.png")

    def test_the_entry_that_its_sample_has_is_used(self) -> None:
        data = sample()
        at = data.index(b"stsd") - 4
        nbytes = int.from_bytes(data[at : at + 4], "big")
        first = data[at + 16 : at + nbytes]
        assert parse_sample(data).tracks["bzna_input"].entry_kind == b"hvc1"
        both = pack_full_box(b"stsd", 0, 0, b"\0\0\0\2", patched(first, 4, b"encv"), first)
        changed = resized(data, at, nbytes, both)
        with pytest.raises(UnsupportedError, match="'encv'"):
            parse_sample(changed)
        run = changed.index(b"stsc") + 4 + 8 + 8
        changed = patched(changed, run, b"\0\0\0\2")
        assert parse_sample(changed).tracks["bzna_input"].entry_kind == b"hvc1"


def resized(data: bytes, at: int, nbytes: int, new: bytes) -> bytes:
    """Return a sample with a box of its first track replaced; its moov is the last box."""
    out = bytearray(data)
    for kind in (b"stbl", b"minf", b"mdia", b"trak", b"moov"):
        place = data.rindex(kind, 0, at) - 4
        size = int.from_bytes(data[place : place + 4], "big") + len(new) - nbytes
        out[place : place + 4] = size.to_bytes(4, "big")
    out[at : at + nbytes] = new
    return bytes(out)
