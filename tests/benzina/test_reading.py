"""Reading of datasets: number of calls, and files that are truncated, shrink or are very long."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import benzina
from bloscpack.benzina.dataset import Dataset
from bloscpack.benzina.mp4.moviewriter import HEAD_NBYTES, Extents, pack_head, pack_movie
from bloscpack.exceptions import FileChangedError, FormatError, TruncatedError

from ..counting import CountingBytes
from . import vectors
from .conftest import Counted
from .datasetfiles import dataset_bytes, with_entry

TRACKS = ["bzna_input", "bzna_target", "bzna_fname", "bzna_thumb"]


class TestReadsOfSmallFiles:
    def test_what_is_asked_for_and_no_more(self, counted: Counted) -> None:
        dataset = benzina.open(vectors.FOLDER / "mini12.bzna")
        said = vectors.facts("mini12.bzna")["samples"]
        assert len(counted.take()) == 2  # the head and the moov
        sample = dataset[3]
        assert counted.take() == []
        assert (sample.location, sample.size) == (said[3]["offset"], said[3]["size"])
        assert len(counted.take()) == 3  # the tables of one track
        assert sample.data == dataset[3].data
        assert counted.take() == [(said[3]["offset"], said[3]["size"])] * 2
        assert sample.data is sample.data
        assert sample.layout is sample.layout
        assert sample.read_track("bzna_thumb")
        assert counted.take() == []
        assert sample.target == 3
        counted.take()
        assert dataset[4].target == 999
        assert [nbytes for _, nbytes in counted.take()] == [8]
        assert dataset.targets is dataset.targets or len(dataset.targets) == 12
        assert [nbytes for _, nbytes in counted.take()] == [12 * 8]
        assert dataset[4].target == 999
        assert counted.take() == []
        assert dataset[0].name == "astronaut.png"
        counted.take()
        assert list(dataset.names) == list(dataset.keys())
        assert [nbytes for _, nbytes in counted.take()] == [
            sum(len(each["filename"].encode()) + 1 for each in said)
        ]
        assert dataset[5].name == dataset["page.png"].id == "page.png"
        assert counted.take() == []

    def test_samples_in_a_row_are_read_together(self, counted: Counted) -> None:
        dataset = benzina.open(vectors.FOLDER / "mini12.bzna")
        places = [(sample.location, sample.size) for sample in dataset[:].samples()]
        end = places[-1][0] + places[-1][1]
        counted.take()
        assert len(list(dataset.samples())) == 12
        assert counted.take() == [(40, end - 40)]
        assert len(list(dataset.samples(read_ahead=214_000))) == 12
        runs = counted.take()
        assert [offset for offset, _ in runs] == [40, 207696, 454058]
        # A sample larger than the read-ahead is read alone.
        assert runs[1] == places[4]
        assert sum(nbytes for _, nbytes in runs) == end - 40
        assert len(list(dataset.samples(read_ahead=0))) == 12
        assert counted.take() == places
        assert len(list(dataset[::-1].samples())) == 12
        assert counted.take() == places[::-1]
        picked = [0, 1, 3, 2, 2, -1]
        assert [sample.index for sample in dataset.samples(picked)] == [0, 1, 3, 2, 2, 11]
        assert counted.take() == [
            # A small gap costs less than another read; what lies inside a run is not read again.
            (40, places[3][0] + places[3][1] - 40),
            places[11],
        ]

    def test_reading_ahead_is_lazy(self, counted: Counted) -> None:
        dataset = benzina.open(vectors.FOLDER / "mini12.bzna")
        iterator = dataset.samples(read_ahead=100_000)
        counted.take()
        next(iterator)
        assert len([nbytes for _, nbytes in counted.take() if nbytes > 10_000]) == 1

    def test_positions_that_are_not_there(self) -> None:
        with benzina.open(vectors.FOLDER / "mini12.bzna") as dataset:
            with pytest.raises(IndexError):
                list(dataset.samples([0, 12]))
            with pytest.raises(TypeError):
                list(dataset.samples([0.5]))  # type: ignore[list-item]

    def test_scattered_targets_and_names(self) -> None:
        # Out of order, with gaps.
        samples = [bytes([k]) * 10 for k in range(6)]
        stored: dict[str, list[tuple[int, int]]] = {name: [(0, 0)] * 6 for name in TRACKS[:3]}
        content = b""
        for k in (3, 0, 5, 1, 2, 4):
            parts = samples[k], (k - 2).to_bytes(8, "little", signed=True), b"name %d\0" % k
            for name, part in zip(TRACKS, parts, strict=False):
                stored[name][k] = HEAD_NBYTES + len(content), len(part)
                content += part
        tracks = {name: Extents(*np.array(places, np.uint64).T) for name, places in stored.items()}
        data = pack_head(len(content)) + content + pack_movie(tracks)
        with benzina.open(data) as dataset:
            assert dataset.targets.tolist() == [-2, -1, 0, 1, 2, 3]
            assert list(dataset.names) == [f"name {k}" for k in range(6)]
            assert [sample.data for sample in dataset.samples()] == samples


def test_nothing_is_read_twice_to_open(counted: Counted) -> None:
    for name in vectors.names("dataset"):
        with benzina.open(vectors.FOLDER / name):
            assert len(counted.take()) <= 4
        with bp.frames.open(vectors.FOLDER / name):
            assert len(counted.take()) <= 5


class TestPickles:
    @pytest.mark.parametrize("kind", ["dataset", "view", "sample", "thumbnails"])
    def test_come_back(self, kind: str) -> None:
        with benzina.open(vectors.FOLDER / "mini12.bzna", splits={"two": (3, 5)}) as dataset:
            assert dataset.targets.any()
            handle: Any = {
                "dataset": dataset,
                "view": dataset[2:9:3],
                "sample": dataset[4],
                "thumbnails": dataset.frames("bzna_thumb"),
            }[kind]
            stored = pickle.dumps(handle)
            # No tables, targets or sample bytes are read.
            assert len(stored) < 1000
            assert vectors.FOLDER.name.encode() in stored
        copy = pickle.loads(stored)
        if kind == "sample":
            assert (copy.index, copy.name, copy.target) == (4, "hubble.JPEG", 999)
            return
        assert copy.indices == handle.indices
        assert list(copy) == [
            vectors.facts("mini12.bzna")["logical"]["filenames"][k] for k in handle.indices
        ]
        assert copy.split("two")[1].index == 4
        assert (
            copy[0].shape[1:3]
            == copy[0].decode("bzna_thumb" if kind == "thumbnails" else "bzna_input").shape[:2]
        )
        copy.close()

    def test_of_bytes_have_them(self) -> None:
        with benzina.open(vectors.data("solo1.bzna")) as dataset:
            copy = pickle.loads(pickle.dumps(dataset[0]))
            assert copy.data == dataset[0].data

    def test_of_a_file_object_there_are_none(self) -> None:
        with (vectors.FOLDER / "solo1.bzna").open("rb") as stream:
            dataset = benzina.open(stream)
            with pytest.raises(TypeError, match="open it by path"):
                pickle.dumps(dataset)

    def test_of_another_working_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a.bzna").write_bytes(vectors.data("solo1.bzna"))
        monkeypatch.chdir(tmp_path)
        stored = pickle.dumps(benzina.open("a.bzna"))
        monkeypatch.chdir("/")
        assert pickle.loads(stored)[0].name == "moon.png"

    def test_of_a_file_that_was_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "a.bzna"
        path.write_bytes(vectors.data("solo1.bzna"))
        stored = pickle.dumps(benzina.open(path))
        path.write_bytes(vectors.data("base5.bzna"))
        with pytest.raises(FileChangedError, match=r"a\.bzna: the file has changed since"):
            pickle.loads(stored)


class TestShorterFiles:
    """Truncation, as in a copy that did not finish."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "short.bzna"
        path.write_bytes(vectors.data("forms/faststart.bzna"))
        return path

    def test_cut_before_it_is_opened(self, path: Path) -> None:
        # The moov comes first, but the mdat exceeds the file: an error at once.
        os.truncate(path, os.stat(path).st_size - 1)
        with pytest.raises(FormatError, match=r"short\.bzna: box 'mdat'.*exceeds"):
            benzina.open(path)

    def test_cut_while_it_is_open(self, path: Path) -> None:
        dataset = benzina.open(path)
        offset, size = dataset[3].location, dataset[3].size
        os.truncate(path, offset + 5)
        sound = vectors.facts("base5.bzna")["logical"]["sample_sha256"]
        assert len(sound) == 5
        for sample in (dataset[3], list(dataset.samples())[3]):
            with pytest.raises(TruncatedError) as caught:
                sample.data  # noqa: B018 - read here
            message = str(caught.value)
            assert message.startswith(f"{path}: sample 3 of 'bzna_input': its bytes {offset} to ")
            assert f"to {offset + size} " in message
            assert message.endswith(f"the file, which has {offset + 5} bytes")
            assert caught.value.offset == offset
        assert [len(sample.data) for sample in list(dataset.samples())[:3]] == [
            sample.size for sample in dataset[:3].samples()
        ]
        for read in ("targets", "names"):
            with pytest.raises(TruncatedError, match="exceed the file"):
                getattr(dataset, read)
        with pytest.raises(TruncatedError, match="sample 0 of 'bzna_target'"):
            dataset[0].target  # noqa: B018 - read here
        with pytest.raises(TruncatedError, match="sample 4 of 'bzna_fname'"):
            dataset[4].name  # noqa: B018 - read here

    def test_cut_before_the_tables_are_read(self, path: Path) -> None:
        dataset = benzina.open(path)
        os.truncate(path, 100)
        with pytest.raises(TruncatedError, match="a table of track 'bzna_input'"):
            dataset[0].location  # noqa: B018 - read here


def test_no_more_memory_is_taken_than_there_are_bytes() -> None:
    data = vectors.data("base5.bzna")
    data = with_entry(data, b"stsz", "bzna_input", 2, 2**32 - 1)
    data = with_entry(data, b"stsz", "bzna_fname", 2, 2**32 - 1)
    source = CountingBytes(data)
    with benzina.open(data) as dataset:
        content = dataset._content
        content.source = source
        for track in dataset.tracks.values():
            track._source = source
        with pytest.raises(TruncatedError, match="sample 2 of 'bzna_input'"):
            dataset[2].data  # noqa: B018 - read here
        assert [sample.index for sample in dataset.samples()] == [0, 1, 2, 3, 4]
        with pytest.raises(FormatError, match="bzna_fname"):
            dataset.names  # noqa: B018 - read here
    assert max(nbytes for _, nbytes in source.reads) <= len(data)


def test_names_that_overlap_are_bounded() -> None:
    # Each name spans the whole file.
    data = dataset_bytes([b"x"] * 50, [b"y" * k for k in range(50)])
    for k in range(50):
        data = with_entry(data, b"stsz", "bzna_fname", k, len(data) - 40)
        data = with_entry(data, b"stco", "bzna_fname", k, 40)
    with benzina.open(data) as dataset:
        assert dataset[7].name_bytes == data[40:].removesuffix(b"\0")
        with pytest.raises(FormatError, match=f"its samples have {50 * (len(data) - 40)} bytes"):
            dataset.names  # noqa: B018 - read here


def test_views_of_a_dataset_share_what_was_read(counted: Counted) -> None:
    dataset: Dataset = benzina.open(vectors.FOLDER / "mini12.bzna")
    assert dataset[3:].targets.tolist() == dataset.targets[3:].tolist()
    reads = counted.take()
    assert len([nbytes for _, nbytes in reads if nbytes == 12 * 8]) == 1
