"""Interoperability with GulpIO2 0.0.4: equal files, readable by both, and equal behaviour."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bloscpack.gulp
from tests.conftest import SMALL_VECTORS
from tests.oracle import Oracle

from .conftest import frames, run_ours
from .test_format import KEYS, METADATA

pytestmark = pytest.mark.usefixtures("oracle")

WRITE = """
chunk = gulp.GulpChunk(folder + "/data_0.gulp", folder + "/meta_0.gmeta", **options)
for flag, items in sessions:
    with chunk.open(flag):
        for id_, meta, frames in items:
            chunk.append(id_, meta, frames)
"""
READ = """
gd = gulp.GulpDirectory(folder)
{id_: ([(f.dtype.str, f.shape, f.tobytes()) for f in gd[id_][0]], gd[id_][1]) for id_ in ids}
"""
EXAMPLES = [
    ("wb", [("a", {"x": 1}, frames(5, 12, 16, 3)), (7, {"id": 7}, frames(3, 9, 7, seed=1))]),
    ("ab", [("ü☃", {"a": [1.5, None, float("inf")], 3: (1, 2)}, frames(2, 1, 1))]),
    ("ab", [("a", {"x": 2}, frames(2, 12, 16, 3, seed=2)), ("", {}, [])]),
]


def write(gulp: Any, folder: Path, sessions: Any, **options: Any) -> dict[str, bytes]:
    """Write a chunk with GulpIO2 (an `Oracle`) or our package; return the files."""
    folder.mkdir()
    values = {"folder": str(folder), "sessions": sessions, "options": options}
    if isinstance(gulp, Oracle):
        gulp(WRITE, **values)
    else:
        kind, found = run_ours(WRITE, values)
        assert kind == "value", found
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_files(oracle: Oracle, tmp_path: Path) -> None:
    ours = write(bloscpack.gulp, tmp_path / "ours", EXAMPLES)
    assert ours == write(oracle, tmp_path / "theirs", EXAMPLES)
    assert set(ours) == {"data_0.gulp", "meta_0.gmeta"}


@given(st.dictionaries(KEYS, METADATA, max_size=4))
def test_the_same_text(oracle: Oracle, items: dict[str, Any]) -> None:
    thing = {id_: {"frame_info": [(0, 1, 8)], "meta_data": [meta]} for id_, meta in items.items()}
    theirs = oracle(
        "import io, json; s = io.StringIO(); json.dump(thing, s); s.getvalue()", thing=thing
    )
    assert bloscpack.gulp.chunk.format.dump_meta(thing) == theirs


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        KEYS | st.integers(),
        st.tuples(METADATA, st.integers(0, 3), st.sampled_from([(3, 4), (5, 2, 3)])),
        max_size=3,
        # "1" and 1 are the same id.
    ).filter(lambda items: len({str(key) for key in items}) == len(items))
)
def test_any_items(
    oracle: Oracle, tmp_path_factory: pytest.TempPathFactory, items: dict[Any, Any]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    sessions = [("wb", [(id_, meta, frames(n, *shape)) for id_, (meta, n, shape) in items.items()])]
    ours = write(bloscpack.gulp, folder / "ours", sessions)
    assert ours == write(oracle, folder / "theirs", sessions)
    values = {"folder": str(folder / "ours"), "ids": [str(id_) for id_ in items]}
    assert repr(oracle(READ, **values)) == repr(run_ours(READ, values)[1])


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_each_reads_the_others(
    oracle: Oracle, same: Callable[..., Any], tmp_path: Path, writer: str
) -> None:
    write(oracle if writer == "theirs" else bloscpack.gulp, tmp_path / "gulp", EXAMPLES)
    found = same(READ, folder=str(tmp_path / "gulp"), ids=["a", 7, "ü☃", ""])
    assert [len(images) for images, _ in found.values()] == [7, 3, 2, 0]


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_pickled_indices(oracle: Oracle, tmp_path: Path, writer: str) -> None:
    options = "\noptions = {'serializer': gulp.fileio.pickle_serializer}\n"
    read = """
chunk = gulp.GulpChunk(folder + "/data_0.gulp", folder + "/meta_0.gmeta", **options)
with chunk.open():
    found = [(id_, [f.tobytes() for f in chunk[id_][0]], chunk[id_][1]) for id_ in chunk.meta_dict]
found
"""
    (tmp_path / "gulp").mkdir()
    values = {"folder": str(tmp_path / "gulp"), "sessions": EXAMPLES}
    sides = {
        "theirs": lambda source: oracle.outcome(
            "import gulpio2.fileio" + options + source, **values
        ),
        "ours": lambda source: run_ours(options + source, values),
    }
    kind, result = sides[writer](WRITE)
    assert kind == "value", result
    ours, theirs = sides["ours"](read), sides["theirs"](read)
    assert ours[0] == "value", ours
    assert ours == theirs


@pytest.mark.parametrize(
    "selector",
    """
    None; slice(1, 9, 2); slice(None, None, -1); [2, 2, -1]; []; np.array([1, 0]); [True, False]
    [5]; [-6]; (1, 2); range(2); ...; np.ones(5, bool); [0.5]
    """.strip()
    .replace("\n", ";")
    .split(";"),
)
def test_selectors(oracle: Oracle, same: Callable[..., Any], tmp_path: Path, selector: str) -> None:
    write(oracle, tmp_path / "gulp", [("wb", [("a", {}, frames(5, 8, 8, 3))])])
    same(
        f"[f.tobytes() for f in gulp.GulpDirectory(folder)['a', {selector}][0]]",
        folder=str(tmp_path / "gulp"),
    )


@pytest.mark.parametrize(
    "source",
    [
        "gd['x']",
        "gd[0.5]",
        "gd[np.int64(1)]",
        "gd[b'a']",
        "gd['a', 1, 2]",
        "len(gd['a'][0]), len(gd[7][0]), len(gd['7', [0]][0])",
        "'a' in gd, 'a' in next(iter(gd)), 7 in next(gd.chunks()), 8 in next(gd.chunks())",
        "gd.num_chunks, gd.chunk_lookup, gd.merged_meta_dict",
        "gd.all_meta_dicts, list(gd.chunk_objs_lookup)",
        "[(c.data_file_path, c.meta_file_path) for c in gd.new_chunks(3)]",
        "[(len(f), m) for c in gd for f, m in c]",
        "[(len(f), m) for f, m in next(gd.chunks()).iter_all(['7', 'no', ''])]",
        "with next(gd.chunks()).open('r+'): pass",
        "c = next(gd.chunks())\nwith c.open():\n    c['x']",
        "gulp.fileio.extract_input_for_getitem((3, None))",
        "gulp.fileio.calculate_chunk_slices(3, 7)",
        "gulp.fileio.calculate_chunk_slices(0, 7)",
        "repr(gulp.fileio.ImgInfo(1, 2, 3))",
        "gulp.fileio.json_serializer.load(folder + '/meta_0.gmeta')",
        "gulp.fileio.json_serializer.load(folder + '/data_0.gulp')",
        "gulp.fileio.json_serializer.load(folder + '/no')",
        "list(gulp.GulpDirectory(folder + '/no'))",
    ],
)
def test_the_same_behaviour(
    oracle: Oracle, same: Callable[..., Any], tmp_path: Path, source: str
) -> None:
    write(oracle, tmp_path / "gulp", EXAMPLES)
    oracle("import gulpio2.fileio")
    if "load(folder + '/data" in source:
        # GulpIO2 raises UnicodeDecodeError or JSONDecodeError; all are ValueErrors.
        source = f"try:\n    {source}\nexcept ValueError:\n    found = 1\nfound"
    same("gd = gulp.GulpDirectory(folder)\n" + source, folder=str(tmp_path / "gulp"))


def test_two_chunks_with_one_id(oracle: Oracle, same: Callable[..., Any], tmp_path: Path) -> None:
    write(oracle, tmp_path / "gulp", EXAMPLES)
    for name in ("data_1.gulp", "meta_1.gmeta"):
        first = name.replace("1", "0")
        (tmp_path / "gulp" / name).write_bytes((tmp_path / "gulp" / first).read_bytes())
    same("gulp.GulpDirectory(folder)", folder=str(tmp_path / "gulp"))


def test_an_ingest_by_chunk_writers(oracle: Oracle, tmp_path: Path) -> None:
    source = """
class Adapter:
    def iter_data(self, selected):
        for n in range(10)[selected]:
            yield {"id": n, "meta": {"n": n}, "frames": frames[:n % 3]}
gd = gulp.GulpDirectory(folder)
slices = gulp.fileio.calculate_chunk_slices(4, 10)
for chunk, part in zip(gd.new_chunks(len(slices)), slices):
    gulp.ChunkWriter(Adapter()).write_chunk(chunk, part)
"""
    written = []
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        values = {"folder": str(tmp_path / name), "frames": np.stack(frames(3, 8, 9, 3))}
        if name == "theirs":
            oracle(source, **values)
        else:
            assert run_ours(source, values)[0] == "value"
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert written[0] == written[1]
    assert len(written[0]) == 6


def test_gulpio2_reads_the_small_vectors(oracle: Oracle, same: Callable[..., Any]) -> None:
    folder = str(SMALL_VECTORS / "formats" / "gulp")
    ids = list(bloscpack.gulp.GulpDirectory(folder).merged_meta_dict)
    assert len(ids) == 2
    same(READ, folder=folder, ids=ids)
