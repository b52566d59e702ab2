"""Tar files with members of every type: each is a frame or metadata, or is listed as left out."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, FormatError, UnsupportedError
from bloscpack.exchange import webdataset
from bloscpack.media import image

from .conversions import npy

pytestmark = pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")

PICTURES = [image.encode_png(np.full((8, 9), each, "u1")) for each in range(12)]


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> Any:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


def write(path: Path, *members: Any, format: int = tarfile.PAX_FORMAT, mode: Any = "w") -> None:  # noqa: A002 - as in tarfile
    """Write a tar file of (name, content) and `TarInfo`."""
    with tarfile.open(path, mode, format=format) as archive:
        for each in members:
            if isinstance(each, tarfile.TarInfo):
                archive.addfile(each)
            else:
                archive.addfile(member(each[0], size=len(each[1])), io.BytesIO(each[1]))


def converted(path: Path) -> tuple[bp.Conversion, dict[str, Any], dict[str, Any]]:
    """Return the result, the first pixel of each frame by clips, and the metadata."""
    done = bp.convert(path, path.with_suffix(".blp"), overwrite=True, to="frames")
    with bp.frames.open(path.with_suffix(".blp")) as store:
        pixels = {
            id_: clip[...].reshape(len(clip), -1)[:, 0].tolist() for id_, clip in store.items()
        }
        return done, pixels, {id_: clip.meta for id_, clip in store.items()}


def test_links_are_members(tmp_path: Path) -> None:
    write(
        tmp_path / "a.tar",
        ("real/a.png", PICTURES[1]),
        member("b.png", tarfile.LNKTYPE, "real/a.png"),
        member("c.png", tarfile.SYMTYPE, "real/a.png"),
        member("deep/d.png", tarfile.SYMTYPE, "../c.png"),
        member("e.png", tarfile.LNKTYPE, "./c.png"),
        member("early.png", tarfile.SYMTYPE, "z.png"),
        ("z.png", PICTURES[2]),
        member("b.cls", tarfile.SYMTYPE, "label"),
        ("label", b"4"),
        member("out.png", tarfile.SYMTYPE, "../../etc/passwd"),
        member("root.png", tarfile.SYMTYPE, "/etc/passwd"),
        member("gone.png", tarfile.LNKTYPE, "nothing"),
        member("round.png", tarfile.SYMTYPE, "round2.png"),
        member("round2.png", tarfile.SYMTYPE, "round.png"),
        member("self.png", tarfile.SYMTYPE, "self.png"),
        member("folder", tarfile.SYMTYPE, "real"),
    )
    done, pixels, meta = converted(tmp_path / "a.tar")
    assert pixels == {
        "real/a": [1], "b": [1], "c": [1], "deep/d": [1], "e": [1], "early": [2], "z": [2]
    }  # fmt: skip
    assert meta["b"] == {"cls": 4}
    left = ("label", "out.png", "root.png", "gone.png", "round.png", "round2.png", "self.png")
    assert done.left_out == tuple(f"member {name!r}" for name in (*left, "folder"))


def test_a_hard_link_has_the_content_that_was_there(tmp_path: Path) -> None:
    write(
        tmp_path / "a.tar",
        ("a.png", PICTURES[1]),
        member("b.png", tarfile.LNKTYPE, "a.png"),
        ("a.png", PICTURES[2]),
    )
    done, pixels, _ = converted(tmp_path / "a.tar")
    assert pixels == {"a": [2], "b": [1]}
    assert done.left_out == ("earlier member 'a.png'",)


def test_natural_order(tmp_path: Path) -> None:
    names = [f"clip.{number}.png" for number in range(12)]
    write(tmp_path / "a.tar", *zip(names, PICTURES, strict=True))
    assert converted(tmp_path / "a.tar")[1] == {"clip": list(range(12))}
    write(tmp_path / "b.tar", *zip(reversed(names), reversed(PICTURES), strict=True))
    done, pixels, _ = converted(tmp_path / "b.tar")
    assert pixels == {"clip": list(range(12))}
    assert done.left_out == ()


def test_names_of_images_that_are_not_numbers(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", ("a.right.png", PICTURES[1]), ("a.left.png", PICTURES[2]))
    done, pixels, _ = converted(tmp_path / "a.tar")
    assert pixels == {"a": [2, 1]}
    assert done.left_out == ("names of the images of 'a': left.png, right.png",)
    write(tmp_path / "b.tar", ("a.seg.png", PICTURES[1]))
    assert converted(tmp_path / "b.tar")[0].left_out == ("names of the images of 'a': seg.png",)


def test_names_that_fold_to_one(tmp_path: Path) -> None:
    write(
        tmp_path / "a.tar",
        ("a.png", PICTURES[1]),
        ("a.PNG", PICTURES[2]),
        ("./b.png", PICTURES[3]),
        ("b.png", PICTURES[4]),
        ("x/../c.png", PICTURES[5]),
        ("c.cls", b"5"),
        ("A.png", PICTURES[6]),
    )
    done, pixels, meta = converted(tmp_path / "a.tar")
    assert pixels == {"a": [1], "b": [4], "c": [5], "A": [6]}
    assert meta["c"] == {"cls": 5}
    assert done.left_out == ("member 'a.PNG'", "earlier member 'b.png'")


def test_archives_that_follow_each_other(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", ("a.png", PICTURES[1]))
    write(tmp_path / "b.tar", ("b.png", PICTURES[2]), member("c.png", tarfile.LNKTYPE, "a.png"))
    one, two = (tmp_path / "a.tar").read_bytes(), (tmp_path / "b.tar").read_bytes()
    (tmp_path / "both.tar").write_bytes(one + two + bytes(1 << 21) + one)
    done, pixels, _ = converted(tmp_path / "both.tar")
    assert pixels == {"a": [1], "b": [2], "c": [1]}
    assert done.left_out == ("earlier member 'a.png'",)
    (tmp_path / "junk.tar").write_bytes(one + b"junk")
    assert converted(tmp_path / "junk.tar")[0].left_out == (
        "trailing bytes after the end of the archive: 4 bytes",
    )
    (tmp_path / "cut.tar").write_bytes(one + two[:600])
    with pytest.raises(FormatError):
        converted(tmp_path / "cut.tar")


def test_a_damaged_header_is_not_the_end(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", *((f"{k}.png", PICTURES[k]) for k in range(3)))
    content = bytearray((tmp_path / "a.tar").read_bytes())
    with tarfile.open(tmp_path / "a.tar") as archive:
        at = archive.getmembers()[1].offset
    content[at + 150] ^= 1
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(FormatError, match=f"the header of the member at byte {at} is damaged"):
        converted(tmp_path / "a.tar")


@pytest.mark.parametrize(
    "text", ["1e5", "null", "007", "true", '"x"', "1.0", "-0", "9" * 5000, "٣"]
)
def test_text_stays_text(text: str, tmp_path: Path) -> None:
    write(tmp_path / "a.tar", ("a.png", PICTURES[1]), ("a.cls", text.encode()), ("a.txt", b"12"))
    assert converted(tmp_path / "a.tar")[2] == {"a": {"cls": text, "txt": "12"}}


@pytest.mark.parametrize(("text", "number"), [("4", 4), ("-1", -1), ("0", 0), ("12\n", 12)])
def test_classes_are_numbers(text: str, number: int, tmp_path: Path) -> None:
    write(tmp_path / "a.tar", ("a.png", PICTURES[1]), ("a.cls", text.encode()))
    assert converted(tmp_path / "a.tar")[2] == {"a": {"cls": number}}


def test_fields_of_json_that_replace_members(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", ("a.png", PICTURES[1]), ("a.cls", b"4"), ("a.json", b'{"cls": 5}'))
    done, _, meta = converted(tmp_path / "a.tar")
    assert meta == {"a": {"cls": 5}}
    assert done.left_out == ("member 'a.cls'",)


def test_keys_that_json_repeats(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", ("a.png", PICTURES[1]), ("a.json", b'{"b": {"c": 1, "c": 2}}'))
    done, _, meta = converted(tmp_path / "a.tar")
    assert meta == {"a": {"b": {"c": 2}}}
    assert done.left_out == ("earlier values of keys that member 'a.json' repeats",)


def test_text_that_cannot_be_metadata_is_left_out_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webdataset, "_MAX_TEXT_NBYTES", 9)
    write(
        tmp_path / "a.tar",
        ("a.png", PICTURES[1]),
        ("a.txt", "größe".encode("latin-1")),
        ("a.json", b'{"b": 1}'),
        ("c.png", PICTURES[1]),
        ("c.json", b'{"b": 100}'),
    )
    done, _, meta = converted(tmp_path / "a.tar")
    assert meta == {"a": {"b": 1}, "c": {}}
    assert done.left_out == ("member 'a.txt'", "member 'c.json'")


def test_arrays_that_are_not_frames(tmp_path: Path) -> None:
    """They are left out alone; a sample of another one is whole."""
    arrays = {
        "0-d": np.float32(3),
        "text": np.array([["a", "bc"]]),
        "bytes": np.array([[b"a", b"bc"]]),
        "fields": np.zeros((2, 3, 4), [("a", "u1"), ("b", "f4")]),
        "objects": np.array([None, 1], object),
    }
    members = [(f"{key}.npy", npy(array)) for key, array in arrays.items()]
    write(tmp_path / "a.tar", *members, ("good.npy", npy(np.ones((2, 3, 4), "u1"))))
    done = bp.convert(tmp_path / "a.tar", tmp_path / "a.blp")
    others = [key for key in arrays if key != "objects"]
    assert done.left_out == (
        "member 'objects.npy'",
        *(
            f"member '{key}.npy', which has {arrays[key].dtype} of {arrays[key].shape}"
            for key in others
        ),
    )
    with bp.frames.open(tmp_path / "a.blp") as store:
        shapes = {id_: clip.shape for id_, clip in store.items()}
    assert shapes == {**dict.fromkeys(arrays, (0,)), "good": (2, 3, 4)}
    with pytest.raises(UnsupportedError, match=r"strict: .*objects"):
        bp.convert(tmp_path / "a.tar", tmp_path / "b.blp", strict=True)


def test_an_error_names_the_sample(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", ("x.png", b"junk"))
    with pytest.raises(FormatError, match=r"a\.tar: clip 'x': neither a JPEG nor a PNG"):
        bp.convert(tmp_path / "a.tar", tmp_path / "a.blp")


def test_compressed_files_are_named(tmp_path: Path) -> None:
    for mode, name in (("w:gz", "a gzip file"), ("w:bz2", "a bzip2 file"), ("w:xz", "an xz file")):
        write(tmp_path / "a.tgz", ("a.png", PICTURES[1]), mode=mode)
        with pytest.raises(BloscpackError, match=f"{name}.*decompress it first"):
            bp.convert(tmp_path / "a.tgz", tmp_path / "a.blp")


def torture(path: Path, format: int) -> None:  # noqa: A002 - as in tarfile
    """Write a tar file with one of each thing that it can hold."""
    long = "long/" + "x" * 120
    attributed = member("tagged.png", size=len(PICTURES[0]))
    attributed.pax_headers = {"SCHILY.xattr.user.note": "text"}
    with tarfile.open(path, "w", format=format, pax_headers={"comment": "all"}) as archive:
        archive.addfile(member("folder", tarfile.DIRTYPE))
        archive.addfile(member("bare", tarfile.DIRTYPE))
        archive.addfile(attributed, io.BytesIO(PICTURES[0]))
        for name, content in (
            ("folder/walk.0.png", PICTURES[1]),
            ("folder/walk.1.png", PICTURES[2]),
            ("folder/walk.json", json.dumps({"a": [1, None, 2.5]}).encode()),
            ("folder/walk.txt", "größe".encode()),
            (f"{long}.npy", npy(np.full((2, 8, 9), 7, "<u2"))),
            ("größe.npy", npy(np.full((2, 8, 9), 8, "<f4")) + b"more"),
            ("folder/walk.mp4", b"video"),
            ("README", b"text"),
            (".hidden", b"text"),
        ):
            archive.addfile(member(name, size=len(content)), io.BytesIO(content))
        archive.addfile(member("hard.png", tarfile.LNKTYPE, "folder/walk.0.png"))
        archive.addfile(member("soft.png", tarfile.SYMTYPE, "folder/walk.1.png"))
        for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
            archive.addfile(member(f"special{kind.decode()}.png", kind))
        archive.addfile(
            member("dense.png", tarfile.CONTTYPE, size=len(PICTURES[3])), io.BytesIO(PICTURES[3])
        )
        archive.addfile(member("unknown.png", b"Q"))
        if format == tarfile.PAX_FORMAT:
            sparse = member("holes.png", size=512)
            sparse.pax_headers = {"GNU.sparse.map": "0,512", "GNU.sparse.size": "4096"}
            archive.addfile(sparse, io.BytesIO(bytes(512)))


LEFT = [
    "folder 'bare'",
    "member 'folder/walk.mp4'",
    "member 'README'",
    "member '.hidden'",
    "device 'special3.png'",
    "device 'special4.png'",
    "pipe 'special6.png'",
    "member 'unknown.png'",
    "'größe': trailing bytes: 4 bytes",
]
LEFT_OF_PAX = [
    "pax header 'SCHILY.xattr.user.note'",
    "pax header 'comment'",
    "sparse member 'holes.png'",
]


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_one_of_each(format: int, tmp_path: Path) -> None:  # noqa: A002 - as in tarfile
    torture(tmp_path / "a.tar", format)
    done, pixels, meta = converted(tmp_path / "a.tar")
    expected = {
        "tagged": [0], "folder/walk": [1, 2], "long/" + "x" * 120: [7, 7], "größe": [8.0, 8.0],
        "hard": [1], "soft": [2], "dense": [3],
    }  # fmt: skip
    assert {id_: found for id_, found in pixels.items() if id_ != "unknown"} == expected
    assert meta["folder/walk"] == {"txt": "größe", "a": [1, None, 2.5]}
    left = LEFT + LEFT_OF_PAX * (format == tarfile.PAX_FORMAT)
    assert sorted(done.left_out) == sorted(left)
    with pytest.raises(UnsupportedError, match=r"strict: .*folder 'bare'; "):
        bp.convert(tmp_path / "a.tar", tmp_path / "strict.blp", strict=True)
    assert not (tmp_path / "strict.blp").exists()

    # Back, and read by tarfile.
    back = bp.convert(tmp_path / "a.blp", tmp_path / "back.tar", strict=True)
    assert back.left_out == ()
    with tarfile.open(tmp_path / "a.tar") as one, tarfile.open(tmp_path / "back.tar") as two:
        for name, again in (
            ("folder/walk.0.png", "folder/walk.000000.png"),
            ("folder/walk.1.png", "folder/walk.000001.png"),
            ("dense.png", "dense.png"),
            (f"long/{'x' * 120}.npy", f"long/{'x' * 120}.npy"),
        ):
            assert one.extractfile(name).read() == two.extractfile(again).read()  # type: ignore[union-attr]
        assert json.load(two.extractfile("folder/walk.json")) == meta["folder/walk"]  # type: ignore[arg-type]


def test_a_reader_that_forgets_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is not marked as carried is listed: forgetting is visible."""
    torture(tmp_path / "a.tar", tarfile.PAX_FORMAT)
    monkeypatch.setattr(webdataset.Inventory, "carry", lambda self, *texts: None)
    assert "member 'folder/walk.json'" in converted(tmp_path / "a.tar")[0].left_out


def test_two_arrays_of_one_sample(tmp_path: Path) -> None:
    one, two = (npy(np.full((1, 4, 4), each, "u1")) for each in (1, 2))
    write(tmp_path / "a.tar", ("k.a.npy", one), ("k.b.npy", two))
    done, pixels, _ = converted(tmp_path / "a.tar")
    assert (pixels, done.left_out) == ({"k": [1]}, ("member 'k.b.npy'",))


@pytest.mark.parametrize("nbytes", [0, 512])
def test_an_archive_that_is_cut_off_between_members(nbytes: int, tmp_path: Path) -> None:
    write(tmp_path / "a.tar", ("a.png", PICTURES[0]), ("b.png", PICTURES[1]))
    with tarfile.open(tmp_path / "a.tar") as archive:
        end = archive.getmembers()[1].offset
    content = (tmp_path / "a.tar").read_bytes()[:end] + bytes(nbytes)
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(FormatError, match=f"cut off at {end + nbytes} bytes"):
        converted(tmp_path / "a.tar")
