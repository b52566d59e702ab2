import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from .conftest import Blpk, Ended, flip

FILE_FIELDS = ["path", "status", "nchunks", "nbytes", "trailer", "damage"]
FILE_FIELDS += ["notices", "error"]


def test_sound_files(blpk: Blpk, packed: Path, ramp: Path) -> None:
    ended = blpk("verify", "packed.blp", "ramp.blp")
    assert (ended.code, ended.out, ended.err) == (0, "packed.blp: ok\nramp.blp: ok\n", "")


def test_each_damage_has_a_line(blpk: Blpk, packed: Path, ramp: Path) -> None:
    data = packed.read_bytes()
    flip(packed, -10)
    flip(packed, data.index(b"unit") + 2)
    ended = blpk("verify", "packed.blp", "ramp.blp")
    assert ended.code == 3
    lines = ended.out.splitlines()
    assert lines[-1] == "ramp.blp: ok"
    assert all(line.startswith("packed.blp: ") for line in lines[:-1])
    if len(lines) == 2:  # the front is damaged: what follows cannot be found
        assert "metadata" in lines[0]
    packed.write_bytes(data)
    flip(packed, -10)
    (line,) = blpk("verify", "packed.blp").out.splitlines()
    assert "chunk 9" in line
    assert line.endswith("(lost: decoded bytes 9000 to 10000)")


def test_json(blpk: Blpk, packed: Path, plain: Path, ramp: Path) -> None:
    flip(packed, -10)
    ended = blpk("verify", "--json", "packed.blp", "plain.bin", "nope", "ramp.blp")
    assert ended.code == 3
    document = ended.json
    assert (document["schema_version"], document["command"]) == (1, "verify")
    one, two, three, four = document["files"]
    assert all(list(each) == FILE_FIELDS for each in document["files"])
    assert (one["status"], one["nchunks"], one["nbytes"]) == ("damaged", 10, 10_000)
    (damage,) = one["damage"]
    fields = ["what", "index", "offset", "end", "first", "last", "rows", "clip", "frames"]
    assert list(damage) == [*fields, "region", "member", "file", "record", "stream"]
    assert damage["region"] is None
    assert (damage["index"], damage["first"], damage["last"]) == (9, 9000, 10_000)
    assert (two["status"], two["nchunks"], two["damage"]) == ("foreign", None, [])
    assert "not a Bloscpack file" in two["error"]
    assert (three["status"], three["error"]) == ("failed", "file 'nope' does not exist!")
    assert (four["status"], four["error"], four["damage"]) == ("ok", None, [])


def test_the_region_of_a_chunk_in_a_grid(blpk: Blpk, tmp_path: Path) -> None:
    bp.save(tmp_path / "grid.blp", np.arange(6000).reshape(10, 20, 30), chunks=(4, 5, 6))
    with bp.open(tmp_path / "grid.blp") as a:
        region = a.chunk_region(47)
        flip(tmp_path / "grid.blp", a.container.stored.offsets()[47] + 20)
    (damage,) = blpk("verify", "--json", "grid.blp").json["files"][0]["damage"]
    assert damage["region"] == [[side.start, side.stop] for side in region]


def test_weight_of_exit_codes(blpk: Blpk, packed: Path, plain: Path, ramp: Path) -> None:
    flip(packed, -10)
    assert blpk("verify", ramp, "nope").code == 1
    assert blpk("verify", "nope", plain, ramp).code == 4
    assert blpk("verify", plain, packed, "nope").code == 3


@pytest.mark.parametrize("nbytes", [5, 32, 100, 1500])
def test_truncated(blpk: Blpk, packed: Path, nbytes: int) -> None:
    packed.write_bytes(packed.read_bytes()[:nbytes])
    ended = blpk("verify", packed)
    assert ended.code == 3
    assert ended.out.startswith(f"{packed}: ")


def test_empty_and_missing(blpk: Blpk) -> None:
    Path("empty").write_bytes(b"")
    ended = blpk("verify", "empty")
    assert (ended.code, ended.out) == (4, "")
    assert ended.err == "blpk: error: empty: not a Bloscpack file: it is empty\n"
    assert blpk("verify", "nope").err == "blpk: error: file 'nope' does not exist!\n"


def test_standard_input(blpk: Blpk, packed: Path) -> None:
    ended = blpk("verify", "-", stdin=packed.read_bytes())
    assert (ended.code, ended.out) == (0, "-: ok\n")
    ended = blpk("verify", "-", stdin=packed.read_bytes()[:-1])
    assert ended.code == 3


class TestAdviceOnDamage:
    @pytest.fixture
    def damaged(self, tmp_path: Path) -> Path:
        path = tmp_path / "my data.blp"
        bp.save(path, np.arange(1000.0), chunks=100)
        with bp.open(path) as array:
            place = array.chunk_offset(3) + 20
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
        return path

    def test_the_commands_that_help_are_named(self, blpk: Blpk, damaged: Path) -> None:
        ended = blpk("cat", damaged.name)
        assert ended.code == 3
        lines = ended.err.splitlines()
        assert lines[0].startswith("blpk: error: my data.blp: chunk 3")
        (hint,) = lines[1:]
        assert hint == (
            "blpk: hint: to list all damage: blpk verify 'my data.blp'; "
            "to save what is whole: blpk recover 'my data.blp' OUT"
        )

    def test_they_do_not_name_themselves(self, blpk: Blpk, damaged: Path) -> None:
        assert "hint" not in blpk("verify", damaged.name).err
        assert "hint" not in blpk("recover", damaged.name, "out.blp").err

    def test_other_files_and_errors_get_none(self, blpk: Blpk, tmp_path: Path) -> None:
        (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff{")
        ended = blpk("convert", "x.npy", "x.blp")
        assert ended.code == 3
        assert "hint" not in ended.err
        assert "hint" not in blpk("cat", "nothing.blp").err


def test_quiet_prints_only_what_is_not_sound(blpk: Blpk, packed: Path, ramp: Path) -> None:
    assert blpk("-q", "verify", "ramp.blp", "packed.blp") == Ended(0, b"", "")
    flip(packed, -10)
    for argv in (["-q", "verify"], ["verify", "-q"]):
        ended = blpk(*argv, "ramp.blp", "packed.blp", "missing.blp")
        assert (ended.code, ended.out.count("\n")) == (3, 1)
        assert ended.out.startswith("packed.blp: chunk 9")
        assert ended.err == "blpk: error: file 'missing.blp' does not exist!\n"


@pytest.mark.parametrize("reads", [True, False])
def test_a_walk_of_a_folder(blpk: Blpk, tmp_path: Path, ramp: Path, reads: bool) -> None:
    """Files of a walk that are not ours are counted; a file with a suffix of ours must be one."""
    folder = tmp_path / "f"
    (folder / "a" / "gulp").mkdir(parents=True)
    for name in ("z.blp", "a/x", "a/::/b.blp", "a/[1].blp"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ramp, folder / name)
    with bp.frames.create(folder / "a" / "store.blp") as store:
        store.append("clip", np.zeros((2, 4, 4), "u1"))
    (folder / "notes.txt").write_text("text")
    (folder / ".hidden").write_bytes(b"")
    (folder / ".bloscpack-0.tmp").write_bytes(b"blpk")
    os.mkfifo(folder / "pipe")
    if reads:
        (folder / "empty.blp").write_bytes(b"")
        (folder / "a" / "other.vrs").write_text("text")
        (folder / "link.blp").symlink_to("missing")
        flip(folder / "a" / "x", -400)
    names = ["a/::/b.blp", "a/[1].blp", "a/store.blp", "a/x", "z.blp"]
    ended = blpk("verify", "-r", "f", "ramp.blp")
    lines = sorted(ended.out.splitlines())
    if not reads:
        assert lines == sorted([*(f"f/{name}: ok" for name in names), "ramp.blp: ok"])
        assert (ended.code, ended.err) == (0, "blpk: 6 checked, 2 of other types\n")
        assert blpk("verify", "-r", "notes.txt", "f").code == 1
        assert blpk("verify", "-r", "f/notes.txt").code == 4  # named, not found by a walk
        assert blpk("verify", "f").code == 4
        return
    assert ended.code == 3
    assert next(line for line in lines if "ok" not in line).startswith("f/a/x: chunk ")
    for words in ("link.blp' does not exist", "empty.blp: ", "other.vrs: "):
        assert words in ended.err
    assert ended.err.endswith("blpk: 9 checked, 2 of other types\n")
    document = blpk("verify", "-r", "--json", "f").json
    assert all(list(each) == FILE_FIELDS for each in document["files"])
    assert Counter(each["status"] for each in document["files"]) == {
        "ok": 4, "damaged": 1, "foreign": 4, "failed": 1,
    }  # fmt: skip
    assert blpk("-q", "verify", "-r", "f").out.count("\n") == 1


def test_a_walk_verifies_a_gulp_directory_once(blpk: Blpk, tmp_path: Path) -> None:
    (tmp_path / "f" / "gulp").mkdir(parents=True)
    for name in ("data_0.gulp", "meta_0.gmeta"):
        (tmp_path / "f" / "gulp" / name).write_bytes(b"{}" if "meta" in name else b"")
    ended = blpk("verify", "-r", "f")
    assert (ended.code, ended.out) == (0, "f/gulp: ok\n")
    (tmp_path / "f" / "gulp" / "meta_0.gmeta").write_bytes(b"{")
    assert blpk("verify", "-r", "f").code == 3
    assert blpk("verify", "-r", "missing").code == 1
