"""Tracks whose samples are in another file, encrypted or restricted are refused on opening."""

import pytest

from bloscpack import benzina
from bloscpack.benzina.bmff import pack_full_box
from bloscpack.benzina.samplelayout import parse_sample
from bloscpack.exceptions import FormatError, UnsupportedError

from .datasetfiles import boxes, dataset_bytes, patched, replaced
from .making import sample

INSIDE = pack_full_box(b"url ", 0, 1)
OUTSIDE = pack_full_box(b"url ", 0, 0, b"other.mp4\0")
URN = pack_full_box(b"urn ", 0, 1, b"urn:x\0")


def with_references(*references: bytes, number: int = 1) -> bytes:
    """Return a dataset with other data references, of which the samples use one."""
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
    with pytest.raises(FormatError, match=rf"data reference {number} of 1"):
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
    with pytest.raises(UnsupportedError, match="'encv' says that it is encrypted"):
        parse_sample(data.replace(b"hvc1", b"encv"))
