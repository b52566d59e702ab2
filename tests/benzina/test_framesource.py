"""Datasets as sources of frames: identified by their content, and read by torch's loader."""

from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import benzina
from bloscpack.benzina.mp4.moviewriter import pack_head
from bloscpack.exceptions import FormatError, NotBloscpackError
from bloscpack.frames.protocol import FrameSource
from bloscpack.types import AnyArray

from ..sourcecontract import check_clip, check_source
from . import vectors
from .datasetfiles import boxes, patched

pytest.importorskip("av")

NAMES = vectors.facts("mini12.bzna")["logical"]["filenames"] if vectors.names("dataset") else []
SQUARE = ["astronaut.png", "camera.png"]


@pytest.fixture(scope="module")
def pictures() -> dict[str, AnyArray]:
    with benzina.open(vectors.FOLDER / "mini12.bzna") as dataset:
        return {sample.id: sample.decode("bzna_input") for sample in dataset.samples()}


def test_a_dataset_is_a_source(pictures: dict[str, AnyArray]) -> None:
    with bp.frames.open(vectors.FOLDER / "mini12.bzna") as source:
        checked: FrameSource = source
        assert isinstance(source, benzina.Dataset)
        assert list(checked) == list(checked.keys()) == NAMES
        assert checked.keys()[-1] == NAMES[-1]
        assert len(checked) == 12
        assert NAMES[3] in checked
        assert "x" not in checked
        assert 3 not in checked
        assert checked.name == str(vectors.FOLDER / "mini12.bzna")
        for id_ in checked:
            assert np.array_equal(checked[id_][0], pictures[id_])
            assert checked[id_].shape == (1, *pictures[id_].shape)
        check_source(source)
        check_clip(source[0])


@pytest.mark.parametrize("nthreads", [None, 1, 3])
def test_batches(pictures: dict[str, AnyArray], nthreads: int | None) -> None:
    with benzina.open(vectors.FOLDER / "mini12.bzna", nthreads=nthreads) as source:
        # Equal sizes: one array.
        requests = [(id_, 0) for id_ in SQUARE * 2]
        found = source.read(requests)
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, [pictures[id_] for id_ in SQUARE * 2])
        out = np.zeros_like(found)
        assert source.read(requests, out=out, nthreads=nthreads) is out
        assert np.array_equal(out, found)
        whole = source.read([(id_, [0, 0]) for id_ in SQUARE])
        assert isinstance(whole, np.ndarray)
        assert whole.shape == (2, 2, 512, 512, 3)
        assert np.array_equal(whole[:, 1], found[:2])
        # Different sizes: a list.
        several = source.read((id_, slice(None)) for id_ in NAMES)
        assert isinstance(several, list)
        assert [part.shape for part in several] == [(1, *pictures[id_].shape) for id_ in NAMES]
        assert all(
            np.array_equal(a[0], pictures[id_]) for a, id_ in zip(several, NAMES, strict=True)
        )
        with pytest.raises(ValueError, match="out"):
            source.read([(id_, 0) for id_ in NAMES], out=np.zeros((12, 512, 512, 3), "u1"))


def test_views_and_thumbnails_are_sources() -> None:
    with bp.frames.open(vectors.FOLDER / "mini12.bzna") as source:
        assert isinstance(source, benzina.Dataset)
        view: FrameSource = source[1:3].frames("bzna_thumb")
        assert list(view) == NAMES[1:3]
        assert [view[id_].shape[1:3] for id_ in view] == [(341, 512), (300, 451)]
        found = view.read([(NAMES[2], 0)])
        assert np.array_equal(found[0], source[2].decode("bzna_thumb"))


class TestOpening:
    @pytest.mark.parametrize("name", vectors.names("dataset"))
    def test_every_form(self, name: str) -> None:
        for where in (vectors.FOLDER / name, str(vectors.FOLDER / name), vectors.data(name)):
            with bp.frames.open(where) as source:
                assert isinstance(source, benzina.Dataset)

    def test_the_file_name_does_not_matter(self, tmp_path: Path) -> None:
        (tmp_path / "x.blp").write_bytes(vectors.data("solo1.bzna"))
        with bp.frames.open(tmp_path / "x.blp") as source:
            assert list(source) == ["moon.png"]

    def test_a_damaged_start_is_identified_by_the_file_name(self, tmp_path: Path) -> None:
        content = b"something else" * 20
        (tmp_path / "y.bzna").write_bytes(content)
        with pytest.raises(FormatError, match=r"y\.bzna: box 'thin' at offset 0"):
            bp.frames.open(tmp_path / "y.bzna")
        (tmp_path / "y.bin").write_bytes(content)
        with pytest.raises(NotBloscpackError):
            bp.frames.open(tmp_path / "y.bin")

    def test_without_the_brand_the_track_decides(self) -> None:
        data = vectors.data("solo1.bzna")
        (ftyp,) = boxes(data, b"ftyp")
        unbranded = patched(data, ftyp.payload_offset + 8, b"isom")
        with bp.frames.open(unbranded) as source:
            assert list(source) == ["moon.png"]
        # Neither the brand nor the track.
        for other in (
            unbranded.replace(b"bzna_input", b"free_input"),
            unbranded[:30],
            vectors.data("samples/dot.mp4"),  # has the track, but of pictures
            b"\0\0\0\x08free",
        ):
            with pytest.raises(NotBloscpackError):
                bp.frames.open(other)

    def test_with_the_brand_its_faults_are_reported(self) -> None:
        with pytest.raises(FormatError, match="no box 'moov'"):
            bp.frames.open(pack_head(0))
        with pytest.raises(FormatError, match="no track 'bzna_input'; its tracks: "):
            bp.frames.open(vectors.data("solo1.bzna").replace(b"bzna_input", b"free_input"))

    def test_for_reading_only(self) -> None:
        with pytest.raises(ValueError, match="mode must be 'r' for a Benzina dataset"):
            bp.frames.open(vectors.FOLDER / "solo1.bzna", "a")


class TestTorch:
    def test_items_of_varying_size(self, pictures: dict[str, AnyArray]) -> None:
        pytest.importorskip("torch")
        from bloscpack.integrations.torch import FrameDataset, collate_clips

        dataset = FrameDataset(vectors.FOLDER / "mini12.bzna", label="target", with_meta=True)
        assert len(dataset) == 12
        item = dataset[1]
        assert np.array_equal(item["frames"][0].numpy(), pictures["coffee.png"])
        assert (item["id"], item["label"]) == ("coffee.png", 1)
        assert item["meta"] == {"name": "coffee.png", "target": 1}
        batch = collate_clips(dataset.__getitems__([0, 3]))
        assert batch["frames"].shape == (2, 1, 512, 512, 3)
        assert batch["label"].tolist() == [0, 3]
        # Different sizes: a list, for the caller to crop or resize.
        several = collate_clips(dataset.__getitems__([0, 1]))
        assert [tuple(frames.shape) for frames in several["frames"]] == [
            (1, 512, 512, 3),
            (1, 400, 600, 3),
        ]

    @pytest.mark.parametrize("workers", [0, 2])
    def test_in_a_loader(self, workers: int, pictures: dict[str, AnyArray]) -> None:
        data = pytest.importorskip("torch.utils.data")
        from bloscpack.integrations.torch import FrameDataset, collate_clips

        dataset = FrameDataset(vectors.FOLDER / "mini12.bzna", clips=SQUARE * 2, layout="tchw")
        loader = data.DataLoader(
            dataset, batch_size=2, num_workers=workers, collate_fn=collate_clips
        )
        batches = list(loader)
        assert [batch["id"] for batch in batches] == [SQUARE, SQUARE]
        for batch in batches:
            assert tuple(batch["frames"].shape) == (2, 1, 3, 512, 512)
            for frames, id_ in zip(batch["frames"], batch["id"], strict=True):
                assert np.array_equal(frames[0].permute(1, 2, 0).numpy(), pictures[id_])

    def test_an_open_source(self) -> None:
        pytest.importorskip("torch")
        from bloscpack.integrations.torch import FrameDataset

        with benzina.open(vectors.FOLDER / "mini12.bzna", splits={"val": (7, 10)}) as source:
            dataset = FrameDataset(source.split("val").frames("bzna_thumb"), label="target")
            assert [dataset[k]["label"] for k in range(3)] == [7, 8, 9]
