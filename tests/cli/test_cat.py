import io
import warnings
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.array import cat

from .conftest import Blpk

SELECTIONS = [None, "0", "-1", "3:9", "-5:", "::2", "::-1", "20:3:-4", "...", "...,1", "2,3"]
SELECTIONS += ["5:5", "1:29:3,::-2", "[3:, 1]", "-4:-1,..."]


def chosen(array: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", text: str | None) -> object:
    if text is None:
        return array
    return eval(f"array[{text.removeprefix('[').removesuffix(']')}]", {"array": array})


def loaded(data: bytes) -> object:
    return np.load(io.BytesIO(data), allow_pickle=False)


@pytest.mark.parametrize("piece_nbytes", [32 << 20, pytest.param(200, marks=pytest.mark.slow), 1])
@pytest.mark.parametrize("text", SELECTIONS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_selections(
    blpk: Blpk, text: str | None, order: str, piece_nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cat, "_PIECE_NBYTES", piece_nbytes)
    array = np.arange(120.0).reshape(30, 4, order=order)
    bp.save("x.blp", array, chunks=7 if order == "C" else 2)
    expected = np.asarray(chosen(array, text))
    argv = ["cat", "x.blp", *([] if text is None else [text])]
    assert blpk(*argv).raw == expected.tobytes()
    result = loaded(blpk(*argv, "--npy").raw)
    assert np.array_equal(result, expected)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    document = blpk(*argv, "--json").json
    assert document == {
        "schema_version": 1,
        "command": "cat",
        "path": "x.blp",
        "selection": text and text.strip("[]"),
        "chunk": None,
        "shape": list(expected.shape),
        "dtype": "<f8",
        "nbytes": expected.nbytes,
    }


def test_large_selections_are_read_in_pieces_of_whole_chunks(
    blpk: Blpk, ramp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cat, "_PIECE_NBYTES", 500)
    shapes = []
    read = bp.Array.read

    def spy(self: bp.Array, *args: object) -> object:
        shapes.append(read(self, *args).shape)
        return read(self, *args)

    monkeypatch.setattr(bp.Array, "read", spy)
    assert blpk("cat", ramp).code == 0
    assert shapes == [(14, 4), (14, 4), (2, 4)]


def test_versions(blpk: Blpk, tmp_path: Path) -> None:
    path = tmp_path / "t.blp"
    bp.savez(path, t=np.arange(3))
    with bp.open(path, "r+", keep=2) as z:
        for value in (7, 8, 9):
            z["t"][0] = value
            z.flush()
    for version, value in ((-1, 9), (-2, 8), (1, 7), (3, 9)):
        found = blpk("cat", f"{path}::/t", "0", "--version", str(version), "--text")
        assert found.out == f"{value}\n"
    ended = blpk("cat", f"{path}::/t", "--version", "4")
    assert (ended.code, ended.err) == (
        1,
        f"blpk: error: {path}::/t: no version 4: the file has 1 to 3, or -3 to -1\n",
    )
    (tmp_path / "u.blp").write_bytes(path.read_bytes())
    ended = blpk("cat", tmp_path / "*.blp::/t", "--version", "1")
    assert (ended.code, "--version is for one array" in ended.err) == (2, True)


def test_chunks(blpk: Blpk, ramp: Path) -> None:
    array = bp.load(ramp)
    assert blpk("cat", ramp, "--chunk", "1").raw == array[7:14].tobytes()
    assert np.array_equal(
        loaded(blpk("cat", ramp, "--chunk", "4", "--npy").raw), array[28:].ravel()
    )
    document = blpk("cat", "--json", "--chunk", "0", ramp).json
    assert (document["chunk"], document["selection"], document["shape"]) == (0, None, [28])
    ended = blpk("cat", ramp, "--chunk", "5")
    assert (ended.code, ended.err) == (1, "blpk: error: --chunk 5: the file has 5 chunks\n")


def test_chunks_without_whole_items(blpk: Blpk, ramp: Path) -> None:
    data, metadata = bp.unpack_bytes_from_file(ramp)
    bp.pack_bytes_to_file(data, "odd.blp", chunk_size=100, metadata=metadata)
    assert blpk("cat", "odd.blp", "--chunk", "1").raw == data[100:200]
    assert blpk("cat", "odd.blp", "--chunk", "1", "--json").json["dtype"] == "|u1"
    assert blpk("cat", "odd.blp").raw == data


def test_a_file_of_bytes(blpk: Blpk, packed: Path, content: bytes) -> None:
    assert blpk("cat", packed).raw == content
    assert blpk("cat", packed, "-5:").raw == content[-5:]
    assert blpk("cat", "-", "10:20", stdin=packed.read_bytes()).raw == content[10:20]


def test_text(blpk: Blpk, ramp: Path) -> None:
    assert blpk("cat", "--text", ramp, ":2").out == "[[0. 1. 2. 3.]\n [4. 5. 6. 7.]]\n"
    assert blpk("cat", "--text", ramp, "1,2").out == "6.\n"
    bp.save("long.blp", np.arange(5000))
    text = blpk("cat", "--text", "long.blp").out
    assert np.array_equal(np.array(text.strip("[]\n").split(), int), np.arange(5000))


def test_text_of_hostile_strings(blpk: Blpk) -> None:
    bp.save("u.blp", np.array(["\x1b[2J", "a\nb", "\u202e", "\ud800"]))
    bp.save("s.blp", np.array([("\x9b", b"\x1b")], [("u", "U3"), ("s", "S3")]))
    for name in ("u.blp", "s.blp"):
        for selection in ("...", "0"):
            ended = blpk("cat", "--text", name, selection)
            assert ended.code == 0
            assert all(line.isprintable() for line in ended.out.split("\n"))
    assert "'\\x1b[2J'" in blpk("cat", "--text", "u.blp").out


def test_characters_beyond_unicode(blpk: Blpk) -> None:
    metadata = {"container": "numpy", "dtype": "'<U1'", "shape": [1], "order": "C"}
    bp.pack_bytes_to_file(b"\xff\xff\xff\x7f", "x.blp", metadata=metadata)
    assert blpk("cat", "--text", "x.blp").code == 1
    assert blpk("cat", "x.blp").raw == b"\xff\xff\xff\x7f"


def test_output_files(blpk: Blpk, ramp: Path) -> None:
    array = bp.load(ramp)
    assert blpk("cat", ramp, "3:5", "-o", "out.npy").raw == b""
    assert np.array_equal(np.load("out.npy"), array[3:5])
    assert blpk("cat", ramp, "3:5", "-o", "out.raw").code == 0
    assert Path("out.raw").read_bytes() == array[3:5].tobytes()
    assert blpk("cat", ramp, "--npy", "--output", "out").code == 0
    assert np.array_equal(np.load("out"), array)
    assert blpk("cat", ramp, "--text", "-o", "out.txt", "0").code == 0
    assert Path("out.txt").read_text() == "[0. 1. 2. 3.]\n"
    assert blpk("cat", ramp, "-o", "out").code == 1
    assert blpk("-f", "cat", ramp, "-o", "out").code == 0
    assert blpk("-f", "cat", ramp, "-o", ramp).code == 1
    assert np.array_equal(bp.load(ramp), array)


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.zeros((0, 3)),
        np.zeros((3, 0), "<U4"),
        np.array(["2020-01-01"], "M8[D]"),
        np.arange(5, dtype=">i2"),
        np.array([(1, 2.5)], np.dtype([("a", "i1"), ("b", "f8")], align=True)),
        np.array(["\u00e9"]),
        np.zeros(2, [("\u65e5", "<i4")]),
        np.array([True, False]),
        np.arange(3) * 1j,
    ],
    ids=lambda array: str(array.dtype),
)
def test_npy_equals_what_numpy_saves(
    blpk: Blpk, array: "np.ndarray[tuple[int, ...], np.dtype[np.void]]"
) -> None:
    bp.save("x.blp", array)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 3.0 of the format, for names in Unicode
        np.save(buffer, bp.load("x.blp"))
    assert blpk("cat", "--npy", "x.blp").raw == buffer.getvalue()


@pytest.mark.parametrize("text", ["30", "-31", "0,0,0", "0,4"])
def test_out_of_bounds(blpk: Blpk, ramp: Path, text: str) -> None:
    ended = blpk("cat", ramp, text)
    assert (ended.code, ended.raw) == (1, b"")
    assert "(30, 4)" in ended.err


def test_damage(blpk: Blpk, ramp: Path) -> None:
    data = bytearray(ramp.read_bytes())
    with bp.open(ramp) as array:
        data[array.chunk_offset(4) + 20] ^= 1
    ramp.write_bytes(data)
    assert blpk("cat", ramp, ":28").code == 0
    ended = blpk("cat", ramp, "-o", "out.npy")
    assert ended.code == 3
    assert not Path("out.npy").exists()


def test_a_name_behind_the_file(blpk: Blpk) -> None:
    """The word behind the file is a name unless it can be a selection, or the file has no names."""
    clip = np.arange(24, dtype="u1").reshape(2, 3, 4)
    with bp.frames.create("st.blp") as store:
        store.append("walk", clip)
        store.append("3", clip[:1])
    bp.savez("ar.blp", {"mask": np.arange(4.0), "a/b": np.arange(3)})
    bp.save("x.blp", np.arange(5))
    for argv, expected in (
        (["st.blp", "walk"], clip),
        (["st.blp", "walk", "-1:"], clip[1:]),
        (["st.blp", "3", "0"], clip[0]),
        (["*st.blp", "walk", "0,1"], clip[0, 1]),
        (["ar.blp", "mask"], np.arange(4.0)),
        (["ar.blp", "--chunk", "0", "a/b"], np.arange(3)),
        (["x.blp", "1:3"], np.arange(1, 3)),
    ):
        assert blpk("cat", *argv).raw == expected.tobytes(), argv
    for argv, code, words in (
        (["st.blp", "wolk"], 1, "no clip 'wolk'"),
        (["st.blp", "3"], 1, "2 clips: name one"),
        (["st.blp::/walk", "walk"], 2, "'walk' is not an integer"),
        (["st.blp", "walk", "walk"], 2, "'walk' is not an integer"),
        (["x.blp", "1;3"], 2, "'1;3' is not an integer"),
        (["x.blp", "a", "1"], 4, "no array 'a'"),
        (["missing.blp", "walk"], 1, "does not exist"),
        (["-", "walk"], 2, "'walk' is not an integer"),
    ):
        ended = blpk("cat", *argv)
        assert (ended.code, ended.raw) == (code, b""), argv
        assert words in ended.err
        assert blpk("show", "--plain", *argv).code in (code, 1), argv
    for name, place in (("st.blp", "walk"), ("ar.blp", "mask")):
        expected = blpk("cat", name, place, "0")
        assert blpk("cat", "-", place, "0", stdin=Path(name).read_bytes()) == expected
    assert blpk("show", "--plain", "st.blp", "walk", "0").err == (
        "blpk: clip walk [0] of 2 frames\n"
    )
