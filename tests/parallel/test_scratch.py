"""Scratch memory: reused, never shared, bounded."""

import pytest

from bloscpack.parallel import scratch as module
from bloscpack.parallel.scratch import Scratch


@pytest.fixture(autouse=True)
def no_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_idle", [])


def test_a_buffer_is_used_again_if_it_is_large_enough() -> None:
    with Scratch(100) as view:
        assert len(view) == 100
    [first] = module._idle
    with Scratch(50) as view:
        assert len(view) == 50
        assert not module._idle
    assert module._idle[0] is first
    with Scratch(200) as view:
        assert len(view) == 200
    assert [len(buffer) for buffer in module._idle] == [200]


def test_two_at_once_are_two() -> None:
    with Scratch(10) as one, Scratch(10) as other:
        one[:] = b"a" * 10
        other[:] = b"b" * 10
        assert bytes(one) == b"a" * 10
    assert len(module._idle) == 2


def test_nothing_is_readable_afterwards_and_no_error_is_lost() -> None:
    with pytest.raises(KeyError), Scratch(10) as view:
        raise KeyError
    with pytest.raises(ValueError, match="released"):
        bytes(view)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_KEPT_NBYTES", 1000)
    with Scratch(1001):
        pass
    assert not module._idle
    monkeypatch.setattr(module, "_MAX_IDLE", 1)
    with Scratch(10), Scratch(10):
        pass
    assert len(module._idle) == 1
