"""File names for any stored name are valid everywhere, unique, and inside the folder."""

import os
import unicodedata
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.media.filename import FileNames

DEVICES = ["CON", "PRN", "AUX", "NUL", *(f"COM{n}" for n in range(10)), "LPT1", "LPT9"]
HOSTILE = {
    "../../etc/passwd": "__/__/etc/passwd.png",
    "/etc/passwd": "etc/passwd.png",
    "//host/share/x": "host/share/x.png",
    "a/../../b": "a/__/__/b.png",
    "./x.jpg": "x.png",
    "..": "__.png",
    ".": "000007.png",
    "...": "___.png",
    "a/.": "a.png",
    "a/": "a.png",
    "/": "000007.png",
    "": "000007.png",
    "..\\..\\x": "_._.._x.png",
    "C:\\Windows\\x.png": "C__Windows_x.png",
    "C:x": "C_x.png",
    "x.png:stream": "x.png_stream.png",
    "a\0b.png": "a_b.png",
    "a\nb\x1b[2J\u202e.png": "a_b_[2J_.png",
    "\ud800.png": "_.png",
    ".bashrc": "_bashrc.png",
    ".git/hooks/pre-commit": "_git/hooks/pre-commit.png",
    "-rf": "_rf.png",
    "~/x": "_/x.png",
    "~root": "_root.png",
    "con": "_con.png",
    "NUL.tar.png": "_NUL.tar.png",
    "aux.png": "_aux.png",
    "aux .x/y": "_aux .x/y.png",
    "Lpt1": "_Lpt1.png",
    "COM\u00b9": "_COM\u00b9.png",
    "x. .png": "x__.png",
    "dir./y": "dir_/y.png",
    '<a>|"b"?*': "_a___b___.png",
    "%s%n{0}$(id)`id`;&": "%s%n{0}$(id)`id`;&.png",
    "a.png/b": "a.png_/b.png",
    "a.CSV/b": "a.CSV_/b.png",
    "photo.JPEG": "photo.png",
    "photo.tar.webp": "photo.tar.png",
    ".png": "_png.png",
    "d\u00e9j\u00e0 vu \u732b.jpg": "d\u00e9j\u00e0 vu \u732b.png",
}


@pytest.mark.parametrize(("stored", "expected"), HOSTILE.items(), ids=map(ascii, HOSTILE))
def test_names(stored: str, expected: str) -> None:
    assert FileNames([".png"], ["samples.csv"]).add(stored, 7, ".png") == expected


def test_without_a_name_the_number_is_one() -> None:
    assert FileNames([".mp4"]).add(None, 12, ".mp4") == "000012.mp4"


def test_long_names_keep_both_ends() -> None:
    names = FileNames([".png"])
    name = names.add("a" * 500_000 + "end.png", 0, ".png")
    assert name.startswith("aaaa")
    assert name.endswith("_" + "a" * 22 + "end.png"), name
    assert len(name) < 130
    assert names.add("a" * 500_001 + "end.png", 1, ".png") == name.replace(".png", "-2.png")
    deep = names.add("/".join(["\u732b" * 30] * 50) + "/x.png", 2, ".png")
    assert deep.endswith("\u732b/x.png")
    assert 800 < len(deep.encode()) <= 1024


def test_the_same_name_gets_numbers() -> None:
    names = FileNames([".png"], ["samples.csv"])
    stored = [
        "a.jpg",
        "a.png",
        "A.png",
        "a-2.png",
        "a-2-2.png",
        "\u00e9",
        "e\u0301",
        "stra\u00dfe",
        "STRASSE",
    ]
    assert [names.add(name, 0, ".png") for name in stored] == [
        "a.png",
        "a-2.png",
        "A-3.png",
        "a-2-2.png",
        "a-2-2-2.png",
        "\u00e9.png",
        "e\u0301-2.png",
        "stra\u00dfe.png",
        "STRASSE-2.png",
    ]
    assert names.add("b/x", 0, ".png") == "b/x.png"
    assert names.add("B/X", 0, ".png") == "B/X-2.png"


def test_names_of_other_files_are_taken() -> None:
    assert FileNames([".json"], ["samples.json"]).add("Samples", 0, ".json") == "Samples-2.json"


def test_many_of_one_name_take_no_longer_each() -> None:
    names = FileNames([".png"])
    found = [names.add("x.png", 0, ".png") for _ in range(20_000)]
    assert found[-1] == "x-20000.png"
    assert len(set(found)) == len(found)


ANY = st.text() | st.text("./\\.:-~ aA\0\u0301") | st.sampled_from([*HOSTILE, *DEVICES])


@given(st.lists(ANY, max_size=8))
def test_any_names_are_names_everywhere_inside_and_each_once(stored: list[str]) -> None:
    names = FileNames([".png"], ["samples.csv"])
    found = [names.add(name, index, ".png") for index, name in enumerate(stored)]
    keys = [unicodedata.normalize("NFD", name).casefold() for name in found]
    assert len({*keys, "samples.csv"}) == len(keys) + 1
    folders = {key for name in keys for key in map(str, PurePosixPath(name).parents)}
    assert not folders & set(keys)
    for name in found:
        assert name.isprintable()
        assert len(name.encode()) <= 1024
        assert os.path.normpath(name) == name
        windows = PureWindowsPath("D:/out") / name
        assert not PureWindowsPath(name).drive
        assert windows.parts[:2] == ("D:\\", "out")
        for part in name.split("/"):
            assert part not in ("", ".", "..")
            assert part[0] not in ".-~"
            assert part[-1] not in ". "
            assert len(part.encode()) <= 255
            assert part.partition(".")[0].rstrip(" ").upper() not in DEVICES
