"""Killed ingests: the directory stays valid at any point, and the next run finishes."""

import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bloscpack.gulp import GulpDirectory, GulpIngestor
from bloscpack.gulp.adapters import ImageFolderAdapter
from bloscpack.gulp.chunk.ids import existing_ids
from bloscpack.gulp.gulperrors import DuplicateIdException
from bloscpack.storage import disk
from tests.conftest import REPOSITORY
from tests.oracle import Oracle

from .imagefiles import image_tree, save
from .test_ingest import Clips, Listed, clips, content

OPERATIONS = ("create", "write_at", "truncate", "sync", "sync_folder", "replace", "unlink")


class Crash(BaseException):
    """Simulated death of the process."""


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Simulate a kill at the n-th call that changes the disk: it and all later calls raise."""
    state: dict[str, Any] = {"left": None}

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if state["left"] is not None:
                state["left"] -= 1
                if state["left"] < 0:
                    raise Crash
            return function(*args, **kwargs)

        return call

    for name in OPERATIONS:
        monkeypatch.setattr(disk, name, wrap(getattr(disk, name)))
    # A killed process runs nothing more.
    monkeypatch.setattr("shutil.rmtree", wrap(__import__("shutil").rmtree))

    def arm(count: int | None) -> None:
        state["left"] = count

    return arm


def ingest(adapter: Any, folder: Path) -> Any:
    return GulpIngestor(adapter, folder, 2, 1, on_skip=lambda item: None)()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [Clips, Listed])
def test_a_crash_at_any_step_is_taken_up(
    tmp_path: Path, crash_at: Callable[[int | None], None], kind: type[Clips]
) -> None:
    items = clips("a", "b", "c", "d", "e")
    items["b"] = []
    ingest(kind(items), tmp_path / "whole")
    expected = content(tmp_path / "whole")
    for step in itertools.count():
        folder = tmp_path / str(step)
        crash_at(step)
        try:
            ingest(kind(items), folder)
        except Crash:
            crash_at(None)
        else:
            break
        there = existing_ids(folder)
        assert sorted(there) == ["a", "c", "d", "e"][: len(there)]
        assert set(GulpDirectory(folder).chunk_lookup) == there
        report = ingest(kind(items), folder)
        assert content(folder) == expected
        assert report.items == 4
        assert [item.id for item in report.skipped] == ["b"]
    assert step > 20


def test_a_chunk_killed_between_renames_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()
    replace = disk.replace

    def cut(source: str, target: str) -> None:
        if target.endswith("meta_1.gmeta"):
            raise Crash
        next(calls)
        replace(source, target)

    items = clips("a", "b", "c", "d")
    ingest(Clips(items), tmp_path / "whole")
    folder = tmp_path / "cut"
    monkeypatch.setattr(disk, "replace", cut)
    with pytest.raises(Crash):
        ingest(Clips(items), folder)
    monkeypatch.undo()
    assert (folder / "data_1.gulp").exists()
    assert not (folder / "meta_1.gmeta").exists()
    report = ingest(Clips(items), folder)
    assert report.nresumed == 1
    assert content(folder) == content(tmp_path / "whole")


def test_another_plan_is_not_taken_up(tmp_path: Path) -> None:
    items = clips("a", "b", "c", "d")
    broken = {**items, "d": OSError("stop")}
    with pytest.raises(OSError, match="stop"):
        ingest(Listed(broken), tmp_path)
    # In another order, finished items would be stored twice.
    turned = dict(reversed(items.items()))
    with pytest.raises(DuplicateIdException, match="another order was interrupted"):
        ingest(Listed(turned), tmp_path)
    # The remaining items alone are accepted.
    report = ingest(Listed({id_: items[id_] for id_ in ("c", "d")}), tmp_path)
    assert (report.nresumed, report.chunks) == (0, [1])
    assert os.path.exists(tmp_path / "meta_1.gmeta")
    assert not os.path.exists(tmp_path / ".ingest")


def test_chunks_that_are_gone_or_others_are_not_taken_for_done(tmp_path: Path) -> None:
    items = clips("a", "b", "c", "d", "e", "f")
    with pytest.raises(OSError, match="stop"):
        ingest(Listed({**items, "f": OSError("stop")}), tmp_path)
    for name in ("data_0.gulp", "meta_0.gmeta"):
        (tmp_path / name).unlink()
    ingest(Clips(clips("x")), tmp_path / "other")
    for name in ("data_{}.gulp", "meta_{}.gmeta"):
        (tmp_path / "other" / name.format(0)).rename(tmp_path / name.format(1))
    report = ingest(Listed(items), tmp_path)
    assert report.nresumed == 0
    assert sorted(GulpDirectory(tmp_path).chunk_lookup) == ["a", "b", "c", "d", "e", "f", "x"]


def test_unknown_ids_in_another_order_are_refused_as_they_come(tmp_path: Path) -> None:
    items = clips("a", "b", "c", "d")
    with pytest.raises(OSError, match="stop"):
        ingest(Clips({**items, "d": OSError("stop")}), tmp_path)
    with pytest.raises(DuplicateIdException, match="there already"):
        ingest(Clips(dict(reversed(items.items()))), tmp_path)
    assert set(GulpDirectory(tmp_path).chunk_lookup) == {"a", "b"}


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe\n", b"[]\n", b'{"items": 1}\n'])
def test_a_damaged_journal_is_ignored(tmp_path: Path, text: bytes) -> None:
    (tmp_path / ".ingest").mkdir()
    (tmp_path / ".ingest" / "journal").write_bytes(text)
    (tmp_path / ".ingest" / "0-abcd.gulp").write_bytes(b"left behind")
    ingest(Clips(clips("a")), tmp_path)
    assert sorted(content(tmp_path)) == ["data_0.gulp", "meta_0.gmeta"]


SLOW = """
    import sys
    from bloscpack.gulp import GulpIngestor
    from bloscpack.gulp.adapters import ImageFolderAdapter

    class Slow(ImageFolderAdapter):
        def iter_data(self, slice_element=None):
            for item in super().iter_data(slice_element):
                print(item["id"], flush=True)
                sys.stdin.readline()
                yield item

    folder, out = sys.argv[1:]
    GulpIngestor(Slow(folder, out), out, 2, 2)()
"""


@pytest.mark.parametrize("whole_group", [True, False])
@pytest.mark.parametrize("nitems", [1, 7, 15])
def test_a_killed_ingest_is_finished_by_the_next(
    tmp_path: Path, oracle: Oracle, nitems: int, whole_group: bool
) -> None:
    folder = tmp_path / "images"
    for number in range(20):
        save(folder / "x" / f"{number:02d}.jpg", seed=number)
    out, whole = tmp_path / "out", tmp_path / "whole"
    GulpIngestor(ImageFolderAdapter(folder, whole), whole, 2, 1)()
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW), folder, out],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(nitems):
        assert process.stdout.readline()
        process.stdin.write("\n")
        process.stdin.flush()
    if whole_group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate(timeout=240)  # until all workers have exited
    there = list(GulpDirectory(out).chunk_lookup)
    if len(list(out.glob("data*"))) == len(list(out.glob("meta*"))):  # not between two renames
        assert oracle("list(gulp.GulpDirectory(out).chunk_lookup)", out=str(out)) == there
    assert sorted(there) == [f"x-{number:02d}.jpg" for number in range(len(there))]
    report = GulpIngestor(ImageFolderAdapter(folder, out), out, 2, 3)()
    assert 2 * report.nresumed == len(there)
    assert content(out) == content(whole)


def test_shuffled_items_take_the_seed_to_go_on(tmp_path: Path) -> None:
    folder, out = image_tree(tmp_path / "images"), tmp_path / "out"

    def adapter(seed: int) -> ImageFolderAdapter:
        random.seed(seed)
        return ImageFolderAdapter(folder, out, shuffle=True)

    class Broken(ImageFolderAdapter):
        def _frames(self, meta: dict[str, Any]) -> Any:
            if meta is self.all_meta[-1]:
                raise KeyError("stop")
            return super()._frames(meta)

    random.seed(5)
    with pytest.raises(KeyError):
        ingest(Broken(folder, out, shuffle=True), out)
    with pytest.raises(DuplicateIdException, match="seed"):
        ingest(adapter(6), out)
    # A refused ingest leaves the interrupted one unchanged.
    assert ingest(adapter(5), out).nresumed == 3
    assert len(GulpDirectory(out).chunk_lookup) == 8
