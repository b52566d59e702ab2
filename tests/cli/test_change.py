"""``blpk rm``, ``mv`` and ``compact``."""

from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import UnsupportedError

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


def test_all_or_nothing(blpk: Blpk, store: Path) -> None:
    ended = blpk("rm", "a.blp::/walk", "a.blp::/none")
    assert ended.code != 0
    assert "no clip 'none'" in ended.err
    assert ids(store) == ["walk", "run", "jump"]


def test_wrong_use(blpk: Blpk, store: Path) -> None:
    bp.savez("x.blp", {"a": np.arange(10)})
    for command in (("rm", "a.blp"), ("mv", "a.blp", "b"), ("compact", "a.blp::/run")):
        assert blpk(*command).code == 2
    for command in (("rm", "x.blp::/a"), ("mv", "x.blp::/a", "b"), ("compact", "x.blp")):
        assert blpk(*command).code == 1
    for command in (("rm", "no.blp::/a"), ("mv", "no.blp::/a", "b"), ("compact", "no.blp")):
        assert blpk(*command).code != 0
    with pytest.raises(UnsupportedError, match="compact"):
        bp.compact("x.blp")
    assert ids(store) == ["walk", "run", "jump"]
