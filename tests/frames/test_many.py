"""Several stores as one source: order, lookups, batches over all files, limit on open files."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FileChangedError, FormatError, NotFoundError, UnsupportedError
from bloscpack.frames.store.manystores import ManyStores
from bloscpack.storage import pool as pool_module

from ..conftest import Warned
from ..openfiles import open_files
from .stores import changed, clip, fill, made, name


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Four files with clips 0 to 2, 3 to 5, none, 6 to 8."""
    found = []
    for number, clips in enumerate(((0, 1, 2), (3, 4, 5), (), (6, 7, 8))):
        found.append(tmp_path / f"{number}.blp")
        with bp.frames.create(found[-1]) as store:
            fill(store, *clips)
    return found


class TestSource:
    def test_clips_in_the_order_of_the_files(self, paths: list[Path]) -> None:
        with bp.frames.open(paths[::-1]) as many:
            assert isinstance(many, ManyStores)
            assert list(many) == [name(n) for n in (6, 7, 8, 3, 4, 5, 0, 1, 2)]
            assert (len(many), many.nframes) == (9, 27)
            assert many.name == f"{paths[3]} and 3 more"
            assert many.names == [str(path) for path in paths[::-1]]

    def test_keys(self, paths: list[Path]) -> None:
        with bp.frames.open(tuple(paths)) as many:
            keys = many.keys()
            expected = [name(number) for number in range(9)]
            assert list(keys) == expected
            assert len(keys) == 9
            for index in (*range(-9, 9), slice(2, 8, 2), slice(None, None, -1)):
                assert keys[index] == expected[index]
            for index in (9, -10):
                with pytest.raises(IndexError):
                    keys[index]
            assert name(4) in keys
            assert name(9) not in keys
            assert 4 not in keys

    def test_attributes_that_differ_are_left_out(self, tmp_path: Path, warned: Warned) -> None:
        paths = [tmp_path / "a.blp", tmp_path / "b.blp"]
        for number, path in enumerate(paths):
            attrs = {"fps": 1, "of": number} | ({"more": 3} if number else {})
            with bp.frames.create(path, attrs=attrs) as store:
                fill(store, number)
        expected = tuple(
            f"attribute '{key}', which the files do not have alike" for key in ("of", "more")
        )
        with bp.frames.open(paths) as many:
            assert (many.attrs, many.left_out) == ({"fps": 1}, expected)
            report = bp.frames.ingest(many, tmp_path / "c.blp", workers=1)
            assert [remark.text for remark in report.remarks] == [
                f"left out: {text}" for text in expected
            ]
        assert bp.convert(paths, tmp_path / "d.blp").left_out == expected
        assert expected[0] in warned.text
        with pytest.raises(UnsupportedError, match="attribute 'of'"):
            bp.convert(paths, tmp_path / "e.blp", strict=True)

    def test_lookups(self, paths: list[Path]) -> None:
        with bp.frames.open(paths) as many:
            for number in range(9):
                assert name(number) in many
                assert many[name(number)].meta == {"number": number}
                assert np.array_equal(many[name(number)].read(), clip(number))
            assert "nothing" not in many
            assert 3 not in many
            with pytest.raises(NotFoundError, match="no clip 'nothing' among 9") as error:
                many["nothing"]
            assert str(paths[0]) in str(error.value)
            with pytest.raises(TypeError, match="an id must be a str"):
                many[3]  # type: ignore[index]

    def test_one_batch_over_all_files(self, paths: list[Path]) -> None:
        with bp.frames.open(paths) as many:
            requests = [(name(number), [2, 0]) for number in (8, 0, 4, 0)]
            expected = np.stack([clip(number)[[2, 0]] for number in (8, 0, 4, 0)])
            assert np.array_equal(many.read(requests), expected)
            out = np.empty_like(expected)
            assert many.read(iter(requests), out=out, nthreads=3) is out
            assert np.array_equal(out, expected)
            mixed = many.read([(name(7), 1), (name(1), slice(0, 2))])
            assert np.array_equal(mixed[0], clip(7)[1])
            assert np.array_equal(mixed[1], clip(1)[:2])
            with pytest.raises(NotFoundError):
                many.read([("nothing", 0)])

    def test_ids_of_one_hash(self, paths: list[Path], monkeypatch: Any) -> None:
        """Ids with equal hashes are distinguished by their text, even across files."""
        for module in ("format", "index", "manystores"):
            monkeypatch.setattr(
                f"bloscpack.frames.store.{module}.hash_of", lambda data: len(data) % 2
            )
        folder = paths[0].parent / "collisions"
        folder.mkdir()
        collide = [folder / f"{number}.blp" for number in range(3)]
        for number, path in enumerate(collide):
            with bp.frames.create(path) as store:
                for each in range(70):
                    store.append(f"{number} {each}", np.full((1, 3, 3), each, "u1"))
        with bp.frames.open(collide) as many:
            for number in range(3):
                for each in (0, 9, 69):
                    assert many[f"{number} {each}"][0][0, 0] == each
            assert "3 0" not in many
        with pytest.raises(ValueError, match=r"is in .*1.blp and in .*1.blp"):
            bp.frames.open([*collide, collide[1]])

    def test_of_bytes(self, tmp_path: Path, paths: list[Path]) -> None:
        with bp.frames.open([paths[0].read_bytes(), paths[1]]) as many:
            assert many.names == [None, str(paths[1])]
            assert np.array_equal(many[name(2)].read(), clip(2))
            again = pickle.loads(pickle.dumps(many))
            assert np.array_equal(again[name(2)].read(), clip(2))


class TestOpen:
    def test_an_id_that_is_there_twice(self, paths: list[Path], tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "more.blp") as store:
            fill(store, 20, 4)
        with pytest.raises(ValueError) as error:
            bp.frames.open([*paths, tmp_path / "more.blp"])
        assert str(error.value) == (
            f"clip 'clip 4' is in {paths[1]} and in {tmp_path / 'more.blp'}: files that are opened "
            "together must not share ids"
        )
        assert len(open_files(tmp_path)) == 0

    def test_a_file_that_is_damaged_or_missing(self, paths: list[Path], tmp_path: Path) -> None:
        (tmp_path / "other").write_bytes(b"nothing of ours" * 20)
        with pytest.raises(FormatError, match="other"):
            bp.frames.open([*paths, tmp_path / "other"])
        with pytest.raises(FileNotFoundError):
            bp.frames.open([*paths, tmp_path / "missing"])
        assert len(open_files(tmp_path)) == 0

    def test_arguments(self, paths: list[Path]) -> None:
        with pytest.raises(ValueError, match="paths is empty"):
            bp.frames.open([])
        with pytest.raises(ValueError, match="for several stores"):
            bp.frames.open(paths, "a")
        with pytest.raises(TypeError, match="verify must be"):
            bp.frames.open(paths, verify="always")  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="paths must be a list"):
            ManyStores("path")
        with pytest.raises(ValueError, match="max_open"):
            ManyStores(paths, max_open=0)

    def test_unverified(self, paths: list[Path]) -> None:
        with bp.frames.open(paths[0]) as store:
            offset, cbytes = store[name(1)].chunk_extents()[0]
        paths[0].write_bytes(changed(paths[0].read_bytes(), offset + cbytes))
        with bp.frames.open(paths) as many, pytest.raises(FormatError, match="'clip 1': frame 0"):
            many[name(1)].read()
        with bp.frames.open(paths, verify=False) as many:
            assert np.array_equal(many[name(1)].read(), clip(1))

    def test_closed(self, paths: list[Path], tmp_path: Path) -> None:
        many = bp.frames.open(paths)
        found = many[name(1)]
        many.close()
        many.close()
        assert many.closed
        assert "closed" in repr(many)
        assert len(open_files(tmp_path)) == 0
        for use in (lambda: len(many), lambda: many[name(1)], lambda: found[0], many.keys):
            with pytest.raises(ValueError, match="closed"):
                use()

    def test_refresh(self, paths: list[Path]) -> None:
        with bp.frames.open(paths) as many, bp.frames.open(paths[1], "a") as writer:
            fill(writer, 11)
            assert name(11) not in many
            assert len(many) == 9
            many.refresh()
            assert list(many)[3:7] == [name(number) for number in (3, 4, 5, 11)]
            assert np.array_equal(many[name(11)].read(), clip(11))
            fill(writer, 8)
            with pytest.raises(ValueError, match="share ids"):
                many.refresh()
            assert (len(many), len(many.keys()), len(list(many))) == (10, 10, 10)


class TestFewFilesAreOpen:
    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_while_all_are_read(self, paths: list[Path], tmp_path: Path, limit: int) -> None:
        with ManyStores(paths, max_open=limit) as many:
            clips = [many[name(number)] for number in range(9)]
            for number in (0, 8, 3, 1, 7, 0):
                assert np.array_equal(clips[number].read(), clip(number))
                assert len(open_files(tmp_path)) <= limit
            many.read([(name(number), 0) for number in range(9)])
            assert len(open_files(tmp_path)) <= limit
        assert len(open_files(tmp_path)) == 0

    def test_a_file_that_was_replaced_is_not_read(self, paths: list[Path]) -> None:
        with ManyStores(paths, max_open=1) as many:
            assert np.array_equal(many[name(0)].read(), clip(0))
            many[name(8)].read()
            os.replace(paths[1], paths[0])
            with pytest.raises(FileChangedError, match="replaced"):
                many[name(0)].read()

    def test_one_that_is_gone(self, paths: list[Path]) -> None:
        with ManyStores(paths, max_open=1) as many:
            paths[0].unlink()
            with pytest.raises(FileNotFoundError):
                many[name(0)].read()

    def test_opened_again_only_when_needed(self, paths: list[Path], monkeypatch: Any) -> None:
        opened: list[str] = []

        class Counting(pool_module.Descriptor):
            def __init__(self, number: int) -> None:
                opened.append(os.readlink(f"/proc/self/fd/{number}"))

        with ManyStores(paths, max_open=2) as many:
            monkeypatch.setattr(pool_module, "Descriptor", Counting)
            for _ in range(3):
                for number in (0, 6, 1, 7):
                    many[name(number)].read()
        assert opened == [str(paths[0])]  # the last two were still open


class TestPickles:
    def test_opened_on_first_use(self, paths: list[Path], tmp_path: Path) -> None:
        with ManyStores(paths, max_open=2, nthreads=1, verify=False) as many:
            sent = pickle.dumps(many)
        again = pickle.loads(sent)
        assert "not opened yet" in repr(again)
        assert len(open_files(tmp_path)) == 0
        assert np.array_equal(again[name(3)].read(), clip(3))
        assert (again.verify, again.nthreads, again.name) == (False, 1, f"{paths[0]} and 3 more")
        assert len(open_files(tmp_path)) == 2
        again.close()

    def test_unpickled_store_has_the_old_state(self, paths: list[Path]) -> None:
        many = bp.frames.open(paths)
        with bp.frames.open(paths[0], "a") as writer:
            fill(writer, 30)
        again = pickle.loads(pickle.dumps(many))
        assert list(again) == list(many)
        made(paths[0].with_name("new"), 2)
        os.replace(paths[0].with_name("new"), paths[0])
        with pytest.raises(FileChangedError):
            pickle.loads(pickle.dumps(many))[name(0)]

    def test_in_another_folder(self, paths: list[Path], monkeypatch: Any) -> None:
        monkeypatch.chdir(paths[0].parent)
        with bp.frames.open([path.name for path in paths]) as many:
            sent = pickle.dumps(many)
        monkeypatch.chdir("/")
        assert np.array_equal(pickle.loads(sent)[name(6)].read(), clip(6))

    def test_not_of_file_objects(self, paths: list[Path]) -> None:
        with paths[0].open("rb") as file, bp.frames.open([file]) as many:
            assert np.array_equal(many[name(0)].read(), clip(0))
            with pytest.raises(TypeError, match="file object"):
                pickle.dumps(many)
