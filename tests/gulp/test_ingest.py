"""Ingest: the files of GulpIO2 for any number of workers, skipped items, refused input."""

import importlib
import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.exceptions import BloscpackWarning, LockedError, UnsupportedError
from bloscpack.gulp import GulpDirectory, GulpIngestor
from bloscpack.gulp.adapters import AbstractDatasetAdapter, ImageFolderAdapter, VideoFolderAdapter
from bloscpack.gulp.gulperrors import DuplicateIdException
from bloscpack.gulp.ingest.ingestlog import Journal, Plan
from bloscpack.gulp.ingest.ingestor import SkippedItem
from bloscpack.gulp.utils import find_images_in_folder
from tests.oracle import Oracle

from .conftest import frames
from .imagefiles import image_tree, save

INGEST = """
import importlib
adapters = importlib.import_module(gulp.__name__ + ".adapters")
adapter = adapters.ImageFolderAdapter(folder, out, img_size=20)
gulp.GulpIngestor(adapter, out, per_chunk, workers)()
"""


class Clips(AbstractDatasetAdapter):
    """Adapter of items by id; an exception in place of frames is raised."""

    arrivals = 0

    def __init__(self, items: dict[Any, Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def iter_data(self, slice_element: slice | None = None) -> Iterator[dict[str, Any]]:
        for id_ in list(self.items)[slice_element or slice(None)]:
            if isinstance(self.items[id_], Exception):
                raise self.items[id_]
            meta = {"name": str(id_), "arrivals": Clips.arrivals}
            yield {"id": id_, "meta": meta, "frames": self.items[id_]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Clips.arrivals += 1
        self.__dict__.update(state)


class Listed(Clips):
    """The same adapter, with ids known in advance."""

    def item_ids(self) -> list[str]:
        return [str(id_) for id_ in self.items]


def clips(*ids: Any) -> dict[Any, Any]:
    return {id_: frames(2, 8, 8, 3, seed=n) for n, id_ in enumerate(ids)}


def content(folder: Path) -> dict[str, bytes]:
    """Return the files of a directory by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("per_chunk", [1, 3, 100])
def test_the_files_are_those_of_gulpio2(
    oracle: Oracle, tmp_path: Path, workers: int, per_chunk: int
) -> None:
    folder = str(image_tree(tmp_path / "images")) + "/"
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    oracle(INGEST, folder=folder, out=str(theirs), per_chunk=per_chunk, workers=2)
    report = GulpIngestor(ImageFolderAdapter(folder, ours, img_size=20), ours, per_chunk, workers)()
    assert content(ours) == content(theirs)
    assert (report.items, report.frames, report.skipped, report.nresumed) == (8, 8, [], 0)
    assert report.chunks == list(range(-(-8 // per_chunk)))


def test_a_second_ingest_adds_chunks(oracle: Oracle, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for number in range(2):
        folder = f"{tmp_path}/images{number}/"
        for name in range(3):
            save(Path(folder) / "x" / f"{number}-{name}.jpg", seed=name)
        theirs.mkdir(exist_ok=True)
        oracle(INGEST, folder=folder, out=str(theirs), per_chunk=2, workers=1)
        GulpIngestor(ImageFolderAdapter(folder, ours, img_size=20), str(ours), "2", "1")()
    assert content(ours) == content(theirs)
    assert len(content(ours)) == 9


def test_gulpio2_reads_ingested_chunks(oracle: Oracle, tmp_path: Path) -> None:
    GulpIngestor(Clips(clips("a", 7, "ü")), tmp_path, 2, 2)()
    read = oracle(
        "gd = gulp.GulpDirectory(out)\n"
        "{k: [f.tolist() for f in gd[k][0]] for k in gd.chunk_lookup}",
        out=str(tmp_path),
    )
    directory = GulpDirectory(tmp_path)
    assert list(read) == ["a", "7", "ü"]
    for id_ in read:
        assert np.array_equal(read[id_], directory[id_][0])


def test_the_adapter_travels_once_to_each_worker(tmp_path: Path) -> None:
    import multiprocessing

    method = multiprocessing.get_start_method()
    multiprocessing.set_start_method("forkserver", force=True)
    try:
        GulpIngestor(Clips(clips(*range(6))), tmp_path, 1, 2)()
    finally:
        multiprocessing.set_start_method(method, force=True)
    directory = GulpDirectory(tmp_path)
    assert {directory[n][1]["arrivals"] for n in range(6)} == {1}


# Threads of other tests, such as that of fsspec, may run when workers are forked.
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [1, 2])
def test_skipped_items_are_reported(tmp_path: Path, workers: int) -> None:
    items = clips("a", "empty", "b", "deep", "c")
    items["empty"] = []
    items["deep"] = [np.zeros((4, 4), "u2")]
    skipped: list[SkippedItem] = []
    report = GulpIngestor(Clips(items), tmp_path, 2, workers, on_skip=skipped.append)()
    assert report.skipped == skipped
    assert [item.id for item in skipped] == ["empty", "deep"]
    assert skipped[0].reason == "no frames"
    assert "uint16" in skipped[1].reason
    assert list(GulpDirectory(tmp_path).chunk_lookup) == ["a", "b", "c"]
    assert (report.items, report.frames) == (3, 6)
    (tmp_path / "more").mkdir()
    with pytest.warns(BloscpackWarning, match="2 of 5 items were left out; the first is 'empty'"):
        GulpIngestor(Clips(items), tmp_path / "more", 2, workers)()


def test_a_chunk_of_nothing_is_that_of_gulpio2(tmp_path: Path) -> None:
    with pytest.warns(BloscpackWarning, match="none of the 1 items could be stored.*GulpIO2"):
        GulpIngestor(Clips({"a": []}), tmp_path, 2, 1, on_skip=lambda item: None)()
    assert content(tmp_path) == {"data_0.gulp": b"", "meta_0.gmeta": b"{}"}


def test_an_empty_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the adapter is empty: there is nothing to ingest"):
        GulpIngestor(Clips({}), tmp_path / "out", 2, 1)()
    assert not (tmp_path / "out").exists()


class Promising(Clips):
    """Adapter that counts one item more than it yields."""

    def __len__(self) -> int:
        return super().__len__() + 1


def test_an_adapter_that_yields_too_few_items_is_reported(tmp_path: Path) -> None:
    with pytest.warns(BloscpackWarning, match="has 3 items by its length, but yielded 2"):
        GulpIngestor(Promising(clips("a", "b")), tmp_path, 2, 1)()


def test_one_text_is_not_a_list_of_extensions(tmp_path: Path) -> None:
    folder = image_tree(tmp_path / "in")
    with pytest.raises(TypeError, match=r"file_extensions is a list, not a single str: \['.jpg'\]"):
        ImageFolderAdapter(folder, tmp_path, ".jpg")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="file_extensions is a list"):
        VideoFolderAdapter(folder, tmp_path, ".mp4")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"formats is a list, not a single str: \['jpg'\]"):
        find_images_in_folder(folder, formats="jpg")
    with pytest.raises(TypeError, match="ids is a list"):
        ImageFolderAdapter(folder, tmp_path).leave_out("cat")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_names_the_item_and_keeps_finished_chunks(tmp_path: Path, workers: int) -> None:
    items = clips("a", "b", "c", "d", "e")
    items["d"] = OSError("no such thing")
    with pytest.raises(OSError, match="no such thing") as caught:
        GulpIngestor(Clips(items), tmp_path, 2, workers)()
    assert caught.value.__notes__ == ["while items 2 to 3 were ingested, after item 'c'"]
    assert sorted(os.listdir(tmp_path)) == [".ingest", "data_0.gulp", "meta_0.gmeta"]
    assert os.listdir(tmp_path / ".ingest") == ["journal"]
    items["d"] = frames(1, 4, 4)
    report = GulpIngestor(Clips(items), tmp_path, 2, workers)()
    assert (report.nresumed, report.chunks, report.items) == (1, [0, 1, 2], 5)
    assert ".ingest" not in os.listdir(tmp_path)
    assert list(GulpDirectory(tmp_path).chunk_lookup) == ["a", "b", "c", "d", "e"]


def test_metadata_that_json_lacks_name_the_item(tmp_path: Path) -> None:
    class Odd(Clips):
        def iter_data(self, slice_element: slice | None = None) -> Iterator[dict[str, Any]]:
            for item in super().iter_data(slice_element):
                yield {**item, "meta": {"x": object()}}

    with pytest.raises(TypeError) as caught:
        GulpIngestor(Odd(clips("a", "b")), tmp_path, 2, 1)()
    assert "at item 'a'" in caught.value.__notes__[0]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", [Clips, Listed])
@pytest.mark.parametrize("workers", [1, 2])
def test_ids_that_are_there_are_refused(tmp_path: Path, kind: type[Clips], workers: int) -> None:
    GulpIngestor(kind(clips("a", "b", "c")), tmp_path, 2, workers)()
    before = content(tmp_path)
    for ids in (["a", "b", "c"], ["x", "y", "c"]):
        with pytest.raises(DuplicateIdException, match=r"there already"):
            GulpIngestor(kind(clips(*ids)), tmp_path, 3, workers)()
        assert content(tmp_path) == before


@pytest.mark.parametrize("kind", [Clips, Listed])
@pytest.mark.parametrize("per_chunk", [1, 5])
def test_ids_that_come_twice_are_refused(tmp_path: Path, kind: type[Clips], per_chunk: int) -> None:
    with pytest.raises(DuplicateIdException, match="'1'"):
        GulpIngestor(kind(clips(1, "x", "1")), tmp_path, per_chunk, 2)()
    GulpDirectory(tmp_path)


@pytest.mark.parametrize("name", ["gul[p", "*", "a?"])
def test_a_folder_of_any_name_grows(tmp_path: Path, name: str) -> None:
    GulpIngestor(Clips(clips("a")), tmp_path / name, 1, 1)()
    GulpIngestor(Clips(clips("b")), tmp_path / name, 1, 1)()
    assert list(GulpDirectory(tmp_path / name).chunk_lookup) == ["a", "b"]


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        GulpIngestor(Clips(clips("a")), tmp_path, 1, 0)
    for items, per_chunk in (({}, 1), (clips("a"), 0)):
        with pytest.raises(AssertionError):
            GulpIngestor(Clips(items), tmp_path, per_chunk, 1)()
    assert os.listdir(tmp_path) == []


def test_two_ingests_at_once_are_refused(tmp_path: Path) -> None:
    with (
        Journal(str(tmp_path), Plan(1, 1, None)),
        pytest.raises(LockedError, match="another ingest"),
    ):
        GulpIngestor(Clips(clips("a")), tmp_path, 1, 1)()
    GulpIngestor(Clips(clips("a")), tmp_path, 1, 1)()


def test_a_damaged_journal_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    for damage in (b"", b"{\n", b"[]\n", b"[" * 100_000 + b"\n"):
        folder = tmp_path / str(len(damage))
        (folder / ".ingest").mkdir(parents=True)
        (folder / ".ingest" / "journal").write_bytes(damage)
        report = GulpIngestor(Clips(clips("a")), folder, 1, 1)()
        assert (report.items, report.nresumed) == (1, 0)
        assert sorted(os.listdir(folder)) == ["data_0.gulp", "meta_0.gmeta"]


def test_a_number_in_a_journal_does_not_become_a_path(tmp_path: Path) -> None:
    folder, other = tmp_path / "gulp", tmp_path / "other.gulp"
    other.write_bytes(b"precious")
    items = Clips({**clips("a"), "b": OSError("stop")})
    with pytest.raises(OSError, match="stop"):
        GulpIngestor(items, folder, 1, 1)()
    journal = folder / ".ingest" / "journal"
    plan, done = map(json.loads, journal.read_text().splitlines())
    done |= {"number": "/../../other", "nbytes": [other.stat().st_size, 1]}
    journal.write_text(f"{json.dumps(plan)}\n{json.dumps(done)}\n")
    (folder / "data_").mkdir()
    with pytest.raises(DuplicateIdException, match="there already"):
        GulpIngestor(items, folder, 1, 1)()
    assert other.read_bytes() == b"precious"


def test_files_behind_a_link_are_not_removed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("precious")
    (tmp_path / "gulp").mkdir()
    (tmp_path / "gulp" / ".ingest").symlink_to(tmp_path / "home")
    with pytest.raises(UnsupportedError, match="remove the link"):
        GulpIngestor(Clips(clips("a")), tmp_path / "gulp", 1, 1)()
    assert os.listdir(tmp_path / "home") == ["letter"]


def test_progress_counts_chunks(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    progress = lambda done, total: seen.append((done, total))  # noqa: E731
    GulpIngestor(Clips(clips(*range(5))), tmp_path, 2, 2, progress=progress)()
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_an_orphan_of_another_writer_stays(tmp_path: Path) -> None:
    (tmp_path / "data_4.gulp").write_bytes(b"orphan")
    report = GulpIngestor(Clips(clips("a")), tmp_path, 1, 1)()
    assert report.chunks == [5]
    assert (tmp_path / "data_4.gulp").read_bytes() == b"orphan"


def test_jpegs_are_kept_as_they_are_if_asked_for(tmp_path: Path) -> None:
    path = save(tmp_path / "images" / "x" / "1.jpg", seed=4)
    adapter = ImageFolderAdapter(tmp_path / "images", tmp_path / "out", keep_jpegs=True)
    GulpIngestor(adapter, tmp_path / "out", 1, 1)()
    data = (tmp_path / "out" / "data_0.gulp").read_bytes()
    assert data == path.read_bytes().ljust(len(data), b"\0")
    assert len(data) % 4 == 0


def test_adapters_may_yield_jpegs_and_paths_of_them(tmp_path: Path) -> None:
    path = save(tmp_path / "1.jpg", seed=4)
    other = tmp_path / "notes.txt"
    other.write_text("no image")
    items = {
        "bytes": [path.read_bytes()],
        "paths": [path, str(path)],
        "text": [other],
        "gone": [tmp_path / "gone.jpg"],
    }
    report = GulpIngestor(Clips(items), tmp_path / "out", 4, 1, on_skip=lambda item: None)()
    assert (report.items, report.frames) == (2, 3)
    assert [item.id for item in report.skipped] == ["text", "gone"]
    assert "gone.jpg" in report.skipped[1].reason
    assert (tmp_path / "out" / "data_0.gulp").read_bytes().count(path.read_bytes()) == 3


def test_the_names_are_those_of_gulpio2() -> None:
    for module, names in {
        "bloscpack.gulp": ["GulpIngestor", "GulpDirectory", "ChunkWriter", "GulpChunk"],
        "bloscpack.gulp.fileio": ["GulpIngestor", "calculate_chunk_slices"],
    }.items():
        assert set(names) <= set(importlib.import_module(module).__all__)
    ingestor = GulpIngestor(Clips({}), "out", 3, 2)
    assert (ingestor.output_folder, ingestor.videos_per_chunk, ingestor.num_workers) == (
        "out",
        3,
        2,
    )
    assert json.dumps(pickle.loads(pickle.dumps(ingestor)).num_workers) == "2"


def test_a_url_is_not_taken_for_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedError, match=r"^s3://b/g: .* cannot be written to a URL"):
        GulpIngestor(Clips(clips("a")), "s3://b/g", 1, 1)()
    with pytest.raises(UnsupportedError, match=r"^s3://b/g: .* bloscpack\.frames\.open"):
        GulpDirectory("s3://b/g")
    assert os.listdir(tmp_path) == []
