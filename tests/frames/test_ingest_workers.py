"""Ingest on several processes: the same bytes, and nothing lost when one of them is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import WorkerError
from bloscpack.frames import ingest, listing
from bloscpack.frames.ingest.items import ArrayItem, BadItem, Item, Reading, ReadOptions
from bloscpack.media import image

from ..conftest import REPOSITORY
from ..videofiles import moving, write_video
from .imagefiles import image_folders, picture, write_png


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedItem(Item):
    """Frames that record their reader, or fail to arrive."""

    number: int
    folder: str = ""

    def read(self, options: ReadOptions) -> Reading:
        return Reading(self._frames())

    def _frames(self) -> Iterator[np.ndarray]:
        for frame in range(40):
            yield np.full((200, 400), 40 * self.number + frame, "u2")
            if frame == 30 and self.folder:
                Path(self.folder, str(os.getpid())).touch()
                tries = len(os.listdir(self.folder))
                if tries == 1 or self.meta.get("always"):
                    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of several kinds, videos, arrays, and some unreadable files."""
    root = tmp_path_factory.mktemp("mixture")
    image_folders(root / "images", 6, 3)
    (root / "images" / "clip2" / "f1.jpg").write_bytes(b"nonsense")
    for number in range(3):
        write_png(root / "png" / f"{number}" / "1.png", picture(number, 40, 30))
        (root / "videos").mkdir(exist_ok=True)
        write_video(root / "videos" / f"{number}.mov", moving(5 * number + 2))
    for number in range(4):
        array = np.random.default_rng(number).integers(0, 50, (7, 30, 300), "u2")
        np.save(root / f"{number}.npy", array)
    return root


def items_of(root: Path) -> Iterator[Item]:
    yield from listing.arrays(root)
    yield ArrayItem(id="here", frames=np.arange(5))
    yield from listing.videos(root)
    yield BadItem(id="bad", name="row 9", reason="it is")
    yield from listing.folders(root)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("codec", [None, "lossless"])
def test_bytes_do_not_depend_on_the_number_of_workers(
    tmp_path: Path, mixture: Path, codec: str | None
) -> None:
    reports = [
        ingest(items_of(mixture), tmp_path / f"{count}.blp", codec=codec, workers=count)
        for count in (1, 2, 3)
    ]
    files = [(tmp_path / f"{count}.blp").read_bytes() for count in (1, 2, 3)]
    assert files[0] == files[1] == files[2]
    for report in reports:
        assert (report.nclips, [each.id for each in report.skipped]) == (
            16,
            ["bad", "images/clip2"],
        )
        assert [str(each) for each in report.remarks] == [str(each) for each in reports[0].remarks]
    with bp.frames.open(tmp_path / "3.blp") as store:
        np.testing.assert_array_equal(store["videos/2"][:], moving(12))
        np.testing.assert_array_equal(store["3"][:], np.load(mixture / "3.npy"))


def test_items_in_memory_are_not_sent(tmp_path: Path) -> None:
    frames = {"a": [memoryview(image.encode_jpeg(picture(1)))]}  # memoryviews do not pickle
    assert ingest(frames, tmp_path / "a.blp", workers=2).ok


@pytest.mark.slow
def test_item_of_a_killed_worker_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    items = [
        MarkedItem(id=f"{k}", number=k, folder=str(folder) if k == 2 else "") for k in range(6)
    ]
    report = ingest(items, tmp_path / "a.blp", workers=2)
    assert (report.nclips, report.ok) == (6, True)
    assert len(os.listdir(folder)) == 2
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert list(store) == [f"{k}" for k in range(6)]
        np.testing.assert_array_equal(store["2"][:][:, 0, 0], np.arange(80, 120))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on_error", ["skip", "raise"])
def test_item_that_kills_its_workers_is_named(tmp_path: Path, on_error: str) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    items = [
        MarkedItem(id="a", number=1),
        MarkedItem(id="b", number=2, folder=str(folder), meta={"always": True}),
        MarkedItem(id="c", number=3),
    ]
    path = tmp_path / "a.blp"
    if on_error == "raise":
        with pytest.raises(WorkerError, match="SIGKILL"):
            ingest(items, path, workers=2, on_error="raise")
        expected = ["a"]
    else:
        (remark,) = ingest(items, path, workers=2).skipped
        assert remark.id == "b"
        assert "killed by SIGKILL" in remark.text
        expected = ["a", "c"]
    assert len(os.listdir(folder)) == 2
    with bp.frames.open(path) as store:
        assert list(store) == expected


SCRIPT = """
import signal
import sys
from pathlib import Path
import bloscpack as bp
from bloscpack.frames import listing

if __name__ == "__main__":
    root, path, codec, workers, last = sys.argv[1:]
    def report(done, total):
        print(done, flush=True)
        if done == int(last):
            signal.pause()  # so that a busy test cannot interrupt too late
    paths = listing.folders(root)
    bp.frames.ingest(paths, path, codec=codec, workers=int(workers), progress=report)
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_interrupted_and_run_again(tmp_path: Path, workers: int, name: str) -> None:
    image_folders(tmp_path / "in", 60, 3)
    (tmp_path / "script.py").write_text(SCRIPT)
    expected = tmp_path / "whole.blp"
    ingest(listing.folders(tmp_path / "in"), expected, codec="lossless", workers=1)
    path = tmp_path / "a.blp"
    command = [sys.executable, "script.py", "in", "a.blp", "lossless", str(workers)]
    done = 0
    for stop_after in (7, 20, None):
        last = stop_after + 5 if stop_after else -1
        with subprocess.Popen(
            [*command, str(last)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout
            assert process.stderr
            for line in process.stdout:
                if int(line) == stop_after:
                    kill = os.killpg if name == "SIGINT" else os.kill
                    kill(process.pid, getattr(signal, name))
                    break
            process.stdout.read()  # ends when the last worker has ended
            process.stderr.read()
        assert (process.returncode == 0) == (stop_after is None)
        with bp.frames.open(path) as store:
            assert list(store) == [f"clip{k}" for k in range(len(store))]
            assert max(done, stop_after or 0) <= len(store) <= 60
            done = len(store)
    assert done == 60
    with bp.frames.open(path) as store, bp.frames.open(expected) as whole:
        for id_ in whole:
            np.testing.assert_array_equal(store[id_][:], whole[id_][:])


@pytest.mark.slow
def test_program_without_a_guard_gets_an_error(tmp_path: Path) -> None:
    image_folders(tmp_path / "in", 2, 1)
    (tmp_path / "script.py").write_text(SCRIPT.replace('__name__ == "__main__"', "True"))
    process = subprocess.run(
        [sys.executable, "script.py", "in", "a.blp", "lossless", "2", "-1"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert process.returncode == 1
    assert '`if __name__ == "__main__":`' in process.stderr.splitlines()[-1]
