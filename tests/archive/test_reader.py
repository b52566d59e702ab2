"""Reading archives: a mapping of names to arrays that are read when they are indexed."""

import io
import multiprocessing
import os
import pickle
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FileChangedError, NotFoundError, WrongKindError
from bloscpack.format.archiveindex import pack_archive_front, pack_index

from .archives import ARRAYS, ATTRS, content_of, packed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "a.blp"
    bp.savez(where, ARRAYS, attrs=ATTRS)
    return where


def test_it_is_a_mapping(path: Path) -> None:
    with bp.open(path) as archive:
        assert isinstance(archive, bp.Archive)
        assert isinstance(archive, Mapping)
        assert list(archive) == list(archive.keys()) == list(ARRAYS)
        assert len(archive) == 3
        assert "ramp" in archive
        assert "other" not in archive
        assert 3 not in archive
        assert archive.get("other") is None
        assert [array.shape for array in archive.values()] == [(10, 7), (3, 2), ()]
        assert content_of(dict(archive.items())) == content_of(ARRAYS)
        assert archive.attrs == ATTRS
        assert archive.name == str(path)
        assert archive.cbytes == path.stat().st_size
        assert archive == archive
        assert archive != bp.Archive(path)
        assert hash(archive)
        assert archive["ramp"][2:4, ::3].tolist() == ARRAYS["ramp"][2:4, ::3].tolist()
        shown = repr(archive)
    assert shown == f"<bloscpack.Archive {str(path)!r}: 3 arrays, 'ramp', 'm\u00e4sk/../x', ''>"
    assert repr(archive).endswith("(closed)>")


@pytest.mark.parametrize("name", ["mask.npy", 3, None, ("ramp",), "\ud800"])
def test_a_missing_name_lists_those_there_are(path: Path, name: Any) -> None:
    with bp.open(path) as archive, pytest.raises(NotFoundError, match=r"no array .*'ramp', 'm"):
        archive[name]


def test_arrays_are_closed_with_the_archive(path: Path) -> None:
    archive = bp.open(path)
    ramp, unread = archive["ramp"], archive["ramp"]
    archive["ramp"].close()
    assert ramp[0, 1] == 1
    archive.close()
    archive.close()
    with pytest.raises(ValueError, match="closed"):
        unread[1]
    with pytest.raises(ValueError, match=r"closed bloscpack.Archive"):
        archive["ramp"]
    assert list(bp.open(path)) == list(ARRAYS)


def test_an_array_outlives_the_name_of_its_archive(path: Path) -> None:
    assert bp.open(path)["ramp"].read_whole().tolist() == ARRAYS["ramp"].tolist()


def test_file_objects_are_read_but_not_pickled(path: Path) -> None:
    with path.open("rb") as file:
        for each in (file, io.BytesIO(path.read_bytes())):
            with bp.Archive(each) as archive:
                assert content_of(archive) == content_of(ARRAYS)
                for handle in (archive, archive["ramp"]):
                    with pytest.raises(TypeError, match="cannot be pickled"):
                        pickle.dumps(handle)
            assert content_of(bp.load(each)) == content_of(ARRAYS)


def test_handles_pickle(path: Path) -> None:
    for each in (path, path.read_bytes()):
        with bp.Archive(each) as archive, pickle.loads(pickle.dumps(archive)) as again:
            assert content_of(again) == content_of(ARRAYS)
            ramp = pickle.loads(pickle.dumps(archive["ramp"]))
            assert ramp[3].tolist() == ARRAYS["ramp"][3].tolist()


def test_a_pickle_names_the_file_and_refuses_another(path: Path) -> None:
    archive, array = pickle.dumps(bp.open(path)), pickle.dumps(bp.open(path)["ramp"])
    assert len(array) < 600
    bp.savez(path, ramp=-ARRAYS["ramp"])
    for each in (archive, array):
        with pytest.raises(FileChangedError):
            pickle.loads(each)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
def test_forks_and_threads_share_an_archive(path: Path) -> None:
    archive = bp.open(path)
    ramp = archive["ramp"]
    child = os.fork()
    if child == 0:
        same = content_of(archive) == content_of(ARRAYS) and ramp[9, 6] == 69
        os._exit(0 if same else 1)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: content_of(archive), range(20)))
    assert os.waitpid(child, 0)[1] == 0
    assert found == [content_of(ARRAYS)] * 20
    archive.close()


def test_load_reads_all_arrays(path: Path) -> None:
    found: Any = bp.load(path)
    assert content_of(found) == content_of(ARRAYS)
    assert type(found["ramp"]) is np.ndarray
    with pytest.raises(ValueError, match="archive of 3"):
        bp.load(path, out=np.zeros(3))


def test_an_empty_archive() -> None:
    data = packed({})
    assert len(bp.Archive(data)) == 0
    assert bp.load(data) == {}
    assert bp.verify(data).ok


def test_attrs_cannot_be_changed(path: Path) -> None:
    with bp.open(path) as archive, pytest.raises(TypeError, match=r"mode 'r\+'"):
        archive.attrs["unit"] = "km"


def test_names_never_become_paths(path: Path, tmp_path: Path) -> None:
    names = ["../up", "/etc/passwd", "a\0b", "C:\\x", "." * 300]
    data = packed(dict.fromkeys(names, np.zeros(2)))
    before = sorted(tmp_path.iterdir())
    assert list(bp.load(data)) == names
    assert bp.recover(data, tmp_path / "a.blp").ok
    assert sorted(tmp_path.iterdir()) == before


def test_other_calls_refuse_an_archive(path: Path, tmp_path: Path) -> None:
    for call in (bp.Array, bp.frames.open, bp.unpack_bytes_from_file, bp.unpack_ndarray_from_file):
        with pytest.raises(WrongKindError, match=r"an archive of named arrays, .*\['name'\]"):
            call(path)
    with pytest.raises(WrongKindError, match="archive"):
        bp.open(path, "a")
    bp.save(tmp_path / "b.blp", np.arange(3))
    with pytest.raises(WrongKindError, match=r"not an archive: open it with bloscpack.open"):
        bp.Archive(tmp_path / "b.blp")


def test_a_member_that_is_not_an_array_is_refused() -> None:
    """An archive in an archive: a hostile file cannot make a reader recurse."""
    inner = packed({"a": np.arange(3)})
    stored = packed({"a": np.zeros(1)})
    with bp.Archive(stored) as archive:
        member = archive._members.named["a"]
    front = pack_archive_front({})
    member = member._replace(nbytes=len(inner))
    data = front + member.pack() + inner + pack_index([member], member.end)
    with bp.Archive(data) as archive, pytest.raises(WrongKindError, match="an archive"):
        archive["a"]
    (damage,) = bp.verify(data).damage
    assert "an archive of named arrays, not an array" in damage.what


def test_its_keys_are_a_set_match_and_pickle(path: Path) -> None:
    with bp.open(path) as archive:
        assert archive.keys() & {"ramp", "other"} == {"ramp"}
        assert archive.keys() == set(ARRAYS)
        assert list(pickle.loads(pickle.dumps(archive.keys()))) == list(ARRAYS)
        match archive:
            case {"ramp": ramp, **others}:
                assert ramp.shape == (10, 7)
                assert set(others) == {*ARRAYS} - {"ramp"}
        assert archive._ipython_key_completions_() == list(ARRAYS)
        assert archive.attrs._ipython_key_completions_() == ["unit"]


def test_an_array_is_opened_by_its_name_behind_that_of_the_file(path: Path) -> None:
    name = f"{path}::/m\u00e4sk/../x"
    expected = ARRAYS["m\u00e4sk/../x"]
    assert np.array_equal(bp.load(name), expected)
    for array in (bp.open(name), bp.Array(Path(name)), pickle.loads(pickle.dumps(bp.open(name)))):
        assert array[2].tolist() == [True, False]
        array.close()
    with bp.open_many([name, name]) as many:
        assert many.shape == (6, 2)
    with pytest.raises(NotFoundError, match="no array 'other'; there are: 'ramp'"):
        bp.open(f"{path}::/other")
    with pytest.raises(FileNotFoundError):
        bp.open(f"{path}.other::/ramp")
    bp.save(path, np.arange(3))
    with pytest.raises(WrongKindError, match=r"not an archive: open it with bloscpack\.open"):
        bp.load(f"{path}::/ramp")


def test_a_file_with_the_mark_in_its_name_is_opened_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "a::"
    folder.mkdir()
    bp.save(folder / "b.blp", np.arange(3))
    assert bp.load(folder / "b.blp").tolist() == [0, 1, 2]


def test_a_chain_of_urls_is_not_split(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "m.blp")
    place = f"zip://m.blp::{tmp_path}/a.zip"
    for url in (place, f"simplecache::{place}"):
        with bp.open(url) as found:
            assert list(found) == list(ARRAYS)
        assert np.array_equal(bp.load(f"{url}::/ramp"), ARRAYS["ramp"])


def test_changing_an_array_that_is_open_for_reading_names_the_mode(path: Path) -> None:
    advice = r"mode '(a|r\+)'"
    with bp.open(path) as archive:
        array = archive["ramp"]
        with pytest.raises(ValueError, match=advice):
            array.append(ARRAYS["ramp"])
        with pytest.raises(TypeError, match=advice):
            array.attrs["unit"] = 1
        with pytest.raises(TypeError, match=advice):
            array.attrs = {}
