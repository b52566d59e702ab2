"""Extraction writes samples exactly, and only inside the folder, for any stored name."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("av", reason="pictures are decoded by PyAV")
pytest.importorskip("PIL", reason="PNG is written by Pillow")

from bloscpack import benzina
from bloscpack.benzina.samplefiles import FORMS, ExtractReport, extract
from bloscpack.media import filename, image
from bloscpack.media.picturelist import LISTS
from bloscpack.storage.folder import outputfolder

from . import vectors
from .codedfiles import picture, sample, write_dataset
from .pictures import psnr

HOSTILE = [
    b"../outside\0",
    b"../../outside\0",
    b"a/../../outside\0",
    b"/tmp/absolute\0",
    b"//server/share/x\0",
    b"..\0",
    b".\0",
    b"/\0",
    b"\0",
    b"",
    b"nul\0in the middle\0",
    b"..\\..\\outside\0",
    b"C:\\outside\0",
    b"C:outside\0",
    b"CON\0",
    b"aux.png\0",
    b"x.png:stream\0",
    b"\xff\xfe not utf-8\0",
    b"line\nbreak\x1b[2J\0",
    b"-rf\0",
    b".bashrc\0",
    b".git/hooks/post-checkout\0",
    b"samples.csv\0",
    b"samples\0",
    b"samples.json/x\0",
    b"Samples.CSV/x\0",
    b"same.png\0",
    b"same.jpg\0",
    b"SAME.png\0",
    b"same.png/inside\0",
    b"trailing. . .\0",
    "\u202egnp.exe".encode() + b"\0",
    b"a" * 5000 + b"\0",
    b"d/" * 3000 + b"x\0",
]


def extracted(path: Path, folder: Path, **options: Any) -> ExtractReport:
    with benzina.open(path) as dataset:
        return extract(dataset, folder, **options)


def files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()
    )


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "samples.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "a.bzna", [b"0.png\0", b"deep/er/1.JPEG\0", b"two\0"])


@pytest.mark.parametrize("nthreads", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_forms(path: Path, tmp_path: Path, form: str, nthreads: int) -> None:
    calls: list[tuple[int, int]] = []
    report = extracted(
        path,
        tmp_path / "out",
        form=form,
        nthreads=nthreads,
        progress=lambda *state: calls.append(state),
    )
    suffix = FORMS[form]
    names = [f"0{suffix}", f"deep/er/1{suffix}", f"two{suffix}"]
    assert files(tmp_path / "out") == sorted([*names, "samples.csv"])
    contents = [(tmp_path / "out" / name).read_bytes() for name in names]
    if form == "mp4":
        assert contents == [sample(number) for number in range(3)]
    for number, content in enumerate(contents if form != "mp4" else []):
        pixels = image.decode(content)
        assert pixels.shape == picture(number).shape
        if form == "png":
            assert np.array_equal(pixels, picture(number))
        else:
            assert psnr(pixels, picture(number)) > 25
    nbytes = sum(map(len, contents))
    assert (report.nfiles, report.nbytes, report.nrenamed, report.damage) == (3, nbytes, 0, [])
    assert calls == [(1, 3), (2, 3), (3, 3)]
    assert rows(tmp_path / "out")[1] == {
        "index": "1",
        "file": names[1],
        "name": "deep/er/1.JPEG",
        "target": "1",
        "error": "",
    }


def test_the_list_as_json(path: Path, tmp_path: Path) -> None:
    extracted(path, tmp_path / "out", listing="json")
    found = json.loads((tmp_path / "out/samples.json").read_text("ascii"))
    assert found == [
        {"index": 0, "file": "0.mp4", "name": "0.png", "target": 0, "error": None},
        {
            "index": 1,
            "file": "deep/er/1.mp4",
            "name": "deep/er/1.JPEG",
            "target": 1,
            "error": None,
        },
        {"index": 2, "file": "two.mp4", "name": "two", "target": 2, "error": None},
    ]
    empty = write_dataset(tmp_path / "b.bzna", count=0)
    extracted(empty, tmp_path / "none", listing="json")
    assert json.loads((tmp_path / "none/samples.json").read_text("ascii")) == []
    extracted(path, tmp_path / "unlisted", listing=None)
    assert files(tmp_path / "unlisted") == ["0.mp4", "deep/er/1.mp4", "two.mp4"]


def test_views_and_samples_without_names(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.bzna", count=3)
    with benzina.open(path) as dataset:
        report = extract(dataset[1:], tmp_path / "out")
    assert files(tmp_path / "out") == ["000001.mp4", "000002.mp4", "samples.csv"]
    assert report.nrenamed == 2
    assert [row["name"] for row in rows(tmp_path / "out")] == ["", ""]


def test_the_thumbnail(tmp_path: Path) -> None:
    with benzina.open(vectors.data("mini12.bzna")) as dataset:
        extract(dataset[6:7], tmp_path / "thumb", form="png", track="bzna_thumb")
        extract(dataset[6:7], tmp_path / "input", form="png")
    thumb = image.decode((tmp_path / "thumb/cell.png").read_bytes())
    assert thumb.shape == (512, 426, 3)
    assert image.decode((tmp_path / "input/cell.png").read_bytes()).shape == (660, 550, 3)


@pytest.mark.parametrize("listing", LISTS)
def test_hostile_names_stay_inside(tmp_path: Path, listing: str) -> None:
    path = write_dataset(tmp_path / "a.bzna", HOSTILE)
    out = tmp_path / "deep" / "er" / "out"
    report = extracted(path, out, listing=listing)
    found = files(tmp_path)
    assert len(found) == 1 + len(HOSTILE) + 1
    assert all(name.startswith("deep/er/out/") for name in found if name != "a.bzna")
    assert not Path("/tmp/absolute.mp4").exists()
    assert report.nfiles == len(HOSTILE)
    assert not report.damage
    listed = rows(out) if listing == "csv" else json.loads((out / "samples.json").read_bytes())
    written = [row["file"] for row in listed]
    assert sorted([*written, LISTS[listing]]) == files(out)
    for number, name in enumerate(written):
        assert (out / name).read_bytes() == sample(number % 3), name
        assert os.path.realpath(out / name) == os.path.join(os.path.realpath(out), *name.split("/"))
        assert name.isprintable()
    with benzina.open(path) as dataset:
        assert [row["name"] for row in listed] == list(dataset.names)


@pytest.mark.parametrize("broken", ["names", "folder"])
def test_either_guard_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Names are made safe, and the folder refuses unsafe ones: each works without the other."""
    path = write_dataset(tmp_path / "a.bzna", [b"../outside\0", b"/outside\0", b"a/../../x\0"])
    out = tmp_path / "in" / "out"
    if broken == "names":
        monkeypatch.setattr(filename, "_portable", lambda part: part)
        with pytest.raises(ValueError, match="leads out of the folder"):
            extracted(path, out)
    else:
        monkeypatch.setattr(outputfolder, "_is_plain", lambda part: True)
        extracted(path, out)
    assert all(name.startswith("in/out/") for name in files(tmp_path) if name != "a.bzna")


def test_without_both_guards_something_lies_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the previous two tests would see a file written outside."""
    monkeypatch.setattr(filename, "_portable", lambda part: part)
    monkeypatch.setattr(outputfolder, "_is_plain", lambda part: True)
    path = write_dataset(tmp_path / "a.bzna", [b"../outside\0"])
    extracted(path, tmp_path / "in" / "out")
    assert (tmp_path / "in" / "outside.mp4").exists()


def test_links_are_not_followed(path: Path, tmp_path: Path) -> None:
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    out.mkdir()
    (outside / "precious").write_text("precious")
    (out / "0.mp4").symlink_to(outside / "precious")
    (out / "samples.csv").symlink_to(outside / "precious")
    extracted(path, out, overwrite=True)
    assert (out / "0.mp4").read_bytes() == sample(0)
    assert not (out / "samples.csv").is_symlink()
    (out / "deep" / "er" / "1.mp4").unlink()
    (out / "deep" / "er").rmdir()
    (out / "deep" / "er").symlink_to(outside)
    with pytest.raises(FileExistsError):
        extracted(path, out, overwrite=True)
    assert os.listdir(outside) == ["precious"]
    assert (outside / "precious").read_text() == "precious"


def test_a_folder_with_files_is_refused_without_overwrite(path: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/0.mp4").write_text("mine")
    (tmp_path / "out/other").write_text("mine, too")
    with pytest.raises(FileExistsError, match="is not empty"):
        extracted(path, tmp_path / "out")
    assert (tmp_path / "out/0.mp4").read_text() == "mine"
    extracted(path, tmp_path / "out", overwrite=True)
    assert (tmp_path / "out/0.mp4").read_bytes() == sample(0)
    assert (tmp_path / "out/other").read_text() == "mine, too"


def test_damage_is_reported_and_the_rest_is_extracted(path: Path, tmp_path: Path) -> None:
    with benzina.open(path) as dataset:
        offset = dataset[1].location
    content = bytearray(path.read_bytes())
    content[offset] = 0xFF
    path.write_bytes(content)
    assert not extracted(path, tmp_path / "raw").damage  # raw bytes are not checked
    report = extracted(path, tmp_path / "out", form="png")
    (damage,) = report.damage
    assert (damage.index, report.nfiles) == (1, 2)
    assert files(tmp_path / "out") == ["0.png", "samples.csv", "two.png"]
    row = rows(tmp_path / "out")[1]
    assert (row["file"], row["name"]) == ("", "deep/er/1.JPEG")
    assert row["error"] == damage.what
    assert row["error"].startswith("sample 1: ")


def test_a_sample_beyond_the_end(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.bzna", [b"a\0", b"b\0"], offsets={0: 2**40})
    report = extracted(path, tmp_path / "out")
    assert [damage.index for damage in report.damage] == [0]
    assert files(tmp_path / "out") == ["b.mp4", "samples.csv"]


def test_damaged_targets_leave_the_pictures(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.bzna", [b"a\0", b"b\0"], targets=[b"short"] * 2)
    report = extracted(path, tmp_path / "out")
    assert [damage.index for damage in report.damage] == [None]
    assert [row["target"] for row in rows(tmp_path / "out")] == ["-1", "-1"]
    assert report.nfiles == 2


def test_wrong_options(path: Path, tmp_path: Path) -> None:
    for wrong in ({"form": "gif"}, {"listing": "xml"}, {"quality": 0}, {"quality": 101}):
        with pytest.raises(ValueError, match="must be"):
            extracted(path, tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


def test_forms_are_those_of_the_command() -> None:
    from bloscpack.benzina.cli import extract as bzna_extract

    assert tuple(FORMS) == bzna_extract.FORMS
    assert tuple(LISTS) == bzna_extract.LISTS


@pytest.mark.parametrize("name", vectors.names("dataset"))
def test_vectors(name: str, tmp_path: Path) -> None:
    logical = vectors.facts(name)["logical"]
    report = extracted(vectors.FOLDER / name, tmp_path, nthreads=2)
    assert report.nfiles == logical["count"]
    found = rows(tmp_path)
    targets = logical["targets"] + [-1] * (logical["count"] - len(logical["targets"]))
    assert [int(row["target"]) for row in found] == targets
    if logical["filenames"] is not None:
        assert [row["name"] for row in found] == logical["filenames"]
        assert report.nrenamed == 0
    with benzina.open(vectors.FOLDER / name) as dataset:
        for stored, row in zip(dataset.samples(), found, strict=True):
            assert (tmp_path / row["file"]).read_bytes() == stored.data
