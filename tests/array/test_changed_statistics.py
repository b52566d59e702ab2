"""Statistics of chunks of files that change: damage, lies and hostile sizes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.container.logreader import read_commit
from bloscpack.exceptions import BloscpackError, FormatError, UnsupportedError
from bloscpack.format import log as layout
from bloscpack.format.log import NO_ROW, NO_TREE, Node, Row, Tree
from bloscpack.format.statistics import Statistics
from bloscpack.storage import lock
from bloscpack.storage.memory import MemorySource

ARRAY = np.arange(3000, dtype="f8")


pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file with the statistics of 600 chunks."""
    path = tmp_path / "t.blp"
    bp.save(path, ARRAY, chunks=5, stats=True, changeable=True)
    return path


def node_of(data: bytes) -> Node:
    """Return the node of the only array of a log."""
    root = read_commit(MemorySource(data)).groups.root
    (node,) = layout.unpack_group(data[root.offset : root.end])
    return node


def leaf_of(data: bytes, number: int) -> Row:
    """Return the row of a leaf of the statistics."""
    root = node_of(data).statistics.root
    return layout.unpack_row(data[root.offset : root.end], number)


def rewritten(data: bytes, group: bytes) -> bytes:
    """Return a log with another group."""
    commit = read_commit(MemorySource(data))
    row = Row(len(data), len(group), xxh3_64_digest(group))
    number = commit.sequence + 1
    new = commit._replace(end=row.end, sequence=number, groups=Tree(row, 0, 1), added=NO_ROW)
    found = bytearray(data + group)
    for at in (layout.SLOTS[new.slot], layout.COPIES[new.slot]):
        found[at : at + layout.COMMIT_SIZE] = new.pack()
    return bytes(found)


def test_a_change_writes_one_leaf(path: Path) -> None:
    before = path.read_bytes()
    assert node_of(before).statistics.nleaves == 3
    assert leaf_of(before, 2).nbytes == 32 * (600 - 512)
    with bp.open(path, "r+") as a:
        a[1300] = -1
    after = path.read_bytes()
    rows = [(leaf_of(before, number), leaf_of(after, number)) for number in range(3)]
    assert [one == two for one, two in rows] == [True, False, True]
    with bp.open(path) as a:
        assert a.stats["min"][260] == -1
        assert (a.min(), a.max(), a.stats["sum"].sum()) == (-1, 2999, ARRAY.sum() - 1301)


def test_damage_harms_the_statistics_alone(path: Path) -> None:
    data = bytearray(path.read_bytes())
    row = leaf_of(bytes(data), 1)
    data[row.offset + 100] ^= 1
    path.write_bytes(data)
    with bp.open(path) as a:
        assert np.array_equal(a[...], ARRAY)
        for use in (a.min, lambda: a.stats, lambda: a.chunks_where(max=(">", 1))):
            with pytest.raises(FormatError, match="statistics"):
                use()
    damage = bp.verify(path).damage
    assert {each.offset for each in damage} == {row.offset}
    with bp.open(path, "r+") as a:  # another leaf
        a[3] = 5000
    with pytest.raises(FormatError, match="statistics"), bp.open(path, "r+") as a:
        a[1300] = 5000
    assert bp.load(path)[[3, 1300]].tolist() == [5000, 1300]
    new = path.with_name("new.blp")
    bp.recover(path, new)
    with bp.open(new) as a:
        assert (a.min(), a.max(), a.stats["sum"][260]) == (0, 5000, ARRAY[1300:1305].sum())
    assert bp.verify(new).ok


@pytest.mark.parametrize("keep", [0, 2])
def test_wrong_statistics_are_damage(
    path: Path, keep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Statistics.record
    with bp.open(path, "r+", keep=keep) as a:
        with monkeypatch.context() as patch:
            patch.setattr(Statistics, "record", lambda self, _: honest(self, bytes(40)))
            a[1300] = 2000
            a.flush()
        for value in range(keep):
            a[1300] = value
            a.flush()
    (damage,) = bp.verify(path).damage
    lead = "version 2: " if keep else ""
    assert damage.what == f"{lead}the statistics of chunk 260 are not those of its items"
    with bp.open(path, version=2) as a:
        assert a.stats["max"][260] == 0


def trees() -> dict[str, Any]:
    """Return functions that make a hostile tree of statistics of a sound one, and its file."""
    far = Row(2**60, 8192, bytes(8))
    return {
        "too many leaves": lambda tree, _: Tree(tree.root, 3, 1 << 30),
        "too few": lambda tree, _: Tree(tree.root, 1, 2),
        "the most": lambda tree, _: Tree(tree.root, 7, 2**64 - 1),
        "one leaf": lambda tree, data: Tree(leaf_of(data, 0), 0, 1),
        "outside of the file": lambda tree, _: Tree(far, 1, 3),
        "the header": lambda tree, _: Tree(Row(0, 60, bytes(8)), 1, 3),
    }


@pytest.mark.parametrize("name", trees())
def test_hostile_trees(path: Path, name: str) -> None:
    data = path.read_bytes()
    node = node_of(data)
    wrong = node._replace(statistics=trees()[name](node.statistics, data))
    path.write_bytes(rewritten(data, wrong.pack()))
    with pytest.raises(FormatError), bp.open(path) as a:
        a.min()
    assert not bp.verify(path).ok
    with pytest.raises(BloscpackError), bp.open(path, "r+") as a:
        a[1300] = 5


@pytest.mark.parametrize("nbytes", [0, 31, 32, 8224, 2**32 - 1])
def test_leaves_of_another_size(path: Path, nbytes: int) -> None:
    data = path.read_bytes()
    node = node_of(data)
    rows = [leaf_of(data, number) for number in range(3)]
    content = bytes(min(nbytes, 9000))
    rows[1] = Row(len(data), nbytes, xxh3_64_digest(content))
    data += content
    page = b"".join(row.pack() for row in rows)
    root = Row(len(data), len(page), xxh3_64_digest(page))
    wrong = node._replace(statistics=Tree(root, 1, 3))
    path.write_bytes(rewritten(data + page, wrong.pack()))
    with bp.open(path) as a:
        assert a[-1] == 2999
        with pytest.raises(FormatError, match="statistics"):
            a.max()
    assert not bp.verify(path).ok


def test_unknown_flags_are_refused(path: Path) -> None:
    data = path.read_bytes()
    group = bytearray(node_of(data).pack())
    group[2] = 3
    path.write_bytes(rewritten(data, bytes(group)))
    with pytest.raises(UnsupportedError, match="flags 0x3"):
        bp.load(path)


@pytest.mark.parametrize("cut", [39, 40, 71, 72])
def test_a_cut_node_is_refused(path: Path, cut: int) -> None:
    data = path.read_bytes()
    with pytest.raises(FormatError):
        layout.unpack_group(node_of(data).pack()[:cut])


def test_a_node_without_them_is_as_before(tmp_path: Path) -> None:
    bp.save(tmp_path / "t.blp", ARRAY, chunks=5, changeable=True)
    node = node_of((tmp_path / "t.blp").read_bytes())
    assert node.statistics == NO_TREE
    assert len(node.pack()) == node.nbytes == 40 + len(node.front)


def test_a_reader_whose_space_is_used_again_is_never_wrong(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "hold_version", lambda *_: False)
    reader = bp.open(path)
    with bp.open(path, "r+") as a:
        for value in range(40):
            a[1300:1700] = value
            a.flush()
    try:
        found = reader.min(), reader.max()
    except BloscpackError:
        pass
    else:
        assert found == (0, 2999)
    reader.refresh()
    assert reader.stats is not None
    assert reader.stats["max"][260] == 39
    reader.close()
