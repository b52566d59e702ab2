"""Benzina's own names on our reader, used as in scripts for 0.0.5."""

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.benzina import ClassificationDataset, File, ImageNet, Track
from bloscpack.benzina.original import benzinafile
from bloscpack.benzina.original import originaldatasets as datasets
from bloscpack.exceptions import FormatError, NotFoundError

from . import vectors
from .datasetfiles import boxes, with_entry

MINI, TAIL = str(vectors.FOLDER / "mini12.bzna"), str(vectors.FOLDER / "tail8.bzna")
PICTURE = ["bzna_input", "bzna_thumb"]
each_dataset = pytest.mark.parametrize(
    "name", [name for name in vectors.names("dataset") if "samples" in vectors.facts(name)]
)


class TestFile:
    def test_a_path_is_opened_by_the_block(self) -> None:
        file = File(MINI)
        assert file.closed
        with file as entered:
            assert entered is file
            assert not file.closed
        assert file.closed
        assert (file.name, file.path, file.offset) == (MINI, MINI, 0)
        file.close()
        # Some attributes need no file; for others it opens the file itself.
        assert file.trak("bzna_input") is not None
        assert file.closed
        assert file.read(8)[4:] == b"ftyp"
        assert not file.closed
        file.close()

    def test_a_file_object_is_the_callers(self) -> None:
        with open(MINI, "rb") as stream:
            file = File(stream)
            assert not file.closed
            assert file.name == MINI
            with file:
                assert file.trak("bzna_thumb")
            assert not file.closed
            assert not stream.closed
        memory = File(io.BytesIO(vectors.data("mini12.bzna")))
        assert memory.name is None
        assert len(Track(memory, "bzna_input")) == 12

    def test_seek_and_read(self) -> None:
        data = vectors.data("mini12.bzna")
        with File(MINI) as file:
            assert file.read(4) == data[:4]
            assert file.read(4) == data[4:8]
            file.seek(100)
            assert file.read(9) == data[100:109]
            file.seek(len(data) - 3)
            assert file.read(1 << 40) == data[-3:]
            assert file.read(5) == b""
            file.seek(len(data) + 10)
            assert file.read(5) == b""
            file.seek(40)
            assert file.read(-1) == data[40:]

    @pytest.mark.parametrize("label", ["bzna_thumb", b"bzna_thumb", b"bzna_thumb\0"])
    def test_traks(self, label: Any) -> None:
        with File(MINI) as file:
            # The fraction is a mistake of the tools; the integer part is right.
            assert file.trak(label) == benzinafile.Trak(b"bzna_thumb", (512, 512))
            assert file.trak("bzna_input") == (b"bzna_input", (0, 0))
            assert file.trak("bzna_other") is None

    def test_errors(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            File(str(tmp_path / "missing")).open()
        path = tmp_path / "cut.bzna"
        path.write_bytes(vectors.data("mini12.bzna")[:-1])
        for use in (File(path).open, lambda: len(Track(path, "bzna_input"))):
            with pytest.raises(FormatError, match=r"cut\.bzna: "):
                use()

    @pytest.mark.parametrize("what", ["closed", "open", "sample"])
    def test_pickles(self, what: str) -> None:
        file = File(MINI)
        if what != "closed":
            file.open()
        if what == "sample":
            file = Track(file, "bzna_input")[2].as_file()
        copy = pickle.loads(pickle.dumps(file))
        assert copy.closed
        assert (copy.name, copy.offset) == (file.name, file.offset)
        assert len(Track(copy, "bzna_input")) == (1 if what == "sample" else 12)
        with open(MINI, "rb") as stream, pytest.raises(TypeError, match="open the file by path"):
            pickle.dumps(File(stream))


class TestTrack:
    @each_dataset
    def test_locations_and_bytes(self, name: str) -> None:
        data, facts = vectors.data(name), vectors.facts(name)
        for label, said in facts["tracks"].items():
            with Track(str(vectors.FOLDER / name), label) as track:
                places = [tuple(place) for place in said["locations"]]
                assert len(track) == len(places)
                assert [track.sample_location(k) for k in range(len(track))] == places
                assert [sample.location for sample in track] == places
                expected = [data[offset : offset + size] for offset, size in places]
                assert [bytes(sample) for sample in track] == expected
                assert [track.sample_bytes(k) for k in range(len(track))] == expected
                assert [sample.value for sample in track[1:]] == expected[1:]
                assert isinstance(track[:2], list)
                assert track[-1].value == track[np.int64(len(track) - 1)].value == expected[-1]
                for wrong in (len(track), -len(track) - 1):
                    with pytest.raises(IndexError):
                        track[wrong]
                wanted = said["tkhd_width_16_16"] >> 16, said["tkhd_height_16_16"] >> 16
                assert track.shape == wanted
                assert (track.label, track.file.name) == (label, str(vectors.FOLDER / name))
            assert track.file.closed

    @each_dataset
    def test_samples_are_files(self, name: str) -> None:
        data, facts = vectors.data(name), vectors.facts(name)
        with Track(str(vectors.FOLDER / name), "bzna_input") as track:
            for sample, said in zip(track, facts["samples"], strict=True):
                base = said["offset"]
                for file in (
                    sample.as_file(),
                    track.sample_as_file(said["index"]),
                    track.file.subfile(base),
                ):
                    assert file.offset == base
                    for label in PICTURE:
                        inner = said["tracks"][label]
                        picture = Track(file, label)
                        offset, size = inner["locations"][0]
                        assert len(picture) == 1
                        assert picture[0].location == (base + offset, size)
                        start = base + offset
                        assert picture[0].value == data[start : start + size]
                        assert picture.shape == (
                            inner["tkhd_width_16_16"] >> 16,
                            inner["tkhd_height_16_16"] >> 16,
                        )
                        place = picture.video_configuration_location()
                        assert place is not None
                        start, nbytes = place
                        assert data[start - 8 : start - 4] == (nbytes + 8).to_bytes(4, "big")
                        assert data[start - 4 : start] == b"hvcC"
                    # Benzina hangs here.
                    assert Track(file, "bzna_fname").video_configuration_location() is None

    def test_past_4_gib(self, tmp_path: Path) -> None:
        path = tmp_path / "sparse.bzna"
        recipe = vectors.write_sparse(path)
        with Track(path, "bzna_input") as track:
            file = track[4].as_file()
            offset, size = Track(file, "bzna_thumb").sample_location(0)
            assert offset > recipe["input_offsets"][4] > 2**32
            assert 0 < size < track[4].location[1]

    def test_of_a_closed_file(self) -> None:
        track = Track(MINI, "bzna_target")
        assert track.file.closed
        assert len(track) == 12
        assert not track.file.closed
        track.close()
        assert int.from_bytes(track[4].value, "little") == 999

    def test_a_shared_file_stays_open(self) -> None:
        with File(MINI) as file:
            with Track(file, "bzna_input") as track:
                assert len(track) == 12
            assert not file.closed
            assert track.file is file

    def test_that_is_not_there(self) -> None:
        with pytest.raises(
            NotFoundError, match=r"mini12\.bzna: no track 'x'; the file has bzna_inp"
        ):
            len(Track(MINI, "x"))
        with File(MINI) as file, pytest.raises(NotFoundError):
            Track(file, "x")

    def test_pickles(self) -> None:
        track = Track(MINI, "bzna_fname")
        track.open()
        assert len(track[:]) == 12
        stored = pickle.dumps(track)
        assert len(stored) < 500
        assert pickle.loads(stored)[0].value == b"astronaut.png\0"
        with File(MINI) as file:
            assert pickle.loads(pickle.dumps(Track(file, "bzna_fname")))[0].value


class TestDatasets:
    def test_of_a_track(self) -> None:
        for dataset in (
            datasets.Dataset(MINI),
            datasets.Dataset(Path(MINI), "bzna_input"),
            datasets.Dataset(Track(MINI, "bzna_input")),
            datasets.Dataset(track=Track(MINI, "bzna_input")),
        ):
            assert len(dataset) == 12
            assert dataset.filename == MINI
            item = dataset[3]
            assert item._fields == ("input",)
            assert bytes(item.input) == Track(MINI, "bzna_input").sample_bytes(3)
            with pytest.raises(IndexError):
                dataset[12]
            with pytest.raises(NotImplementedError):
                dataset + dataset
        assert datasets.Dataset(MINI, "bzna_fname")[0].input.value == b"astronaut.png\0"

    def test_with_targets(self) -> None:
        for dataset in (
            ClassificationDataset(TAIL),
            ClassificationDataset(TAIL, ("bzna_input", "bzna_target"), "bzna_thumb"),
            ClassificationDataset((Track(TAIL, "bzna_input"), Track(TAIL, "bzna_target"))),
            ClassificationDataset(tracks=(Track(TAIL, "bzna_input"), Track(TAIL, "bzna_target"))),
        ):
            assert len(dataset) == 8
            assert dataset.targets.dtype == np.int64
            assert dataset.targets.tolist() == [0, 111, 222, 333, 444, -1, -1, -1]
            item = dataset[4]
            assert item._fields == ("input", "input_label", "target")
            assert (item.input_label, item.target) == ("bzna_thumb", (444,))
            assert isinstance(item.target[0], np.int64)
            assert item.input.location == (35919, 11877)
            picture = Track(item.input.as_file(), item.input_label)
            assert picture.sample_location(0) == (35947, 4995)
            with pytest.raises(NotImplementedError):
                dataset + dataset
        assert ClassificationDataset(TAIL, input_label="bzna_input")[0].input_label == "bzna_input"

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: datasets.Dataset(), "must be a Track if archive is not given"),
            (
                lambda: datasets.Dataset(MINI, Track(MINI, "bzna_input")),
                "must be a name if archive is given",
            ),
            (lambda: datasets.Dataset("/missing.bzna"), "file not found: /missing"),
            (lambda: ClassificationDataset(), "pair of Track"),
            (
                lambda: ClassificationDataset(MINI, ("bzna_input", Track(MINI, "bzna_target"))),
                "pair of names",
            ),
            (lambda: ClassificationDataset("/missing.bzna"), "file not found: /missing"),
            (lambda: ImageNet("/missing"), "ilsvrc2012.bzna or ilsvrc2012.mp4"),
            (lambda: ImageNet(MINI, split="training"), "split must be"),
            (lambda: ImageNet(MINI, split="val"), "12 samples are too few for 50000 of 'val'"),
        ],
    )
    def test_arguments_that_do_not_fit(self, make: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            make()

    def test_damaged_targets(self) -> None:
        data = with_entry(vectors.data("base5.bzna"), b"stsz", "bzna_target", 3, 4)
        tracks = (
            Track(File(io.BytesIO(data)), "bzna_input"),
            Track(File(io.BytesIO(data)), "bzna_target"),
        )
        with pytest.raises(FormatError, match="sample 3: target has 4 bytes"):
            ClassificationDataset(tracks)

    def test_targets_that_lie_anywhere(self) -> None:
        # Benzina reads them as one span.
        data = vectors.data("base5.bzna")
        (box,) = boxes(data, b"stco", "bzna_target")
        at = box.payload_offset + 8
        order = [data[at + 4 * k : at + 4 * k + 4] for k in (4, 2, 0, 3, 1)]
        data = data[:at] + b"".join(order) + data[at + 20 :]
        tracks = (Track(File(io.BytesIO(data)), label) for label in ("bzna_input", "bzna_target"))
        assert ClassificationDataset(tuple(tracks)).targets.tolist() == [  # type: ignore[arg-type]
            1004, 1002, 1000, 1003, 1001,
        ]  # fmt: skip

    def test_paths_are_expanded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "ilsvrc2012.bzna").symlink_to(MINI)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PICTURES", str(tmp_path))
        for path in ("~/ilsvrc2012.bzna", "$PICTURES/ilsvrc2012.bzna"):
            assert len(datasets.Dataset(path)) == len(ClassificationDataset(path)) == 12
        for root in ("~", "$PICTURES", str(tmp_path), tmp_path, MINI):
            assert len(ImageNet(root)) == 12
        os.rename(tmp_path / "ilsvrc2012.bzna", tmp_path / "ilsvrc2012.mp4")
        assert len(ImageNet(tmp_path)) == 12
        os.rename(tmp_path / "ilsvrc2012.mp4", tmp_path / "other.bzna")
        with pytest.raises(ValueError, match="file not found"):
            ImageNet(tmp_path)

    def test_splits_of_imagenet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert (ImageNet.LEN_VALID, ImageNet.LEN_TEST) == (50_000, 100_000)
        monkeypatch.setattr(ImageNet, "LEN_VALID", 3)
        monkeypatch.setattr(ImageNet, "LEN_TEST", 4)
        targets = vectors.facts("mini12.bzna")["logical"]["targets"]
        for split, (first, last) in {
            None: (0, 12), "train": (0, 5), "val": (5, 8), "test": (8, 12),
        }.items():  # fmt: skip
            dataset = ImageNet(MINI, split)
            assert len(dataset) == last - first
            assert dataset.targets.tolist() == targets[first:last]
            places = [dataset[k].input.location[0] for k in range(len(dataset))]
            said = vectors.facts("mini12.bzna")["samples"]
            assert places == [each["offset"] for each in said[first:last]]
            assert [int(dataset[k].target[0]) for k in range(len(dataset))] == targets[first:last]
            assert dataset[-1].target == (targets[last - 1],)
            with pytest.raises(IndexError):
                dataset[len(dataset)]
            copy = pickle.loads(pickle.dumps(dataset))
            assert copy[0].input.value == dataset[0].input.value

    def test_in_torchs_loader(self) -> None:
        data = pytest.importorskip("torch.utils.data")

        def collate(items: list[Any]) -> tuple[list[bytes], list[int]]:
            return [bytes(item.input) for item in items], [int(item.target[0]) for item in items]

        loader = data.DataLoader(ClassificationDataset(TAIL), batch_size=3, collate_fn=collate)
        batches = list(loader)
        assert [targets for _, targets in batches] == [[0, 111, 222], [333, 444, -1], [-1, -1]]
        assert [len(data) for data in batches[0][0]] == [7543, 8312, 9285]
