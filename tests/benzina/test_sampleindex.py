"""The index that a writer builds of its samples, and the end of the file packed from it."""

import io
from pathlib import Path

import pytest

from bloscpack import benzina
from bloscpack.benzina.mp4.moviewriter import HEAD_NBYTES
from bloscpack.benzina.mp4.sampleindex import SampleIndex
from bloscpack.exceptions import FormatError

from .making import sample


class Huge(bytes):
    """A sample that claims more bytes than it has."""

    def __len__(self) -> int:
        return 3 << 30


@pytest.mark.parametrize("profile", ["default", "reference"])
def test_past_4_gib(profile: benzina.writer.Profile, tmp_path: Path) -> None:
    index = SampleIndex()
    for number in range(3):
        assert index.add(Huge(), None, number, f"{number}") == number
    head, parts = index.pack(profile)
    end = HEAD_NBYTES + 3 * (3 << 30)
    with open(tmp_path / "a.bzna", "wb") as file:  # sparse
        file.write(head)
        file.seek(end)
        file.write(b"".join(parts))
    with benzina.open(tmp_path / "a.bzna") as found:
        assert [found[k].location for k in range(3)] == [40, 40 + (3 << 30), 40 + (6 << 30)]
        assert [found[k].size for k in range(3)] == [3 << 30] * 3
        assert found.targets.tolist() == [0, 1, 2]
        assert list(found.names) == ["0", "1", "2"]
        assert "bzna_thumb" not in found.tracks
    # The mdat ends where the moov starts.
    moov = parts[-1]
    assert int.from_bytes(head[32:40], "big") == end - 24 + sum(map(len, parts[:-1]))
    assert moov[4:8] == b"moov"


def test_one_offset_of_many_bits() -> None:
    index = SampleIndex()
    index.add(Huge(), None, None, None)
    index.add(Huge(), None, None, None)
    assert b"stco" in index.pack("default")[1][-1]
    index.add(Huge(), None, None, None)
    moov = index.pack("default")[1][-1]
    assert (moov.count(b"co64"), moov.count(b"stco")) == (1, 0)


def test_a_thumbnail_without_an_entry() -> None:
    index = SampleIndex()
    good = sample(1)
    thumb = benzina.parse_sample(good).tracks["bzna_thumb"]
    with pytest.raises(FormatError):
        index.add(good.replace(b"vide", b"vida"), thumb, 1, "a")
    assert len(index) == 0
    index.add(good, thumb, 1, "a")
    assert index.has_film
    other = thumb._replace(config=b"another")
    index.add(good, other, 1, "a")
    assert not index.has_film
    stream = io.BytesIO()
    with benzina.Writer(stream) as writer:
        for data in (good, sample(2)):
            writer.add_encoded(data)
    assert "bzna_thumb" in benzina.open(stream.getvalue()).tracks
