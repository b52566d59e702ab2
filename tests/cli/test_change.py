"""``blpk set``, ``log``, ``rm``, ``mv`` and ``compact``."""

from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from .conftest import Blpk


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    with bp.frames.create("a.blp", preset="raw") as store:
        for name in ("walk", "run", "jump"):
            store.append(name, rng.integers(0, 256, (3, 100, 100), "u1"))
    return tmp_path / "a.blp"


def ids(path: Path) -> list[str]:
    with bp.frames.open(path) as store:
        return list(store)


def test_rm_and_compact(blpk: Blpk, store: Path) -> None:
    assert "removed" not in blpk("info", "a.blp").out
    ended = blpk("rm", "a.blp::/walk", "a.blp::/jump")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert ids(store) == ["run"]
    document = blpk("info", "--json", "a.blp").json
    assert document["dead_nbytes"] == 2 * (30000 + 8)
    assert 0 <= document["freed_nbytes"] <= document["dead_nbytes"]
    assert "removed" in blpk("info", "a.blp").out
    before = store.stat().st_size
    ended = blpk("compact", "a.blp")
    after = store.stat().st_size
    assert (ended.code, ended.out) == (0, f"a.blp: {before} bytes, now {after}\n")
    assert after < before - 60000
    assert ids(store) == ["run"]
    assert blpk("info", "--json", "a.blp").json["dead_nbytes"] == 0


def test_mv(blpk: Blpk, store: Path) -> None:
    assert blpk("mv", "a.blp::/run", "ran").code == 0
    assert ids(store) == ["walk", "ran", "jump"]
    ended = blpk("mv", "a.blp::/ran", "jump")
    assert ended.code == 1
    assert "already" in ended.err
    ended = blpk("mv", "a.blp::/ran", "a.blp::/run")
    assert (ended.code, "the new name alone" in ended.err) == (2, True)
    assert ids(store) == ["walk", "ran", "jump"]


def test_all_or_nothing(blpk: Blpk, store: Path) -> None:
    ended = blpk("rm", "a.blp::/walk", "a.blp::/none")
    assert ended.code != 0
    assert "no clip 'none'" in ended.err
    assert ids(store) == ["walk", "run", "jump"]


def test_wrong_use(blpk: Blpk, store: Path) -> None:
    bp.save("x.blp", np.arange(10))
    for command in (("rm", "a.blp"), ("mv", "a.blp", "b"), ("compact", "a.blp::/run")):
        assert blpk(*command).code == 2
    for command in (("rm", "x.blp::/a"), ("mv", "x.blp::/a", "b")):
        assert blpk(*command).code == 1
    for command in (("rm", "no.blp::/a"), ("mv", "no.blp::/a", "b"), ("compact", "no.blp")):
        assert blpk(*command).code != 0
    assert ids(store) == ["walk", "run", "jump"]


def test_arrays_of_an_archive(blpk: Blpk, tmp_path: Path) -> None:
    bp.savez("x.blp", {name: np.arange(10) for name in "abc"})
    before = Path("x.blp").stat().st_size
    assert blpk("rm", "x.blp::/b", "x.blp::/missing").code == 1
    assert list(bp.Archive("x.blp")) == ["a", "b", "c"], "none of them was removed"
    assert blpk("rm", "x.blp::/b").code == 0
    assert blpk("mv", "x.blp::/a", "z").code == 0
    assert blpk("mv", "x.blp::/z", "c").code != 0
    assert list(bp.Archive("x.blp")) == ["z", "c"]
    assert blpk("set", "x.blp::/z", "3", "77").code == 0
    assert bp.load("x.blp::/z")[3] == 77
    assert "not in use: " in blpk("info", "x.blp").out
    assert blpk("compact", "x.blp").code == 0
    assert Path("x.blp").stat().st_size < before
    assert blpk("verify", "x.blp").code == 0


@pytest.mark.parametrize(
    ("selection", "value", "index", "expected"),
    [
        ("5,3", "271.5", (5, 3), 271.5),
        ("-1:", "[1, 2, 3, 4]", slice(-1, None), [1, 2, 3, 4]),
        ("...", "-1", ..., -1),
        ("2:8:2,1", "new.npy", (slice(2, 8, 2), 1), [7, 8, 9]),
    ],
)
def test_set(
    blpk: Blpk, store: Path, selection: str, value: str, index: object, expected: object
) -> None:
    x = np.zeros((10, 4))
    bp.save("t.blp", x, chunks=3)
    np.save("new.npy", np.array([7.0, 8, 9]))
    ended = blpk("set", "t.blp", selection, value)
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    x[index] = expected
    np.testing.assert_array_equal(bp.load("t.blp"), x)


def test_set_text(blpk: Blpk, store: Path) -> None:
    bp.save("t.blp", np.array(["a", "b"], "U5"))
    assert blpk("set", "t.blp", "1", '"long"').code == 0
    assert bp.load("t.blp").tolist() == ["a", "long"]


def test_set_of_an_archive(blpk: Blpk, store: Path) -> None:
    bp.savez("z.blp", a=np.zeros((3, 4)), b=np.arange(5))
    before = Path("z.blp").read_bytes()
    ended = blpk("set", "z.blp", "0", "1")
    assert ended.code == 2
    assert "name one of its arrays, 'z.blp::/NAME'" in ended.err
    assert "no array 'c'" in blpk("set", "z.blp::/c", "0", "1").err
    assert Path("z.blp").read_bytes() == before
    assert blpk("set", "z.blp::/b", "2:4", "[7, 8]").code == 0
    assert bp.load("z.blp::/b").tolist() == [0, 1, 7, 8, 4]
    assert bp.load("z.blp::/a").tolist() == np.zeros((3, 4)).tolist()
    with bp.open("z.blp", "r+", keep=2) as z:
        z["c"] = np.ones(3)
    document = blpk("info", "--json", "z.blp").json
    assert document["kept_versions"] == 1
    assert document["kept_nbytes"] == bp.versions("z.blp")[0].cbytes
    assert "versions: 1 before it, " in blpk("info", "z.blp").out
    lines = blpk("log", "z.blp").out.splitlines()
    assert lines[1].split()[2:5] == ["-", "2", "arrays"]


def test_set_refuses(blpk: Blpk, store: Path) -> None:
    bp.save("t.blp", np.zeros((10, 4), "u1"))
    before = Path("t.blp").read_bytes()
    Path("bad.npy").write_bytes(b"not numpy")
    np.save("pickled.npy", np.array([None, {}]), allow_pickle=True)
    for code, selection, value in (
        (1, "10", "1"),
        (1, "0,0,0", "1"),
        (1, "0", "256"),
        (1, "0", "[1, 2]"),
        (1, "0", '"a"'),
        (1, "0", "null"),
        (1, "0", "{}"),
        (1, "0", "bad.npy"),
        (1, "0", "pickled.npy"),
        (1, "0", "missing.npy"),
        (2, "0", "one"),
        (2, "a", "1"),
    ):
        ended = blpk("set", "t.blp", selection, value)
        assert ended.code == code, (selection, value, ended)
        assert ended.err.count("\n") == 1
    assert blpk("set", "a.blp", "0", "1").code == 4
    assert blpk("set", "missing.blp", "0", "1").code == 1
    assert Path("t.blp").read_bytes() == before


def test_log(blpk: Blpk, store: Path) -> None:
    bp.save("t.blp", np.zeros((10, 4)))
    (only,) = blpk("log", "--json", "t.blp").json["versions"]
    assert (only["number"], only["cbytes"]) == (0, Path("t.blp").stat().st_size)
    with bp.open("t.blp", "r+", keep=2) as a:
        for number in range(5):
            a.resize(5 + number, 4)
            a.flush()
    found = blpk("log", "--json", "t.blp").json["versions"]
    assert [(each["number"], each["shape"]) for each in found] == [
        (3, [7, 4]),
        (4, [8, 4]),
        (5, [9, 4]),
    ]
    assert [each["cbytes"] for each in found] == [each.cbytes for each in bp.versions("t.blp")]
    lines = blpk("log", "t.blp").out.splitlines()
    assert [line.split()[0] for line in lines] == ["version", "3", "4", "5"]
    assert lines[2].split()[2:] == ["8x4", "<f8", str(found[1]["cbytes"])]
    document = blpk("info", "--json", "t.blp").json
    assert document["kept_versions"] == 2
    assert document["kept_nbytes"] == sum(each["cbytes"] for each in found[:2])
    assert blpk("log", "a.blp").code == 4
    assert blpk("log", "t.blp::/x").code == 2


def test_an_empty_name_is_refused(blpk: Blpk, tmp_path: Path) -> None:
    bp.savez("x.blp", {"a": np.arange(3)})
    ended = blpk("mv", "x.blp::/a", "")
    assert (ended.code, "must not be empty" in ended.err) == (2, True)
    with bp.open("x.blp") as archive:
        assert list(archive) == ["a"]
