"""Kept versions of an array that changes, against a list of copies."""

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

import bloscpack as bp
from bloscpack.container import logreader as reading
from bloscpack.container import logwriter
from bloscpack.exceptions import FileChangedError, FormatError, NotFoundError
from bloscpack.format import log as layout
from bloscpack.storage import lock
from bloscpack.storage.file import FileSource

Copies = list[np.ndarray[Any, Any]]


pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file."""
    return tmp_path / "t.blp"


def _random(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 1 << 60, shape)


def _changed(path: Path, keep: int, ncommits: int, *, nrows: int = 40) -> Copies:
    """Make a file and change a row in each commit; return the content after each."""
    x = _random(0, nrows, 100)
    bp.save(path, x, chunks=2, changeable=True)
    copies = [x.copy()]
    with bp.open(path, "r+", keep=keep) as a:
        for number in range(ncommits):
            a[number % nrows] = x[number % nrows] = _random(number, 100)
            a.flush()
            copies.append(x.copy())
    return copies


def _check(path: Path, copies: Copies) -> None:
    """Check that the file has these versions and no others, and counts what they use."""
    found = bp.versions(path)
    assert len(found) == len(copies)
    for place, (version, copy) in enumerate(zip(found, copies, strict=True)):
        for number in (version.number, place - len(copies)):
            with bp.open(path, version=number) as a:
                np.testing.assert_array_equal(a[...], copy)
                if a.stats is not None:
                    assert (a.max(), a.min()) == (copy.max(), copy.min())
                    assert a.stats["sum"].sum() == copy.sum()
        assert (version.shape, version.dtype) == (copy.shape, copy.dtype)
    for wrong in (-len(copies) - 1, found[0].number - 1, found[-1].number + 1, 1 << 70):
        with pytest.raises(NotFoundError, match=f"no version {wrong}: the file has"):
            bp.open(path, version=wrong)
    source = FileSource(path)
    commit = reading.read_commit(source)
    source.close()
    assert sum(each.cbytes for each in found) == commit.live
    report = bp.verify(path)
    assert report.ok, report


def _change(
    file: Any, now: np.ndarray[Any, Any], kind: int, random: np.random.Generator, chunks: Any
) -> np.ndarray[Any, Any]:
    """Change a file, and return what it has then."""
    if kind == 0 and isinstance(chunks, tuple):
        lengths = tuple(int(random.integers(least, 60)) for least in chunks)
        both = tuple(map(slice, np.minimum(lengths, now.shape)))
        resized = np.zeros(lengths, now.dtype)
        resized[both] = now[both]
        file.resize(lengths)
        return resized
    if kind == 1:
        rows = random.integers(0, 1 << 60, (int(random.integers(1, 9)), now.shape[1]))
        file.append(rows)
        return np.concatenate([now, rows])
    if kind == 2:
        length = int(random.integers(4, len(now) + 1))
        file.resize(length, now.shape[1])
        return now[:length].copy()
    row = int(random.integers(len(now)))
    file[row] = now[row] = random.integers(0, 1 << 60, now.shape[1])
    return now


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_every_version_is_a_copy(seed: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (layout, reading, logwriter):
        monkeypatch.setattr(module, "PAGE_ROWS", 3)  # few chunks make a deep tree
    for module in (reading, logwriter):
        monkeypatch.setattr(module, "LEAF_RECORDS", 2)
    monkeypatch.setattr(logwriter, "_LEAST_FREE_NBYTES", 1000)
    random = np.random.default_rng(seed)
    now = _random(seed, 30, 50)
    chunks = [2, (4, 20), 7][seed % 3]
    bp.save(path, now, chunks=chunks, stats=True)
    keep = 3
    file = bp.open(path, "r+", keep=keep)
    copies: Copies = []
    readers: list[tuple[Any, np.ndarray[Any, Any]]] = []
    for step in range(60):
        kind = int(random.integers(10))
        now = _change(file, now, kind, random, chunks)
        if kind in (3, 4, 5):
            file.close()
        else:
            file.flush()
        copies = [*copies, now.copy()][-keep - 1 :]
        _check(path, copies)
        if kind in (3, 4, 5):
            new = [None, 3, 5, 1, 0][int(random.integers(5))] if step > 30 else None
            keep = keep if new is None else new
            file = bp.open(path, "r+", keep=new)
        if kind == 6 and len(readers) < 4:
            readers.append((bp.open(path, version=-len(copies)), copies[0]))
        for reader, content in readers:
            np.testing.assert_array_equal(reader[...], content)
    file.close()
    for reader, _ in readers:
        reader.close()


def test_the_number_is_in_the_file(path: Path) -> None:
    copies = _changed(path, 2, 5)
    for mode in ("r+", "a"):
        with bp.open(path, mode) as a:
            a.append(_random(9, 1, 100))
        copies.append(bp.load(path))
        _check(path, copies[-3:])
    with bp.open(path, "r+", keep=4) as a:
        pass  # the number is a change
    _check(path, [*copies[-3:], copies[-1]])
    with bp.open(path, "a", keep=0) as a:
        a.append(_random(9, 1, 100))
    _check(path, [bp.load(path)])
    with pytest.raises(ZeroDivisionError), bp.open(path, "r+", keep=9) as a:
        a[0] = 1 // 0
    with bp.open(path, "r+") as a:
        a[0] = 1
    _check(path, [bp.load(path)])


def test_a_file_of_version_3_keeps_from_its_first_change_on(path: Path) -> None:
    x = np.zeros(1000)
    bp.save(path, x, chunks=100)
    (only,) = bp.versions(path)
    assert (only.number, only.narrays, only.shape, only.dtype) == (0, 1, (1000,), x.dtype)
    assert only.cbytes == path.stat().st_size
    assert only.time is not None
    for version in (-1, 0):
        np.testing.assert_array_equal(bp.open(path, version=version)[...], x)
    for version in (-2, 1):
        with pytest.raises(NotFoundError, match=f"no version {version}: the file has only 0, or"):
            bp.open(path, version=version)
    before = path.read_bytes()
    with bp.open(path, "r+", keep=0):
        pass
    assert path.read_bytes() == before
    with bp.open(path, "r+", keep=3):
        pass
    _check(path, [x])
    with bp.open(path, "r+") as a:
        a[0] = 1
    _check(path, [x, bp.load(path)])


def test_compact_keeps_the_newest_alone(path: Path) -> None:
    copies = _changed(path, 5, 7)
    bp.compact(path)
    np.testing.assert_array_equal(bp.load(path), copies[-1])
    assert len(bp.versions(path)) == 1
    with bp.open(path) as a:
        assert a.header.format_version == 3


def test_what_cannot_keep_or_have_versions(path: Path, tmp_path: Path) -> None:
    bp.save(path, np.zeros(9))
    with pytest.raises(ValueError, match=r"keep is for a file that changes \(mode 'r\+'\)"):
        bp.open(path, keep=3)
    with pytest.raises(ValueError, match="keep is for a file that changes: mode 'a' leaves"):
        bp.open(path, "a", keep=3)
    for keep in (-1, layout.MAX_KEEP + 1):
        with pytest.raises(ValueError, match=f"keep must be 0 to 10000 versions, not {keep}"):
            bp.open(path, "r+", keep=keep)
    for keep in (1.5, "3"):
        with pytest.raises(TypeError):
            bp.open(path, "r+", keep=keep)
        with pytest.raises(TypeError):
            bp.open(path, version=keep)
    for mode in ("a", "r+"):
        with pytest.raises(ValueError, match=r"a version is only read \(mode 'r'\)"):
            bp.open(path, mode, version=-2)
    bp.savez(tmp_path / "z.blp", a=np.zeros(3))
    for name in ("z.blp", "z.blp::/a"):
        with pytest.raises(NotFoundError, match="no version -2"):
            bp.open(f"{tmp_path}/{name}", version=-2)
    with pytest.raises(ValueError, match="versions are those of a whole file"):
        bp.versions(f"{tmp_path}/z.blp::/a")
    with bp.frames.create(tmp_path / "s.blp") as store:
        store.append("a", np.zeros((2, 3, 4), "u1"))
    with pytest.raises(bp.exceptions.WrongKindError):
        bp.versions(tmp_path / "s.blp")
    with pytest.raises(TypeError, match="keep"):
        bp.frames.open(tmp_path / "s.blp", "a", keep=3)  # type: ignore[call-overload]


def test_a_pickle_is_valid_while_its_version_is_kept(path: Path) -> None:
    copies = _changed(path, 2, 4)
    newest, older = bp.open(path), bp.open(path, version=-2)
    assert newest.__dask_tokenize__() != older.__dask_tokenize__()
    pickled = pickle.dumps((newest, older))
    with bp.open(path, "r+") as a:
        a[5] = 5
    for array, copy in zip(pickle.loads(pickled), (copies[-1], copies[-2]), strict=True):
        np.testing.assert_array_equal(array[...], copy)
    again, fixed = pickle.loads(pickled)
    for array in (again, newest):
        array.refresh()
        np.testing.assert_array_equal(array[5], np.full(100, 5))
    for array in (fixed, older):  # they stay at their version
        array.refresh()
        np.testing.assert_array_equal(array[...], copies[-2])
    with bp.open(path, "r+") as a:
        a[5] = 6
    with pytest.raises(FileChangedError):
        pickle.loads(pickled)


@pytest.mark.parametrize("reopens", [True, False])
def test_a_reader_keeps_a_version_that_expires(path: Path, reopens: bool) -> None:
    copies = _changed(path, 3, 5)
    readers = [bp.open(path, version=number) for number in (-4, -3, -1)]
    expected = [copies[-4], copies[-3], copies[-1]]
    file = bp.open(path, "r+")
    for number in range(60):
        file[number % 40] = _random(number, 100)
        file.flush()
        if reopens and number % 7 == 0:
            file.close()
            file = bp.open(path, "r+")
    with pytest.raises(NotFoundError):
        bp.open(path, version=4)
    for reader, copy in zip(readers, expected, strict=True):
        np.testing.assert_array_equal(reader[...], copy)
        reader.close()
    file.close()
    assert bp.verify(path).ok


def test_a_reader_of_a_kept_version_blocks_no_space(path: Path) -> None:
    _changed(path, 3, 5)
    sizes = []
    reader = bp.open(path, version=-2)
    for number in range(60):
        with bp.open(path, "r+") as a:
            a[number % 40] = _random(number, 100)
        before, reader = reader, bp.open(path, version=-2)
        before.close()
        sizes.append(path.stat().st_size)
    assert sizes[-1] < 1.2 * sizes[20]


def test_a_version_that_expires_while_it_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _changed(path, 2, 5)
    hold = FileSource.hold
    changed: Copies = []

    def changed_before(source: FileSource, sequence: int) -> bool:
        if not changed:
            with bp.open(path, "r+") as a:
                for number in range(3):
                    a[0] += number + 1
                    a.flush()
                    changed.append(a[...])
        return hold(source, sequence)

    monkeypatch.setattr(FileSource, "hold", changed_before)
    with pytest.raises(NotFoundError, match="no version 4: the file has 7 to 9"):
        bp.open(path, version=4)
    changed.clear()
    np.testing.assert_array_equal(bp.open(path, version=-3)[...], changed[0])


def test_the_space_of_versions_comes_back(path: Path) -> None:
    _changed(path, 5, 50)
    kept = path.stat().st_size
    with bp.open(path, "r+", keep=0) as a:
        for number in range(200):
            a[number % 40] = _random(number, 100)
            a.flush()
    (only,) = bp.versions(path)
    size = path.stat().st_size
    assert size <= kept
    assert size - only.cbytes < max(only.cbytes, 1 << 17)


def test_a_small_change_of_a_large_array_is_small(path: Path) -> None:
    x = np.zeros((3000, 64), "i4")
    bp.save(path, x, chunks=1)
    with bp.open(path, "r+", keep=9) as a:
        for number in range(12):
            a[number] = 1
            a.flush()
    before = path.stat().st_size
    nread = 0
    read_at = FileSource.read_at

    def counted(source: FileSource, offset: int, nbytes: int) -> bytes:
        nonlocal nread
        nread += nbytes
        return read_at(source, offset, nbytes)

    with pytest.MonkeyPatch.context() as patch, bp.open(path, "r+") as a:
        patch.setattr(FileSource, "read_at", counted)
        a[2000] = 2
    assert path.stat().st_size - before < 22_500  # a page of 1,024 rows, a chunk, the history
    assert nread < 5 * 1024 * 20


def test_without_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "hold_version", lambda *_: False)
    monkeypatch.setattr(lock, "versions_held", lambda *_: None)
    copies = _changed(path, 2, 60)
    _check(path, copies[-3:])
    reader = bp.open(path, version=-3)
    with bp.open(path, "r+") as a:
        for number in range(60):
            a[number % 40] = _random(number, 100)
            a.flush()
    try:
        content = reader[...]
    except FileChangedError:
        pass
    else:
        np.testing.assert_array_equal(content, copies[-3])
    assert path.stat().st_size < 40 * 1600 + (1 << 18)


def _kept_file(path: Path) -> tuple[bytes, Copies, layout.Commit]:
    copies = _changed(path, 3, 6)
    file = path.read_bytes()
    commits = [layout.Commit.unpack(file, at) for at in layout.SLOTS]
    return file, copies, max(each for each in commits if each is not None)


def test_damage_of_the_history(path: Path) -> None:
    file, copies, commit = _kept_file(path)
    history = commit.history
    for at in range(history.offset, history.end, 7):
        damaged = bytearray(file)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        for version in (-1, commit.sequence):  # as a pickle opens it
            np.testing.assert_array_equal(bp.open(path, version=version)[...], copies[-1])
        assert not bp.verify(path).ok
        for read in (bp.versions, lambda path: bp.open(path, version=-2)):
            with pytest.raises(FormatError, match=r"history: .*compact keeps the newest"):
                read(path)
        with pytest.raises(FormatError, match=r"history: .*compact keeps the newest"):
            bp.open(path, "r+")
    bp.compact(path)
    np.testing.assert_array_equal(bp.load(path), copies[-1])


def _with(file: bytes, commit: layout.Commit, **fields: Any) -> bytes:
    packed = commit._replace(**fields).pack()
    for at in (*layout.SLOTS, *layout.COPIES):
        file = file[:at] + packed + file[at + len(packed) :]
    return file


@pytest.mark.parametrize("nbytes", [1, 127, 256, 512, 128 * 1000, 2**32 - 1])
@pytest.mark.parametrize("offset", [0, 64, layout.DATA_OFFSET, 2**63, 2**64 - 1])
def test_a_hostile_history(path: Path, nbytes: int, offset: int) -> None:
    file, copies, commit = _kept_file(path)
    digest = xxhash.xxh3_64_digest(file[offset : offset + nbytes])
    wrong = layout.Row(offset, nbytes, digest)
    path.write_bytes(_with(file, commit, history=wrong, keep=2**16 - 1))
    np.testing.assert_array_equal(bp.load(path), copies[-1])
    with pytest.raises(FormatError, match="history"):
        bp.versions(path)
    assert not bp.verify(path).ok


def test_another_history_is_refused(path: Path) -> None:
    file, copies, commit = _kept_file(path)
    stored = file[commit.history.offset : commit.history.end]
    twice = layout.Row(commit.history.offset, 248, xxhash.xxh3_64_digest(stored[:248]))
    path.write_bytes(_with(file, commit, history=twice))  # not those before the last commit
    np.testing.assert_array_equal(bp.load(path), copies[-1])
    with pytest.raises(FormatError, match=f"history: it is not that of commit {commit.sequence}"):
        bp.versions(path)


def test_damage_of_a_kept_version(path: Path) -> None:
    file, copies, _ = _kept_file(path)
    source = FileSource(path)
    before, after = reading.read_versions(source)[:2]
    rows = reading.only_in(source, before, after)
    chunk = next(row for row in rows if row.nbytes > 1000)
    source.close()
    damaged = bytearray(file)
    damaged[chunk.offset + 50] ^= 1
    path.write_bytes(damaged)
    np.testing.assert_array_equal(bp.load(path), copies[-1])
    with pytest.raises(FormatError), bp.open(path, version=before.sequence) as a:
        a[...]
    np.testing.assert_array_equal(bp.open(path, version=after.sequence)[...], copies[-3])
    report = bp.verify(path)
    assert [damage.offset for damage in report.damage] == [chunk.offset]
    assert re.match(f"version {before.sequence}: chunk 1 ", report.damage[0].what)
    report = bp.recover(path, path.with_name("out"))
    assert report.saved == report.nchunks
    np.testing.assert_array_equal(bp.load(path.with_name("out")), copies[-1])


def test_recover_takes_the_newest_version_that_leads_to_an_array(path: Path) -> None:
    file, copies, commit = _kept_file(path)
    older = layout.unpack_history(file[commit.history.offset : commit.history.end], commit)
    damaged = bytearray(file)
    damaged[layout.DATA_OFFSET : commit.start] = bytes(commit.start - layout.DATA_OFFSET)
    for lost, copy in zip((commit, *older[:0:-1]), copies[-2::-1], strict=False):
        damaged[lost.groups.root.offset + 9] ^= 1
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert not bp.verify(path).ok
            bp.recover(path, path.with_name(f"out{lost.sequence}"))
        np.testing.assert_array_equal(bp.load(path.with_name(f"out{lost.sequence}")), copy)
