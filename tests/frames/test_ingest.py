"""Ingest: how items are stored, which are skipped, and what a second run adds."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackWarning, FormatError, LockedError, UnsupportedError
from bloscpack.frames import ingest, listing
from bloscpack.frames.ingest.items import (
    ArrayItem,
    BadItem,
    ImageFiles,
    ImageFolder,
    Item,
    VideoFile,
)
from bloscpack.media import image

from ..videofiles import moving, set_matrix, write_video
from .imagefiles import image_folders, picture, write_jpeg, write_png


def remarks(report: bp.frames.IngestReport) -> dict[str, str]:
    return {remark.id: remark.text for remark in report.remarks}


class TestImages:
    def test_kept_byte_for_byte(self, tmp_path: Path) -> None:
        images = image_folders(tmp_path / "in")
        report = ingest(listing.folders(tmp_path / "in"), tmp_path / "a.blp")
        assert (report.nclips, report.nframes, report.ok) == (5, 20, True)
        assert report.cbytes == sum(len(data) for clip in images.values() for data in clip)
        assert report.paths == [str(tmp_path / "a.blp")]
        with bp.frames.open(tmp_path / "a.blp") as store:
            assert list(store) == list(images)
            for id_, clip in images.items():
                assert store[id_].read_images() == clip
                assert store[id_].meta == {}
                np.testing.assert_array_equal(store[id_][1], image.decode(clip[1]))

    def test_shapes_may_differ_where_they_are_kept(self, tmp_path: Path) -> None:
        write_jpeg(tmp_path / "in" / "1.jpg", 1)
        write_png(tmp_path / "in" / "2.png", picture(2, 20, 10))
        item = ImageFolder(id="x", path=str(tmp_path / "in"))
        assert ingest([item], tmp_path / "a.blp").ok
        with bp.frames.open(tmp_path / "a.blp") as store:
            np.testing.assert_array_equal(store["x"][1], picture(2, 20, 10))
        message = r"nothing was stored.*x.*: skipped: frame 1 is uint8 \(20, 10, 3\), those before"
        with pytest.raises(ValueError, match=message):
            ingest([item], tmp_path / "b.blp", codec="lossless")

    def test_images_are_encoded_again_on_request(self, tmp_path: Path) -> None:
        images = image_folders(tmp_path / "in", 1)["clip0"]
        pixels = [image.decode(data) for data in images]
        items = list(listing.folders(tmp_path / "in"))
        ingest(items, tmp_path / "a.blp", codec="lossless", preset="small")
        ingest(items, tmp_path / "b.blp", codec="jpeg", quality=20)
        ingest(items, tmp_path / "c.blp", codec="lossless", short_edge=6)
        ingest(items, tmp_path / "d.blp", codec="jpeg")
        with bp.frames.open(tmp_path / "a.blp") as store:
            assert store["clip0"].read_images() is None
            np.testing.assert_array_equal(store["clip0"][:], pixels)
            assert (store.codec, store.preset) == ("lossless", "small")
        with bp.frames.open(tmp_path / "b.blp") as store:
            expected = [image.encode_jpeg(each, quality=20) for each in pixels]
            assert store["clip0"].read_images() == expected
            assert store.quality == 20
        with bp.frames.open(tmp_path / "c.blp") as store:
            assert store["clip0"].shape == (4, 6, 8, 3)
        with bp.frames.open(tmp_path / "d.blp") as store:
            assert store["clip0"].read_images() == images

    @pytest.mark.parametrize("check", [False, True])
    def test_unreadable_items_are_skipped_and_reported(self, tmp_path: Path, check: bool) -> None:
        images = image_folders(tmp_path / "in")
        cut = tmp_path / "in" / "clip1" / "f2.jpg"
        cut.write_bytes(cut.read_bytes()[:200])
        (tmp_path / "in" / "clip3" / "f0.jpg").write_bytes(b"nonsense")
        logged: list[Any] = []
        report = ingest(
            listing.folders(tmp_path / "in"), tmp_path / "a.blp", check=check, log=logged.append
        )
        assert (report.nclips, report.ok, logged) == (3, False, report.skipped)
        assert [str(remark).split(": ")[:2] for remark in logged] == [
            [f"clip{k} ({tmp_path}/in/clip{k})", "skipped"] for k in (1, 3)
        ]
        assert remarks(report)["clip1"].startswith("f2.jpg: JPEG")
        assert remarks(report)["clip3"].startswith("f0.jpg: neither")
        with bp.frames.open(tmp_path / "a.blp") as store:
            assert list(store) == ["clip0", "clip2", "clip4"]
            assert store["clip2"].read_images() == images["clip2"]


class TestVideos:
    def test_rotation_and_damage_are_reported(self, tmp_path: Path) -> None:
        frames = moving(20)
        (tmp_path / "in").mkdir()
        write_video(tmp_path / "in" / "a.mov", frames)
        write_video(tmp_path / "in" / "turned.mov", frames[:3])
        set_matrix(tmp_path / "in" / "turned.mov", "half")
        cut = write_video(tmp_path / "in" / "cut.mp4", frames, codec="mpeg4", faststart=True)
        cut.write_bytes(cut.read_bytes()[: cut.stat().st_size * 2 // 3])
        (tmp_path / "in" / "none.mp4").write_bytes(b"none")
        report = ingest(listing.videos(tmp_path / "in"), tmp_path / "a.blp")
        assert [remark.id for remark in report.skipped] == ["cut", "none"]
        assert remarks(report)["turned"] == "turned by 180 degrees"
        with bp.frames.open(tmp_path / "a.blp") as store:
            assert list(store) == ["a", "turned"]
            np.testing.assert_array_equal(store["a"][:], frames)
            np.testing.assert_array_equal(store["turned"][:], frames[:3, ::-1, ::-1])
            assert store["a"].meta == {"fps": 30.0}
        again = ingest(listing.videos(tmp_path / "in"), tmp_path / "a.blp", keep_damaged=True)
        assert (again.nclips, again.npresent) == (1, 2)
        assert [remark.id for remark in again.skipped] == ["none"]
        with bp.frames.open(tmp_path / "a.blp") as store:
            assert 0 < len(store["cut"]) < 20
            assert store["cut"].meta["damaged"] == remarks(again)["cut"]

    def test_metadata_of_the_item_wins(self, tmp_path: Path) -> None:
        path = write_video(tmp_path / "a.mov", moving(2))
        item = VideoFile(id="a", path=str(path), meta={"fps": "x", "label": np.int64(3)})
        ingest([item], tmp_path / "a.blp")
        with bp.frames.open(tmp_path / "a.blp") as store:
            assert store["a"].meta == {"fps": "x", "label": 3}


class TestArrays:
    def test_every_dtype_and_shape(self, tmp_path: Path) -> None:
        arrays = {
            "depth": np.arange(24, dtype="<u2").reshape(2, 3, 4),
            "mask": np.eye(4, dtype=bool)[:, None].repeat(3, 1),
            "none": np.zeros((0, 5), "f4"),
            "times": np.arange(4).astype("M8[ns]"),
            "fortran": np.asfortranarray(np.arange(24.0).reshape(4, 3, 2)),
        }
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        assert ingest(listing.arrays(tmp_path), tmp_path / "a.blp").nclips == 5
        assert ingest(arrays, tmp_path / "b.blp").nclips == 5
        for name in ("a.blp", "b.blp"):
            with bp.frames.open(tmp_path / name) as store:
                for id_, array in arrays.items():
                    np.testing.assert_array_equal(store[id_][:], array)
                    assert store[id_].dtype == array.dtype

    def test_items_that_cannot_be_stored_are_skipped(self, tmp_path: Path) -> None:
        bad = {"a": np.array([{}]), "b": np.float64(3), "c": 3, "d": [np.zeros(2), np.zeros(3)]}
        bad |= {"e": b"bytes", "f": "path.jpg", "g": [b"no image"]}
        path = tmp_path / "a.blp"
        with pytest.warns(BloscpackWarning, match="7 items were skipped .*, the first is a: "):
            report = ingest({**bad, "x": np.zeros(3)}, path)
        assert [remark.id for remark in report.skipped] == list(bad)
        logged: list[Any] = []
        for options in ({}, {"log": logged.append}, {"overwrite": True}):
            with pytest.raises(ValueError, match="nothing was stored: 7 items were skipped"):
                ingest(bad, tmp_path / "b.blp", **options)
            assert not (tmp_path / "b.blp").exists()
        assert [remark.id for remark in logged] == list(bad)
        assert ingest(bad, tmp_path / "b.blp", allow_empty=True).nclips == 0
        assert len(ingest({**bad, "x": np.zeros(3)}, path).skipped) == 7  # x is present
        items = [ArrayItem(id="y", frames=np.zeros(3), meta={"a": object()})]
        with pytest.raises(ValueError, match="not a JSON value"):
            ingest(items, path)
        assert path.exists()

    @pytest.mark.parametrize("form", ["mapping", "list", "generator", "values", "source", "append"])
    def test_a_clip_is_copied_from_any_form(self, tmp_path: Path, form: str) -> None:
        pytest.importorskip("av")
        path, copy = tmp_path / "a.blp", tmp_path / "b.blp"
        image_folders(tmp_path / "in", 1)
        ingest(listing.folders(tmp_path / "in"), path)
        with bp.frames.open(path, "a") as store:
            store.append("array", np.zeros((3, 8, 8), "u2"), {"label": [1]})
            store.append("empty", np.zeros((0, 3), "u2"), {"label": 2})
            store.append("video", moving(9), {"label": 3}, codec="video")
        with bp.frames.open(path) as source:
            pairs = list(source.items())
            forms = {
                "mapping": dict(pairs),
                "list": pairs,
                "generator": iter(pairs),
                "values": source.values(),
                "source": source,
            }
            if form == "append":
                with bp.frames.create(copy) as store:
                    for id_, clip in pairs:
                        store.append(id_, clip)
            else:
                assert ingest(forms[form], copy, check=True).nclips == 4
            with bp.frames.open(copy) as store:
                assert list(store) == list(source)
                for id_, clip in store.items():
                    one, two = source[id_], clip
                    assert (one.codec, one.shape, one.dtype, one.meta) == (
                        *(two.codec, two.shape, two.dtype, two.meta),
                    )
                    assert one.cbytes == two.cbytes
                    assert one.read_images() == two.read_images()
                    np.testing.assert_array_equal(one[:], two[:])

    def test_options_of_a_clip_that_is_copied(self, tmp_path: Path) -> None:
        images = image_folders(tmp_path / "in", 1)["clip0"]
        with bp.frames.create(tmp_path / "a.blp") as store:
            store.append("images", images, {"label": 1, "x": [2]})
            store.append("again", store["images"], {"label": 2}, codec="jpeg")
            store.append("small", store["images"], codec="jpeg", quality=20)
            store.append("array", store["images"], codec="lossless")
            assert store["again"].meta == {"label": 2, "x": [2]}
            assert store["again"].read_images() == images
            assert store["small"].cbytes < store["images"].cbytes
            assert store["array"].codec == "lossless"
            np.testing.assert_array_equal(store["array"][:], store["images"][:])
            for name, value in (("quality", 3), ("subsampling", "420"), ("crf", 3), ("gop", 2)):
                with pytest.raises(ValueError, match=f"{name} needs codec="):
                    store.append("x", store["images"] if name == "gop" else [1.0], **{name: value})
        ingest({"x": images}, tmp_path / "b.blp", codec="lossless")
        with bp.frames.open(tmp_path / "b.blp") as store:
            assert store["x"].codec == "lossless"

    def test_attributes_come_with_frames(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "a.blp", np.zeros((3, 2)), attrs={"unit": "m", "label": 1})
        path = tmp_path / "frames.blp"
        with bp.open(tmp_path / "a.blp") as array:
            with bp.frames.create(path, attrs={"of": "all"}) as store:
                store.append("a", array, {"label": 2})
                with pytest.raises(TypeError, match="not set"):
                    store.append("b", {1, 2})
            ingest({"b": array}, path)
        with bp.frames.open(path) as store:
            assert store["a"].meta == {"unit": "m", "label": 2}
            assert store["b"].meta == {"unit": "m", "label": 1}
            ingest(store, tmp_path / "b.blp")
            ingest(store, tmp_path / "c.blp", attrs={})
        for name, attrs in (("b.blp", {"of": "all"}), ("c.blp", {})):
            with bp.frames.open(tmp_path / name) as store:
                assert store.attrs == attrs

    def test_items_of_another_kind_are_refused(self, tmp_path: Path) -> None:
        for items in (np.zeros((2, 3)), [np.zeros((2, 3))], ["a.jpg"], [("a", 1, 2)]):
            with pytest.raises(TypeError, match="pairs of id and frames"):
                ingest(items, tmp_path / "a.blp")
        assert not (tmp_path / "a.blp").exists()

    def test_other_sources(self, tmp_path: Path) -> None:
        images = image_folders(tmp_path / "in", 2, 40)
        ingest(listing.folders(tmp_path / "in"), tmp_path / "a.blp")
        with bp.frames.open(tmp_path / "a.blp", "a") as store:
            store.append("array", np.arange(200).reshape(100, 2), {"label": 1})
            store.append("empty", np.zeros((0, 3)))
        with bp.frames.open(tmp_path / "a.blp") as store:
            assert ingest(store, tmp_path / "b.blp").nclips == 4
            report = ingest(store, tmp_path / "c.blp", codec="lossless")
        assert report.ok
        with bp.frames.open(tmp_path / "b.blp") as store:
            assert store["clip1"].read_images() == images["clip1"]
            assert store["array"].meta == {"label": 1}
            np.testing.assert_array_equal(store["array"][:], np.arange(200).reshape(100, 2))
            assert store["empty"].shape == (0, 3)
        with bp.frames.open(tmp_path / "c.blp") as store:
            np.testing.assert_array_equal(store["clip1"][39], image.decode(images["clip1"][39]))


class TestSecondRun:
    def test_items_in_the_store_are_skipped(self, tmp_path: Path) -> None:
        image_folders(tmp_path / "in", 3)
        path = tmp_path / "a.blp"
        assert ingest(listing.folders(tmp_path / "in"), path).nclips == 3
        before = path.read_bytes()
        report = ingest(listing.folders(tmp_path / "in"), path)
        assert (report.nclips, report.npresent, report.ok) == (0, 3, True)
        assert path.read_bytes() == before
        image_folders(tmp_path / "in", 5)
        assert ingest(listing.folders(tmp_path / "in"), path).nclips == 2
        with bp.frames.open(path) as store:
            assert list(store) == [f"clip{k}" for k in range(5)]

    def test_without_resume(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        ingest({"a": np.zeros(3)}, path)
        with pytest.raises(FileExistsError):
            ingest({"b": np.zeros(3)}, path, resume=False)
        ingest({"b": np.zeros(3)}, path, overwrite=True)
        with bp.frames.open(path) as store:
            assert list(store) == ["b"]

    def test_options_of_the_store_hold(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        ingest({"a": np.zeros((2, 4, 4), "u1")}, path, codec="jpeg", quality=30, attrs={"a": 1})
        ingest({"b": np.zeros((2, 4, 4), "u1")}, path)
        with bp.frames.open(path) as store:
            expected = [image.encode_jpeg(np.zeros((4, 4), "u1"), quality=30)] * 2
            assert store["b"].read_images() == expected
            assert store.attrs == {"a": 1}
        ingest({"b": np.zeros((2, 4, 4), "u1")}, path, attrs={"a": np.int64(1)})
        for options in ({"codec": "lossless"}, {"preset": "small"}, {"attrs": {"a": 2}}):
            with pytest.raises(ValueError, match="was made with"):
                ingest({"c": np.zeros(3)}, path, **options)  # type: ignore[arg-type]

    def test_a_file_of_another_kind_is_not_touched(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        bp.save(path, np.zeros(3))
        before = path.read_bytes()
        with pytest.raises(bp.exceptions.BloscpackError):
            ingest({"a": np.zeros(3)}, path)
        assert path.read_bytes() == before

    def test_a_url_is_not_taken_for_a_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UnsupportedError, match="cannot be written to a URL"):
            ingest({"a": np.zeros(3)}, "s3://b/a.blp", overwrite=True)
        assert os.listdir(tmp_path) == []

    def test_one_writer(self, tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "a.blp"), pytest.raises(LockedError):
            ingest({"a": np.zeros(3)}, tmp_path / "a.blp")


class TestSeries:
    def items(self) -> Iterator[Item]:
        for number in range(12):
            random = np.random.default_rng(number)
            yield ArrayItem(id=f"{number}", frames=random.integers(0, 256, (4, 1000), "u1"))

    def test_files_are_cut(self, tmp_path: Path) -> None:
        report = ingest(self.items(), tmp_path / "set.blp", max_bytes=15_000)
        assert report.paths == [str(tmp_path / f"set-{k:05d}.blp") for k in range(3)]
        assert sorted(os.listdir(tmp_path)) == [f"set-{k:05d}.blp" for k in range(3)]
        found: list[str] = []
        for path in report.paths:
            assert os.path.getsize(path) < 15_000 + 2 * 4500
            with bp.frames.open(path) as store:
                found += store
        assert found == [str(k) for k in range(12)]
        assert ingest(self.items(), tmp_path / "set.blp", max_bytes=15_000).npresent == 12

    def test_resumed(self, tmp_path: Path) -> None:
        whole = ingest(self.items(), tmp_path / "a.blp", max_bytes=15_000).paths
        for count in (2, 6, 7, 12):
            ingest(list(self.items())[:count], tmp_path / "b.blp", max_bytes=15_000)
        for path in whole:
            with (
                bp.frames.open(path) as store,
                bp.frames.open(path.replace("a-", "b-")) as other,
            ):
                assert list(store) == list(other)

    def test_new_files_have_the_options_and_attrs_of_the_first(self, tmp_path: Path) -> None:
        frames = np.zeros((2, 8, 8, 3), "u1")
        given = {"codec": "jpeg", "quality": 50, "attrs": {"a": 1}}
        ingest({"0": frames}, tmp_path / "set.blp", max_bytes=1, **given)
        ingest({"1": frames, "2": frames}, tmp_path / "set.blp", max_bytes=1)
        ingest({"3": frames}, tmp_path / "set.blp", max_bytes=1)
        with bp.frames.create(tmp_path / "other.blp", attrs={"a": 2}) as other:
            other.append("4", frames)
        with bp.frames.open(tmp_path / "other.blp") as clips, pytest.warns(BloscpackWarning):
            paths = ingest(clips, tmp_path / "set.blp", max_bytes=1).paths
        assert len(paths) == 5
        for path in paths:
            with bp.frames.open(path) as store:
                assert (store.codec, store.quality, store.attrs) == ("jpeg", 50, {"a": 1})

    def test_a_folder_is_not_a_series(self, tmp_path: Path) -> None:
        with pytest.raises(IsADirectoryError):
            ingest(self.items(), f"{tmp_path}/", max_bytes=5000)
        assert os.listdir(tmp_path) == []

    def test_a_file_of_a_series_is_missing(self, tmp_path: Path) -> None:
        paths = ingest(self.items(), tmp_path / "set.blp", max_bytes=5000).paths
        os.remove(paths[1])
        report = ingest({"new": np.zeros(3), "0": np.zeros(3)}, tmp_path / "set.blp", max_bytes=10)
        assert (report.nclips, report.npresent) == (1, 1)
        assert report.paths == [paths[0], *paths[2:], str(tmp_path / f"set-{len(paths):05d}.blp")]

    def test_overwriting_leaves_nothing_of_the_old(self, tmp_path: Path) -> None:
        (tmp_path / "set-0001.blp").touch()
        (tmp_path / "set-00001.blp.bak").touch()
        ingest(self.items(), tmp_path / "set.blp", max_bytes=5000)
        with pytest.raises(FileExistsError):
            ingest(self.items(), tmp_path / "set.blp", max_bytes=5000, resume=False)
        report = ingest({"a": np.zeros(3)}, tmp_path / "set.blp", max_bytes=5000, overwrite=True)
        assert report.paths == [str(tmp_path / "set-00000.blp")]
        assert len(os.listdir(tmp_path)) == 3


@pytest.mark.parametrize(("old", "new"), [(None, 5000), (5000, None)])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_store_and_a_series_of_one_name(
    tmp_path: Path, old: int | None, new: int | None, overwrite: bool
) -> None:
    """One of them would have only some of the clips."""
    frames = np.zeros((2, 4, 4), "u1")
    (path,) = ingest({"a": frames}, tmp_path / "set.blp", max_bytes=old).paths
    with pytest.raises(FileExistsError, match="two places: add to it, with"):
        ingest({"b": frames}, tmp_path / "set.blp", max_bytes=new, overwrite=overwrite)
    assert ingest({"b": frames}, tmp_path / "set.blp", max_bytes=old).paths == [path]
    assert os.listdir(tmp_path) == [os.path.basename(path)]


@pytest.mark.parametrize("max_bytes", [None, 4000])
def test_an_error_leaves_what_was_to_be_replaced(tmp_path: Path, max_bytes: int | None) -> None:
    path = tmp_path / "set.blp"
    options: dict[str, Any] = {"max_bytes": max_bytes, "workers": 1}
    old = {f"old{k}": np.random.default_rng(k).random(1000) for k in range(3)}
    ingest(old, path, **options)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}

    def found() -> dict[str, bytes]:
        return {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}

    def new(count: int, error: Exception | None = None) -> Any:
        for k in range(count):
            assert found().items() >= before.items()
            yield f"new{k}", np.random.default_rng(9 + k).random(1000)
        if error is not None:
            raise error

    with pytest.raises(KeyError):
        ingest(new(5, KeyError()), path, overwrite=True, **options)
    assert found() == before
    # Items are taken ahead: here, more files are full than are to be replaced.
    late = [*new(5), ("bad", np.array("text"))]
    with pytest.raises(TypeError, match="not an array of text"):
        ingest(late, path, overwrite=True, on_error="raise", **options)
    assert found() == before
    with pytest.raises(ValueError, match="nothing was stored"):
        ingest({"bad": np.array("text")}, path, overwrite=True, **options)
    assert found() == before
    for count in (5, 1):
        before = found()
        report = ingest(new(count), path, overwrite=True, **options)
        assert sorted(found()) == [os.path.basename(each) for each in report.paths]
        with bp.frames.open(report.paths) as stores:
            assert list(stores) == [f"new{k}" for k in range(count)]


def test_double_ids(tmp_path: Path) -> None:
    items = [ArrayItem(id="a", frames=np.full(2, k)) for k in range(3)]
    report = ingest(items, tmp_path / "a.blp")
    assert (report.nclips, len(report.skipped)) == (1, 2)
    assert "the same id" in report.skipped[0].text
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert store["a"][0] == 0


def test_strange_ids(tmp_path: Path) -> None:
    ids = ["", "../x", "/", "a\0b", "\udcff", "x" * 1_000_000, "clip\n\x1b[31m"]
    assert ingest({id_: np.zeros(1) for id_ in ids}, tmp_path / "a.blp").nclips == len(ids)
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert list(store) == ids
    assert os.listdir(tmp_path) == ["a.blp"]


def test_raise_at_the_first(tmp_path: Path) -> None:
    items = [
        ArrayItem(id="a", frames=np.zeros(2)),
        BadItem(id="b", name="row 2", reason="no such thing"),
        ArrayItem(id="c", frames=np.zeros(2)),
    ]
    with pytest.raises(FormatError, match="no such thing") as caught:
        ingest(items, tmp_path / "a.blp", on_error="raise")
    assert caught.value.__notes__ == ["The item was 'b' from 'row 2'."]
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert list(store) == ["a"]


def test_missing_packages_are_raised_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(data: bytes, **_options: Any) -> None:
        raise ImportError("install simplejpeg")

    image_folders(tmp_path / "in", 1)
    monkeypatch.setattr(image, "decode", missing)
    with pytest.raises(ImportError, match="install simplejpeg"):
        ingest(listing.folders(tmp_path / "in"), tmp_path / "a.blp", codec="lossless", workers=1)


def test_errors_of_the_store_are_raised_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with bp.frames.create(tmp_path / "a.blp"):
        pass
    monkeypatch.setattr("bloscpack.storage.update.UpdateFile.write_at", full)
    with pytest.raises(OSError, match="No space"):
        ingest({"a": np.zeros(2)}, tmp_path / "a.blp")


def test_progress(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    arrays = {str(k): np.zeros(2) for k in range(3)}
    ingest(arrays, tmp_path / "a.blp", progress=lambda *call: calls.append(call))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    calls.clear()
    items = listing.in_memory(arrays | {"x": np.float64(0)})
    ingest(items, tmp_path / "a.blp", progress=lambda *call: calls.append(call))
    assert calls == [(4, -1)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"on_error": "ignore"}, ValueError),
        ({"quality": 50}, ValueError),
        ({"quality": 50, "codec": "lossless"}, ValueError),
        ({"quality": 500, "codec": "jpeg"}, ValueError),
        ({"short_edge": 5}, ValueError),
        ({"codec": "png"}, ValueError),
        ({"preset": "tiny"}, ValueError),
        ({"workers": 0}, ValueError),
        ({"max_bytes": 0}, ValueError),
    ],
)
def test_parameters(tmp_path: Path, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ingest({"a": np.zeros(2)}, tmp_path / "a.blp", **options)
    assert not (tmp_path / "a.blp").exists()


@pytest.mark.parametrize("items", ["folder", Path("folder"), [3], [ArrayItem(id=3, frames=[])]])  # type: ignore[arg-type]
def test_objects_that_are_not_items(tmp_path: Path, items: Any) -> None:
    with pytest.raises(TypeError):
        ingest(items, tmp_path / "a.blp")


def test_files_of_items_need_not_exist_until_they_are_read(tmp_path: Path) -> None:
    items = [ImageFiles(id="x", paths=("nowhere.jpg",))]
    with pytest.raises(ValueError, match=r"x \(nowhere.jpg\): skipped: No such file"):
        ingest(items, tmp_path / "a.blp")
