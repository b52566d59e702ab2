"""Places: files, and the names of arrays and clips in them behind ``::/``."""

from pathlib import Path
from typing import Any

import pytest

from bloscpack.storage.file import Place


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("a.blp", Place("a.blp")),
        ("a.blp::/x", Place("a.blp", "x")),
        ("a.blp::/x/y", Place("a.blp", "x/y")),
        (Path("a.blp::/x"), Place("a.blp", "x")),
        ("s3://b/a.blp::/x", Place("s3://b/a.blp", "x")),
        ("zip://part::/archive", Place("zip://part::/archive")),
        (b"bytes::/x", Place(b"bytes::/x")),
        (["a.blp::/x"], Place(["a.blp::/x"])),
        (Place("a.blp::/x"), Place("a.blp::/x")),
    ],
)
def test_a_name_is_taken_apart_once(where: Any, place: Place) -> None:
    assert Place.of(where) == place


def test_a_file_with_the_mark_in_its_name_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.blp::").mkdir()
    Path("a.blp::/x").touch()
    assert Place.of("a.blp::/x") == Place("a.blp::/x")


def test_text_of_a_place() -> None:
    place = Place("https://user:word@host/a.blp?key=1", "x")
    assert str(place) == "https://user:word@host/a.blp?key=1::/x"
    assert "word" not in place.shown
    assert place.whole == Place(place.path)
