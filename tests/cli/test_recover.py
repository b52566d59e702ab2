from pathlib import Path

import numpy as np

import bloscpack as bp

from .conftest import Blpk, flip

FIELDS = ["schema_version", "command", "path", "target", "status", "saved", "nchunks", "nbytes"]
FIELDS += ["trailer", "damage", "notices"]


def damage(path: Path, *chunks: int) -> None:
    with bp.open(path) as array:
        offsets = [array.chunk_offset(index) for index in chunks]
    for offset in offsets:
        flip(path, offset + 20)


def test_sound(blpk: Blpk, ramp: Path) -> None:
    ended = blpk("recover", "ramp.blp", "new.blp")
    assert (ended.code, ended.out, ended.err) == (0, "ramp.blp: 5 of 5 chunks saved\n", "")
    assert Path("new.blp").read_bytes() == ramp.read_bytes()


def test_missing_chunks_are_reported(blpk: Blpk, ramp: Path) -> None:
    damage(ramp, 1, 4)
    ended = blpk("recover", "ramp.blp", "new.blp")
    assert (ended.code, ended.err) == (3, "")
    first, second, third = ended.out.splitlines()
    assert first == "ramp.blp: 3 of 5 chunks saved"
    assert second.endswith("(lost: decoded bytes 224 to 448, rows 7 to 14)")
    assert "cut off" in third
    assert bp.load("new.blp").shape == (28, 4)


def test_json(blpk: Blpk, ramp: Path) -> None:
    damage(ramp, 1)
    ended = blpk("recover", "--json", "ramp.blp", "new.blp")
    assert (ended.code, list(ended.json)) == (3, FIELDS)
    assert (ended.json["status"], ended.json["saved"], ended.json["trailer"]) == (
        "damaged",
        4,
        "valid",
    )
    assert [one["rows"] for one in ended.json["damage"]] == [[7, 14]]


def test_target(blpk: Blpk, ramp: Path, plain: Path) -> None:
    assert blpk("recover", "ramp.blp", "ramp.blp").code == 1
    before = plain.read_bytes()
    ended = blpk("recover", "ramp.blp", "plain.bin")
    assert (ended.code, plain.read_bytes()) == (1, before)
    assert "exists" in ended.err
    assert blpk("recover", "ramp.blp", "plain.bin", "-f").code == 0
    assert blpk("-f", "recover", "ramp.blp", "plain.bin").code == 0
    assert np.array_equal(bp.load(plain), bp.load(ramp))


def test_standard_streams(blpk: Blpk, ramp: Path) -> None:
    data = ramp.read_bytes()
    ended = blpk("recover", "-", "-", stdin=data)
    assert (ended.code, ended.raw) == (0, data)
    assert ended.err == "blpk: -: 5 of 5 chunks saved\n"
    assert blpk("recover", "--json", ramp, "-").code == 2


def test_a_damaged_magic(blpk: Blpk, ramp: Path, packed: Path) -> None:
    data = ramp.read_bytes()
    flip(ramp, 0)
    assert blpk("verify", "ramp.blp").code == 3
    ended = blpk("recover", "ramp.blp", "new.blp")
    assert ended.code == 0
    assert "restored from the copy in the trailer" in ended.out
    assert Path("new.blp").read_bytes() == data
    flip(packed, 0)
    assert blpk("recover", packed, "other.blp").code == 4


def test_nothing_to_save(blpk: Blpk, packed: Path, plain: Path) -> None:
    packed.write_bytes(packed.read_bytes()[:100])
    ended = blpk("recover", "packed.blp", "new.blp")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("blpk: error: packed.blp: ")
    assert blpk("recover", plain, "new.blp").code == 4
    assert blpk("recover", "nope", "new.blp").code == 1
    assert not Path("new.blp").exists()


def test_verify_fix(blpk: Blpk, packed: Path, ramp: Path) -> None:
    ended = blpk("verify", "--fix", "packed.blp", "ramp.blp")
    assert (ended.code, ended.out) == (0, "packed.blp: ok\nramp.blp: ok\n")
    assert "the trailer was rewritten" in ended.err
    assert blpk("verify", "packed.blp", "--json").json["files"][0]["trailer"] == "valid"
    assert blpk("info", "packed.blp").out.endswith("blpk: trailer: valid\n")
    damage(ramp, 2)
    ended = blpk("verify", "--fix", "ramp.blp")
    assert ended.code == 3
    assert "nothing was fixed" in ended.err
    assert blpk("verify", "--fix", "-", stdin=packed.read_bytes()).code == 1
