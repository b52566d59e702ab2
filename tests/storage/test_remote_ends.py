"""Remote sources that are closed, interrupted or forked during a request."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest

from bloscpack.storage.remote import client, retry
from bloscpack.storage.remote import source as remote
from bloscpack.storage.remote.prefetch import at_hand
from bloscpack.storage.remote.source import RemoteSource

from ..servers import FileServer, running

DATA = Random(5).randbytes(2 << 20)


@pytest.fixture
def http() -> Iterator[FileServer]:
    with running(FileServer()) as server:
        server.files["/a"] = DATA
        yield server


def test_nothing_is_kept_of_what_is_closed(http: FileServer) -> None:
    source = RemoteSource(http.url("a"))
    prefetch = source.prefetch([(1_000_000, 10)])
    prefetch.wait()
    source.close()
    prefetch.end()
    assert (source._head, source._recent, source._prefetched) == (b"", (), {})


def test_a_child_fetches_what_its_parent_was_waiting_for(
    http: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that receives the response does not exist in the child."""
    source = RemoteSource(http.url("a"))
    prefetch = source.prefetch([(1_000_000, 10)])
    prefetch._future = Future()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    prefetch.wait()
    assert bytes(source.read_at(1_000_000, 10)) == DATA[1_000_000:1_000_010]
    prefetch.end()


def test_a_child_leaves_the_clients_of_its_parent_alone(
    http: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing them, as dropping the last reference would, closes connections in use."""
    source = RemoteSource(http.url("a"))
    of_parent = source._object
    monkeypatch.setattr(os, "getpid", lambda: 2)
    assert bytes(source.read_at(1_000_000, 10)) == DATA[1_000_000:1_000_010]
    assert source._object is not of_parent
    assert any(thing is of_parent for thing in client._not_ours)


@pytest.mark.parametrize("is_ahead", [True, False])
def test_an_interrupt_ends_requests(
    http: FileServer, monkeypatch: pytest.MonkeyPatch, is_ahead: bool
) -> None:
    source = RemoteSource(http.url("a"))
    awaited: list[Future[Any]] = []

    async def sleep(_: float) -> None:
        await asyncio.Event().wait()

    def interrupted(future: Future[Any]) -> Any:
        awaited.append(future)
        raise KeyboardInterrupt

    monkeypatch.setattr(retry, "sleep", sleep)
    monkeypatch.setattr(remote, "result_of", interrupted)
    http.always = "500"
    ahead = [(source, 1_000_000, 10)] if is_ahead else []
    with pytest.raises(KeyboardInterrupt), at_hand(ahead):
        source.read_at(1_000_000, 10)
    assert awaited[0].cancelled()
