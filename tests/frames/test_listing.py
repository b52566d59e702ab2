"""Items of folders and lists: which are listed, in which order, and which are refused."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.exceptions import FormatError
from bloscpack.frames import ingest, listing
from bloscpack.frames.ingest.items import (
    ArrayFile,
    ArrayItem,
    BadItem,
    ImageFiles,
    ImageFolder,
    Item,
    OtherFile,
    ReadOptions,
    VideoFile,
)

from .imagefiles import image_folders, write_jpeg


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def ids(items: Any) -> list[str]:
    return [item.id for item in items]


def reasons(items: Any) -> dict[str, str]:
    return {item.id: item.reason for item in items if isinstance(item, BadItem)}


class TestFolders:
    def test_each_kind_takes_its_files(self, tmp_path: Path) -> None:
        touch(tmp_path, "b10.MP4", "b9.webm", "a/x.npy", "a/y.JPG", "a.png", "notes.txt", ".h.mp4")
        touch(tmp_path, "a/deep/z.mkv", ".git/w.mp4")
        assert ids(listing.videos(tmp_path)) == [
            *("b9", "b10", "a/deep/z"),
            *("a.png", "notes.txt", "a/x.npy", "a/y.JPG"),
        ]
        assert ids(listing.arrays(tmp_path))[0] == "a/x"
        assert ids(listing.images(str(tmp_path)))[:2] == ["a", "a/y"]
        assert ids(listing.folders(tmp_path)) == [tmp_path.name, "a", "a/deep/z.mkv"]
        item, *others = listing.arrays(tmp_path)
        assert {type(each) for each in others} == {OtherFile}
        assert item == ArrayFile(id="a/x", path=str(tmp_path / "a" / "x.npy"))
        assert list(listing.folders(tmp_path))[1] == ImageFolder(
            id="a", path=str(tmp_path / "a"), root=str(tmp_path)
        )

    def test_pictures_that_cannot_be_stored_are_reported(self, tmp_path: Path) -> None:
        write_jpeg(tmp_path / "in" / "a" / "f.jpg", 1)
        touch(tmp_path, "in/b/f.webp", "in/c/notes.txt")
        for items, id_ in ((listing.folders, "b"), (listing.images, "b/f")):
            report = ingest(items(tmp_path / "in"), tmp_path / "a.blp", overwrite=True)
            assert [remark.id for remark in report.remarks if remark.is_skipped] == [id_]
            assert report.nclips == 1

    @pytest.mark.parametrize("listed", [False, True])
    def test_other_files_are_reported(self, tmp_path: Path, listed: bool) -> None:
        root, target = tmp_path / "in", tmp_path / "a.blp"
        touch(root, "a/notes.txt", "b.csv", ".hidden")
        np.save(root / "a" / "x.npy", np.zeros((2, 3, 4)))
        write_jpeg(root / "p" / "f.jpg", 1)
        write_jpeg(root / "g.jpg", 1)
        kinds: list[Any] = [listing.arrays, listing.images, listing.folders]
        for make, others in zip(
            kinds,
            [{"a/notes.txt", "b.csv", "p/f.jpg", "g.jpg"}, {"a/notes.txt", "a/x.npy", "b.csv"},
             {"a/notes.txt", "a/x.npy", "in"}],
            strict=True,
        ):  # fmt: skip
            items = list(make(root)) if listed else make(root)
            report = ingest(items, target, overwrite=True)
            assert {each.id for each in report.remarks if "left out: file" in str(each)} == others
            assert report.ok
        # What another listing of the same folder reads is not left out.
        items = (item for make in kinds for item in make(root))
        report = ingest(items, target, overwrite=True)
        assert [each.id for each in report.remarks] == ["in", "a/notes.txt"]
        with pytest.raises(ValueError, match="nothing to ingest"):
            ingest(listing.videos(root), target, overwrite=True)

    def test_names_are_taken_literally(self, tmp_path: Path) -> None:
        names = ["[a]*?", "x y", "ü", "new\nline", os.fsdecode(b"\xff\xfe")]
        for name in names:
            write_jpeg(tmp_path / name / "f.jpg", 1)
        assert sorted(ids(listing.folders(tmp_path))) == sorted(names)
        for item in listing.folders(tmp_path):
            assert len(list(item.read(ReadOptions()).frames)) == 1

    def test_one_file(self, tmp_path: Path) -> None:
        touch(tmp_path, "a/v.mp4")
        assert ids(listing.videos(tmp_path / "a" / "v.mp4", frame_rate=5)) == ["v"]
        with pytest.raises(FileNotFoundError):
            list(listing.videos(tmp_path / "none"))
        with pytest.raises(FileNotFoundError):
            list(listing.folders(tmp_path / "none"))

    def test_links(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        touch(root, "in/a.mp4")
        touch(tmp_path, "secret/s.mp4")
        (root / "inner.mp4").symlink_to("in/a.mp4")
        (root / "outer.mp4").symlink_to("../secret/s.mp4")
        (root / "gone.mp4").symlink_to("nothing.mp4")
        (root / "folder").symlink_to("../secret")
        (root / "in" / "up").symlink_to("..")
        (root / "self.mp4").symlink_to("self.mp4")
        found = list(listing.videos(root))
        assert [item.id for item in found if isinstance(item, VideoFile)] == [
            "gone", "inner", "in/a",
        ]  # fmt: skip
        assert sorted(reasons(found)) == ["folder", "in/up", "outer.mp4", "self.mp4"]
        assert "leads out of" in reasons(found)["outer.mp4"]
        assert "(outside)" in reasons(found)["folder"]
        found = list(listing.videos(root, outside=True))
        assert [item.id for item in found if isinstance(item, VideoFile)] == [
            "gone", "inner", "outer", "folder/s", "in/a",
        ]  # fmt: skip
        assert "parent folders" in reasons(found)["in/up"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
    def test_folder_that_cannot_be_listed(self, tmp_path: Path) -> None:
        touch(tmp_path, "a/v.mp4", "b/v.mp4")
        (tmp_path / "a").chmod(0)
        try:
            assert ids(listing.videos(tmp_path)) == ["a", "b/v"]
        finally:
            (tmp_path / "a").chmod(0o700)

    @pytest.mark.parametrize(
        ("names", "kind"),
        [
            (["a/b/c.npy"], "arrays"),
            (["a/c.jpg"], "folders"),
            (["c.webm", "d.npy"], "videos"),
            (["data_0.gulp", "meta_0.gmeta"], "gulp"),
        ],
    )
    def test_kind_of_a_folder(self, tmp_path: Path, names: list[str], kind: str) -> None:
        touch(tmp_path, *names)
        assert listing.kind_of(tmp_path) == kind

    @pytest.mark.parametrize(
        ("name", "kind"),
        [("a.PNG", "images"), ("a.csv", "list"), ("a.mov", "videos"), ("a.npy", "arrays")],
    )
    def test_kind_of_a_file(self, tmp_path: Path, name: str, kind: str) -> None:
        touch(tmp_path, name)
        assert listing.kind_of(tmp_path / name) == kind

    def test_nothing_to_ingest(self, tmp_path: Path) -> None:
        touch(tmp_path, "a.txt")
        for path in (tmp_path, tmp_path / "a.txt"):
            with pytest.raises(ValueError, match="nothing to ingest"):
                listing.kind_of(path)


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


class TestLists:
    def test_csv(self, tmp_path: Path) -> None:
        table = write(
            tmp_path / "list.csv",
            '\ufeffpath,id,label\na/1.mp4,one,"x, y"\nb.jpg,,\n\n"a\nb.npy",three,3\nfolder,f,\n',
        )
        found = listing.listed(table)
        assert found == [
            VideoFile(id="one", meta={"label": "x, y"}, path=str(tmp_path / "a/1.mp4")),
            ImageFiles(id="b", meta={"label": ""}, paths=(str(tmp_path / "b.jpg"),)),
            ArrayFile(id="three", meta={"label": "3"}, path=str(tmp_path / "a\nb.npy")),
            ImageFolder(id="f", meta={"label": ""}, path=f"{tmp_path}/folder", root=str(tmp_path)),
        ]

    @pytest.mark.parametrize(("name", "mark"), [("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t")])
    def test_delimiters(self, tmp_path: Path, name: str, mark: str) -> None:
        table = write(tmp_path / name, f"id{mark}path\nx{mark}a,b.mp4\n")
        (item,) = listing.listed(table)
        assert (item.id, item.source) == ("x", str(tmp_path / "a,b.mp4"))

    def test_columns_and_root(self, tmp_path: Path) -> None:
        table = write(tmp_path / "a.csv", "video,name,id\nv.webm,first,7\n")
        (item,) = listing.listed(
            table, root="videos", path_column="video", id_column="name", frame_rate=5
        )
        assert item == VideoFile(
            id="first", meta={"id": "7"}, path=os.path.join("videos", "v.webm"), frame_rate=5
        )

    def test_json(self, tmp_path: Path) -> None:
        rows = [
            {"path": "v.mp4", "id": 7, "label": [1, None]},
            {"path": ["2.png", "1.png"], "id": "ü"},
            {"path": "sub/v.mp4"},
        ]
        expected = [
            VideoFile(id="7", meta={"label": [1, None]}, path=str(tmp_path / "v.mp4")),
            ImageFiles(id="ü", paths=(str(tmp_path / "2.png"), str(tmp_path / "1.png"))),
            VideoFile(id="sub/v", path=str(tmp_path / "sub/v.mp4")),
        ]
        assert listing.listed(write(tmp_path / "a.json", rows)) == expected
        lines = "\n\n".join(map(json.dumps, rows))
        assert listing.listed(write(tmp_path / "a.jsonl", lines)) == expected

    @pytest.mark.parametrize(
        "path",
        ["../x.mp4", "/etc/x.mp4", "a/../../x.mp4", "..", "/", "x\0.mp4", "link/x.mp4"],
    )
    def test_nothing_leaves_the_root(self, tmp_path: Path, path: str) -> None:
        root = tmp_path / "root"
        root.mkdir()
        (root / "link").symlink_to(tmp_path)
        table = write(root / "a.json", [{"path": path, "id": "x"}, {"path": "y.mp4"}])
        bad, good = listing.listed(table)
        assert isinstance(bad, BadItem)
        assert (bad.id, bad.name) == ("x", "row 1")
        assert "leads out of" in bad.reason or "NUL" in bad.reason
        assert isinstance(good, VideoFile)
        assert isinstance(listing.listed(table, outside=True)[0], Item)
        assert isinstance(listing.listed(table, outside=True)[0], BadItem) == ("\0" in path)

    def test_paths_inside_the_root_are_accepted(self, tmp_path: Path) -> None:
        rows = [{"path": "a/../x.mp4"}, {"path": f"{tmp_path}/y.mp4", "id": "y"}]
        found = listing.listed(write(tmp_path / "a.json", rows))
        assert [type(item) for item in found] == [VideoFile, VideoFile]

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ({"id": "x"}, "no path in 'path'"),
            ({"path": ""}, "no path"),
            ({"path": []}, "no path"),
            ({"path": ["a.png", 3]}, "no path"),
            ({"path": {"a": 1}}, "no path"),
            ({"path": "a.mp4", "id": True}, "an id must be"),
            ({"path": "a.mp4", "id": [1]}, "an id must be"),
            (["a.mp4"], "a row must be an object"),
            (None, "a row must be an object"),
        ],
    )
    def test_invalid_rows(self, tmp_path: Path, row: Any, reason: str) -> None:
        (item,) = listing.listed(write(tmp_path / "a.json", [row]))
        assert isinstance(item, BadItem)
        assert reason in item.reason

    def test_invalid_csv_rows(self, tmp_path: Path) -> None:
        found = listing.listed(write(tmp_path / "a.csv", "path,id\na.mp4\nb.mp4,b,c\nc.mp4,c\n"))
        assert ids(found) == ["row 2", "row 3", "c"]
        assert reasons(found)["row 2"] == "1 fields, but the header has 2"

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.txt", b"", "a list file must be one of"),
            ("a.csv", b"", "no column 'path'"),
            ("a.csv", b"id,name\n1,2\n", "no column 'path' among id, name"),
            ("a.csv", b"path,path\n1,2\n", "two columns have the same name"),
            ("a.csv", b'path\n"a', "line 2"),
            ("a.csv", b"path\n" + b"a" * 200_000, "line 2: field larger"),
            ("a.csv", b"path\n\xff", "not UTF-8 at byte 5"),
            ("a.json", b'{"path": "a"}', "expected an array of objects, got dict"),
            ("a.json", b"[1, 2", "not JSON"),
            ("a.json", b"[" * 100_000, "not JSON"),
            ("a.jsonl", b'{"path": "a"}\n{"path"', "not JSON"),
            ("a.json", b"[" + b"9" * 5000 + b"]", "not JSON"),
        ],
    )
    def test_no_list(self, tmp_path: Path, name: str, content: bytes, message: str) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FormatError, match=message) as caught:
            listing.listed(tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))

    def test_huge_ids(self, tmp_path: Path) -> None:
        (item,) = listing.listed(write(tmp_path / "a.json", [{"path": "a.npy", "id": "x" * 10**6}]))
        assert len(item.id) == 10**6


def test_in_memory_and_other_sources(tmp_path: Path) -> None:
    arrays = {"a": np.zeros((2, 3)), "b": [b"image"]}
    found = list(listing.in_memory(arrays))
    assert [type(item) for item in found] == [ArrayItem, ArrayItem]
    assert ids(found) == ["a", "b"]
    image_folders(tmp_path, 1)
    assert ids(listing.folders(tmp_path)) == ["clip0"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("l.csv", "path,name\na.npy,x\n"), ("l.json", '[{"path": "a.npy", "name": "x"}]')],
)
def test_a_column_of_ids_that_is_named_must_exist(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FormatError, match="no column 'nmae' of ids"):
        listing.listed(tmp_path / name, id_column="nmae")
    assert [item.id for item in listing.listed(tmp_path / name, id_column="name")] == ["x"]
    assert [item.id for item in listing.listed(tmp_path / name)] == ["a"]
