"""Outcomes of malformed files: each outcome class of the vectors' manifest."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

import bloscpack as bp
from bloscpack import benzina
from bloscpack.benzina.mp4.bmff import pack_box
from bloscpack.exceptions import FormatError, TruncatedError

from . import vectors
from .datasetfiles import boxes, patched, with_entry

INPUT, TARGET, NAME = "bzna_input", "bzna_target", "bzna_fname"
Change = Callable[[bytes], bytes]


def with_size(data: bytes, kind: bytes, size: int, track: str | None = None) -> bytes:
    """Return a file with another size in a box header."""
    return patched(data, boxes(data, kind, track)[0].offset, size.to_bytes(4, "big"))


def without(data: bytes, kind: bytes, track: str) -> bytes:
    """Return a file with a box of unknown type in a track."""
    return patched(data, boxes(data, kind, track)[0].offset + 4, b"free")


def with_more_in_moov(data: bytes, more: bytes) -> bytes:
    """Return a file with more boxes in its last box, the moov."""
    (moov,) = boxes(data, b"moov")
    return patched(data + more, moov.offset, (moov.nbytes + len(more)).to_bytes(4, "big"))


def nested(depth: int, kind: bytes = b"moov") -> bytes:
    data = b""
    for _ in range(depth):
        data = pack_box(kind, data)
    return data


def with_count(data: bytes, kind: bytes, track: str, count: int) -> bytes:
    """Return a file with another number of entries in a table."""
    (box,) = boxes(data, kind, track)
    at = box.payload_offset + (8 if kind == b"stsz" else 4)
    return patched(data, at, count.to_bytes(4, "big"))


REJECT_OPEN: dict[str, Change] = {
    "empty": lambda data: b"",
    "cut in the moov": lambda data: data[:-1],
    "without moov": lambda data: data[: boxes(data, b"moov")[0].offset],
    "a trak of size 0": lambda data: with_size(data, b"trak", 0, TARGET),
    "a stbl of size 0": lambda data: with_size(data, b"stbl", 0, INPUT),
    "a box of size 7": lambda data: with_size(data, b"tkhd", 7, INPUT),
    "a box past its parent": lambda data: with_size(data, b"mdia", 5000, INPUT),
    "a box of 4 GiB": lambda data: with_size(data, b"stsz", 2**32 - 1, INPUT),
    "a moov past the end": lambda data: with_size(data, b"moov", 2**31),
    "more sizes than the box has": lambda data: with_count(data, b"stsz", INPUT, 6),
    "2**32 - 1 offsets": lambda data: with_count(data, b"stco", INPUT, 2**32 - 1),
    "fewer sizes than chunks": lambda data: with_count(data, b"stsz", INPUT, 4),
    "fewer chunks than sizes": lambda data: with_count(data, b"stco", INPUT, 4),
    "no runs": lambda data: with_count(data, b"stsc", INPUT, 0),
    "a run that begins at chunk 2": lambda data: with_entry(data, b"stsc", INPUT, 0, 2),
    "two samples in each chunk": lambda data: with_entry(data, b"stsc", INPUT, 1, 2),
    "no stsz": lambda data: without(data, b"stsz", INPUT),
    "no stsc": lambda data: without(data, b"stsc", NAME),
    "no stco": lambda data: without(data, b"stco", TARGET),
    "no stbl": lambda data: without(data, b"stbl", INPUT),
    "no track of samples": lambda data: data.replace(b"bzna_input", b"free_input"),
    "two tracks of one name": lambda data: data.replace(b"bzna_thumb", b"bzna_input"),
    "two moov": lambda data: data + nested(1),
    "33 nested containers": lambda data: with_more_in_moov(data, nested(34, b"mdia")),
    "20000 nested containers": lambda data: with_more_in_moov(data, nested(20_000, b"mdia")),
}

REJECT_SAMPLE: dict[str, tuple[Change, list[int]]] = {
    "an offset past the end": (lambda data: with_entry(data, b"stco", INPUT, 2, 2**32 - 1), [2]),
    "an offset at the end": (lambda data: with_entry(data, b"stco", INPUT, 2, len(data)), [2]),
    "a size of 4 GiB": (lambda data: with_entry(data, b"stsz", INPUT, 4, 2**32 - 1), [4]),
    "a size of 0": (lambda data: with_entry(data, b"stsz", INPUT, 1, 0), [1]),
    "a size too small": (lambda data: with_entry(data, b"stsz", INPUT, 1, 100), [1]),
    "an offset in another sample": (lambda data: with_entry(data, b"stco", INPUT, 3, 41), [3]),
    "a box of size 0 in a sample": (lambda data: in_sample(data, 2, b"trak", b"\0\0\0\0"), [2]),
    "a box of 4 GiB in a sample": (lambda data: in_sample(data, 2, b"mdat", b"\xff" * 4), [2]),
}

REJECT_TARGETS: dict[str, Change] = {
    "a target of 4 bytes": lambda data: with_entry(data, b"stsz", TARGET, 3, 4),
    "a target of 0 bytes": lambda data: with_entry(data, b"stsz", TARGET, 0, 0),
    "a target of 4 GiB": lambda data: with_entry(data, b"stsz", TARGET, 4, 2**32 - 1),
    "a target past the end": lambda data: with_entry(data, b"stco", TARGET, 4, 2**32 - 1),
    "more targets than samples": lambda data: fewer_samples(data),
}

ACCEPT_EQUAL: dict[str, Change] = {
    "boxes of unknown type": lambda data: with_more_in_moov(
        data, pack_box(b"what", b"\0" * 9) + pack_box(b"uuid", b"\xff" * 20)
    ),
    "20000 nested boxes of unknown type": lambda data: with_more_in_moov(
        data, nested(20_000, b"what")
    ),
    "32 nested containers": lambda data: with_more_in_moov(data, nested(31, b"mdia")),
    "a track of others, damaged": lambda data: with_more_in_moov(
        data, pack_box(b"trak", pack_box(b"tkhd"), pack_box(b"mdia"))
    ),
    "a box of size 0 at the end": lambda data: data + b"\0\0\0\0free",
}


def in_sample(data: bytes, index: int, kind: bytes, size: bytes) -> bytes:
    """Return a file with another size of the first box of a type in a sample."""
    facts = vectors.facts("base5.bzna")["samples"][index]
    sample = data[facts["offset"] : facts["offset"] + facts["size"]]
    return patched(data, facts["offset"] + sample.index(kind) - 4, size)


def fewer_samples(data: bytes) -> bytes:
    """Return a file with 4 samples and 5 targets and names."""
    for kind in (b"stsz", b"stco"):
        data = with_count(data, kind, INPUT, 4)
    return data


@pytest.fixture(scope="module")
def base() -> bytes:
    return vectors.data("base5.bzna")


@pytest.fixture
def written(tmp_path: Path, base: bytes) -> Callable[[Change], Path]:
    def write(change: Change) -> Path:
        path = tmp_path / "changed.bzna"
        path.write_bytes(change(base))
        return path

    return write


def digests(dataset: benzina.Dataset, indices: list[int]) -> list[str]:
    return [hashlib.sha256(dataset[index].data).hexdigest() for index in indices]


def is_sound(sample: benzina.Sample) -> bool:
    """Return whether a sample can be read and parsed; fail for undocumented errors."""
    try:
        return "bzna_thumb" in sample.layout.tracks and bool(sample.read_track("bzna_thumb"))
    except FormatError as err:
        if "changed.bzna: sample " not in str(err):
            raise
        return False


Written = Callable[[Change], Path]


@pytest.mark.parametrize("what", REJECT_OPEN)
def test_reject_open(written: Written, what: str) -> None:
    path = written(REJECT_OPEN[what])
    with pytest.raises(FormatError, match=r"changed\.bzna: "):
        benzina.open(path)
    with pytest.raises(FormatError):
        bp.frames.open(path)


@pytest.mark.parametrize("what", REJECT_SAMPLE)
def test_reject_sample(written: Written, what: str) -> None:
    change, bad = REJECT_SAMPLE[what]
    logical = vectors.facts("base5.bzna")["logical"]
    with benzina.open(written(change)) as dataset:
        good = [index for index in range(5) if index not in bad]
        for samples in ([dataset[index] for index in range(5)], list(dataset.samples())):
            assert [sample.index for sample in samples if not is_sound(sample)] == bad
        assert digests(dataset, good) == [logical["sample_sha256"][index] for index in good]
        assert dataset.targets.tolist() == logical["targets"]
        assert list(dataset.names) == logical["filenames"]


@pytest.mark.parametrize("offset", [2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_offsets_of_64_bits(offset: int) -> None:
    data = vectors.data("forms/co64_small.bzna")
    logical = vectors.facts("base5.bzna")["logical"]
    for track in (INPUT, TARGET, NAME):
        data = with_entry(data, b"co64", track, 2, offset, 8)
    with benzina.open(data) as dataset:
        assert dataset[2].location == offset
        for sample in (dataset[2], list(dataset.samples())[2]):
            with pytest.raises(TruncatedError, match=f"its bytes {offset} to "):
                sample.data  # noqa: B018 - read here
        assert digests(dataset, [0, 1, 3, 4]) == [
            logical["sample_sha256"][index] for index in (0, 1, 3, 4)
        ]
        for read in ("targets", "names"):
            with pytest.raises(TruncatedError, match="sample 2 of"):
                getattr(dataset, read)


@pytest.mark.parametrize("what", REJECT_TARGETS)
def test_reject_targets(written: Written, what: str) -> None:
    with benzina.open(written(REJECT_TARGETS[what])) as dataset:
        with pytest.raises(FormatError, match=r"changed\.bzna: .*(bzna_target|target has)"):
            dataset.targets  # noqa: B018 - read here
        wrong = 0
        for sample in dataset.samples():
            assert is_sound(sample)
            try:
                assert sample.target == 1000 + sample.index
            except FormatError:
                wrong += 1
        assert wrong == (len(dataset) if what.startswith("more") else 1)
        if what.startswith("more"):
            with pytest.raises(FormatError, match="'bzna_fname': 5 entries, but only 4 samples"):
                dataset.names  # noqa: B018 - read here
        else:
            assert list(dataset.names)[4] == "n4.png"


@pytest.mark.parametrize("what", ACCEPT_EQUAL)
def test_accept_equal(written: Written, what: str) -> None:
    logical = vectors.facts("base5.bzna")["logical"]
    with benzina.open(written(ACCEPT_EQUAL[what])) as dataset:
        assert digests(dataset, list(range(5))) == logical["sample_sha256"]
        assert dataset.targets.tolist() == logical["targets"]
        assert list(dataset.names) == logical["filenames"]


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        (b"other.p", "other.p"),  # accept_equal_names_changed
        (b"\xff\xfe\x80.pn\0", "\\xff\\xfe\\x80.pn"),
        (b"../n.p\0", "../n.p"),  # accept_unsafe_name
        (b"/etc/x\0", "/etc/x"),
        (b"a\0b\0c\n\0", "a\0b\0c\n"),
    ],
)
def test_accept_names_changed(written: Written, stored: bytes, name: str) -> None:
    logical = vectors.facts("base5.bzna")["logical"]
    path = written(lambda data: patched(data, data.rindex(b"n0.png\0"), stored))
    with benzina.open(path) as dataset:
        assert dataset[0].name == name
        assert dataset[0].name_bytes == stored.removesuffix(b"\0")
        assert list(dataset.names) == [name, *logical["filenames"][1:]]
        assert digests(dataset, list(range(5))) == logical["sample_sha256"]
        assert dataset.targets.tolist() == logical["targets"]
        assert dataset[name].index == 0


def test_accept_without_filenames(written: Written) -> None:
    logical = vectors.facts("base5.bzna")["logical"]

    def renamed(data: bytes) -> bytes:
        # The last one, as the samples have such tracks, too.
        return patched(data, data.rindex(b"bzna_fname"), b"some_fname")

    with benzina.open(written(renamed)) as dataset:
        assert list(dataset.names) == [None] * 5
        assert list(dataset) == [f"#{index}" for index in range(5)]
        assert digests(dataset, list(range(5))) == logical["sample_sha256"]
        assert dataset.targets.tolist() == logical["targets"]


def test_accept_equal_raw(written: Written) -> None:
    pytest.importorskip("av")
    logical = vectors.facts("base5.bzna")["logical"]

    def without_slice(data: bytes) -> bytes:
        # The size of the first unit of sample 1.
        return patched(data, vectors.facts("base5.bzna")["samples"][1]["offset"] + 28, b"\xff")

    with benzina.open(written(without_slice)) as dataset:
        assert digests(dataset, [0, 2, 3, 4]) == [
            logical["sample_sha256"][index] for index in (0, 2, 3, 4)
        ]
        assert len(dataset[1].data) == dataset[1].size
        with pytest.raises(FormatError, match="sample 1: "):
            dataset[1].decode()
        assert dataset[0].decode().shape == (64, 30, 3)


def test_names_past_the_end(written: Written) -> None:
    path = written(lambda data: with_entry(data, b"stco", NAME, 2, 2**32 - 1))
    with benzina.open(path) as dataset:
        assert dataset[1].name == "n1.png"
        with pytest.raises(TruncatedError, match="sample 2 of 'bzna_fname'"):
            dataset[2].name  # noqa: B018 - read here
        with pytest.raises(TruncatedError, match="sample 2 of 'bzna_fname'"):
            dataset.names  # noqa: B018 - read here
        assert dataset[2].data


def test_tracks_of_others_that_a_recovered_dataset_lacks(
    written: Callable[[Change], Path], tmp_path: Path
) -> None:
    path = written(lambda data: data.replace(b"bzna_thumb", b"else_thumb"))
    report = bp.recover(path, tmp_path / "new.bzna")
    assert (report.saved, report.damage) == (5, [])
    assert report.notices == ["track 'else_thumb' is not copied"]


@pytest.mark.parametrize("cut", ["moov", "targets", "last sample", "in the moov", "damaged moov"])
def test_samples_without_a_whole_movie_box_are_recovered(
    cut: str, written: Callable[[Change], Path], tmp_path: Path, base: bytes
) -> None:
    facts = vectors.facts("base5.bzna")["samples"]
    moov = boxes(base, b"moov")[0].offset
    ends = {
        "moov": moov,
        "targets": facts[-1]["offset"] + facts[-1]["size"] + 3,
        "last sample": facts[-1]["offset"] + facts[-1]["size"] - 1,
        "in the moov": moov + 500,
    }
    if cut in ends:
        path = written(lambda data: data[: ends[cut]])
    else:
        path = written(lambda data: with_size(data, b"stbl", 2**31, INPUT))
    report = bp.recover(path, tmp_path / "new.bzna")
    nlost = int(cut == "last sample")
    assert (report.saved, report.nchunks) == (5 - nlost, 5)
    assert "samples are found in the data" in str(report.damage[0])
    assert len(report.damage) == 1 + nlost
    with benzina.open(base) as old, benzina.open(tmp_path / "new.bzna") as new:
        assert [s.data for s in new.samples()] == [s.data for s in old.samples()][: len(new)]
        assert new.targets.tolist() == old.targets.tolist()[: len(new)]
        assert list(new.names) == list(old.names)[: len(new)]


@pytest.mark.parametrize("has_moov", [True, False])
def test_a_name_that_cannot_be_stored_costs_no_sample(
    has_moov: bool, written: Callable[[Change], Path], tmp_path: Path
) -> None:
    def damaged(data: bytes) -> bytes:
        data = data.replace(b"n3.png\0", b"n3\0png\0")
        return data if has_moov else data[: boxes(data, b"moov")[0].offset]

    report = bp.recover(written(damaged), tmp_path / "new.bzna")
    assert report.saved == 5
    assert "name b'n3\\x00png' contains NUL" in str(report.damage[-1])
    with benzina.open(tmp_path / "new.bzna") as new:
        assert list(new.names) == ["n0.png", "n1.png", "n2.png", "", "n4.png"]


def test_nothing_is_recovered_from_a_file_without_samples(tmp_path: Path) -> None:
    for data in (b"", b"no boxes" * 9, pack_box(b"ftyp", b"isom\0\0\0\0bzna"), base_head()):
        path = tmp_path / "a.bzna"
        path.write_bytes(data)
        with pytest.raises(FormatError):
            bp.recover(path, tmp_path / "new.bzna")
        assert [each.name for each in tmp_path.iterdir()] == ["a.bzna"]


def base_head() -> bytes:
    """Return a file whose data are targets."""
    targets = b"".join(k.to_bytes(8, "little") for k in (0, 1, 2**28, 2**60))
    return pack_box(b"ftyp", b"isom\0\0\0\0bzna") + pack_box(b"mdat", targets)
