"""Verification of directories, even of those that cannot be opened, and GulpIO2's four checks."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.exceptions import NotBloscpackError
from bloscpack.gulp import GulpChunk, GulpDirectory
from bloscpack.gulp.sanity_utils import (
    check_data_file_size,
    check_data_file_size_larger_zero,
    check_for_duplicate_ids,
    check_for_failures,
    check_meta_file_size_larger_zero,
    get_duplicate_entries,
)
from bloscpack.gulp.verify import verify

from .conftest import frames

Same = Callable[..., Any]
Damage = Callable[[Path], object]

CHECKS = """
import importlib, os
sanity = importlib.import_module(gulp.__name__ + ".sanity_utils")
gd = gulp.GulpDirectory(folder)
[
    list(map(os.path.basename, getattr(sanity, name)(gd)))
    for name in (
        "check_meta_file_size_larger_zero",
        "check_data_file_size_larger_zero",
        "check_data_file_size",
        "check_for_duplicate_ids",
    )
]
"""


def test_a_sound_directory_passes(same: Same, folder: Path) -> None:
    assert same(CHECKS, folder=str(folder)) == [[], [], [], []]
    report = verify(folder, decode=True)
    assert report.ok
    assert (report.nchunks, report.nitems, report.nframes, report.notices) == (2, 3, 12, [])
    sizes = [path.stat().st_size for path in folder.glob("*.gulp")]
    assert report.nbytes == sum(sizes)


def test_the_largest_end_counts_not_the_last_item(folder: Path) -> None:
    chunk = GulpChunk(folder / "data_0.gulp", folder / "meta_0.gmeta")
    with chunk.open("ab"):
        chunk.append("a", {}, frames(1, 12, 16, 3))
        chunk.append("empty", {}, [])
    assert check_data_file_size(GulpDirectory(folder)) == []
    assert verify(folder, decode=True).ok


def test_an_empty_chunk_is_not_damage(tmp_path: Path) -> None:
    (tmp_path / "data_0.gulp").touch()
    (tmp_path / "meta_0.gmeta").write_text("{}")
    directory = GulpDirectory(tmp_path)
    assert check_data_file_size(directory) == []
    assert check_data_file_size_larger_zero(directory) == [str(tmp_path / "data_0.gulp")]
    assert check_meta_file_size_larger_zero(directory) == []
    assert verify(tmp_path).ok


@pytest.mark.parametrize("change", [-1, -5000, 3])
def test_a_file_of_another_size_fails(same: Same, folder: Path, change: int) -> None:
    path = folder / "data_0.gulp"
    data = path.read_bytes()
    path.write_bytes(data[:change] if change < 0 else data + bytes(change))
    assert same(CHECKS, folder=str(folder))[2] == ["data_0.gulp"]
    report = verify(folder)
    assert not report.ok
    assert {str(damage).partition(":")[0] for damage in report.damage} == {"data_0.gulp"}


def rewritten(name: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def reindexed(change: Callable[[Any], object]) -> Damage:
    """Damage a value of the index."""

    def apply(data: bytes) -> bytes:
        items = json.loads(data)
        change(items)
        return json.dumps(items).encode()

    return rewritten("meta_0.gmeta", apply)


def with_frame(place: Any) -> Damage:
    """Change the place of frame 1 of clip a."""
    return reindexed(lambda items: items["a"]["frame_info"].__setitem__(1, place))


def doubled(number: str) -> Damage:
    """Copy chunk 0 to another number."""

    def apply(folder: Path) -> None:
        for name in ("data_{}.gulp", "meta_{}.gmeta"):
            (folder / name.format(number)).write_bytes((folder / name.format(0)).read_bytes())

    return apply


@pytest.mark.parametrize(
    ("damage", "name", "text"),
    [
        (rewritten("meta_0.gmeta", lambda data: data[:-9]), "meta_0.gmeta", "not JSON"),
        (lambda folder: (folder / "meta_0.gmeta").unlink(), "data_0.gulp", "no index"),
        (lambda folder: (folder / "data_0.gulp").unlink(), "meta_0.gmeta", "no data file"),
        (rewritten("meta_0.gmeta", lambda _: b""), "meta_0.gmeta", "not JSON"),
        (rewritten("meta_0.gmeta", lambda _: b"[]"), "meta_0.gmeta", "not a JSON object"),
        (doubled("5"), "meta_5.gmeta", r"'a' is in .*meta_0\.gmeta too"),
        (doubled("00"), "data_00.gulp|data_0.gulp", "chunk 0 too"),
        (lambda folder: (folder / "data.gulp").touch(), "data.gulp", "number"),
        (with_frame([0, 0, -4]), "meta_0.gmeta", "'a', frame 1.*negative"),
        (with_frame([0, 0, 1 << 59]), "data_0.gulp", "'a', frame 1.*after the end of the file"),
        (with_frame("x"), "meta_0.gmeta", "'a', frame 1.*three integers"),
        (
            reindexed(lambda items: items["a"].pop("frame_info")),
            "meta_0.gmeta",
            "'a' has no list frame_info",
        ),
        (
            reindexed(lambda items: items["a"].update(meta_data=[])),
            "meta_0.gmeta",
            "'a' has no metadata",
        ),
        (
            rewritten("data_0.gulp", lambda data: bytes([data[0] ^ 1]) + data[1:]),
            "data_0.gulp",
            "'a', frame 0: no JPEG",
        ),
    ],
)
def test_each_damage_is_reported(folder: Path, damage: Damage, name: str, text: str) -> None:
    (folder / "data_1.gulp").write_bytes((folder / "data_1.gulp").read_bytes() + b"more")
    damage(folder)
    lines = [str(each) for each in verify(folder).damage]
    assert any(re.match(f"(?:{name}): .*{text}", line) for line in lines), lines
    assert any(line.startswith("data_1.gulp: 4 bytes after") for line in lines)


def test_frames_that_do_not_decode_are_found_if_asked_for(folder: Path) -> None:
    data = bytearray((folder / "data_0.gulp").read_bytes())
    # The tables of the first frame.
    data[20:60] = bytes(40)
    (folder / "data_0.gulp").write_bytes(data)
    assert verify(folder).ok
    (found,) = verify(folder, decode=True, nthreads=2).damage
    assert str(found).startswith("data_0.gulp: item 'a', frame 0: ")
    assert (found.clip, found.frames) == ("a", (0, 1))


def test_many_problems_of_a_file_are_summed_up(tmp_path: Path) -> None:
    (tmp_path / "data_0.gulp").touch()
    entry = {"frame_info": [[0, 0, 4]] * 1000, "meta_data": [{}]}
    (tmp_path / "meta_0.gmeta").write_text(json.dumps({"a": entry}))
    report = verify(tmp_path)
    assert len(report.damage) == 21
    assert report.damage[-1].what == "further problems of this kind"
    assert report.nframes == 1000


def test_notices(tmp_path: Path) -> None:
    with pytest.raises(NotBloscpackError, match="not a Gulp directory: it is empty"):
        verify(tmp_path)
    (tmp_path / ".ingest").mkdir()
    assert "interrupted" in verify(tmp_path).notices[0]
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "absent")


def test_progress_counts_bytes(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = verify(folder, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) == 2
    assert seen[-1] == (report.nbytes, report.nbytes)


def test_every_shared_case_is_judged_rightly(case: dict[str, Any]) -> None:
    report = verify(case["folder"], decode=True)
    required = case["required"]
    if required == "ok":
        assert report.ok, report.damage
    elif required not in ("ok_or_error",):
        assert not report.ok


def test_duplicates_are_counted() -> None:
    assert get_duplicate_entries([3, 1, 2, 1, 3, 1]) == [3, 1]


def test_results_are_printed_as_by_gulpio2(capsys: pytest.CaptureFixture[str]) -> None:
    check_for_failures({"message": "X", "failures": []})
    check_for_failures({"message": "Y", "failures": ["a"]})
    printed = capsys.readouterr().out
    assert printed == ("Sanity Check: X\nTest passed\nSanity Check: Y\nTest failed for: ['a']\n")


def test_ids_of_several_chunks(folder: Path) -> None:
    assert check_for_duplicate_ids(GulpDirectory(folder)) == []
    assert np.array_equal(GulpDirectory(folder)["c", [0]][0][0].shape, (12, 16, 3))
