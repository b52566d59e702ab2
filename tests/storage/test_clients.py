"""Clients of URLs: unreferenced ones are closed, even on a busy machine."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from fsspec.asyn import get_loop

from bloscpack.storage.file import open_source
from bloscpack.storage.remote import client

from ..servers import FileServer, running


@pytest.fixture
def urls() -> Iterator[list[str]]:
    server = FileServer()
    server.files["/a"] = bytes(100)
    with running(server):
        yield [server.url("a")]


def session_of(url: str, options: dict[str, Any]) -> Any:
    source = open_source(url, options)
    assert bytes(source.read_at(0, 3)) == bytes(3)
    source.close()
    return client.client(url, options)[0]._session


def test_clients_that_are_replaced_by_others_are_closed(urls: list[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sessions = [
            session_of(urls[0], {"headers": {"X-Number": str(number)}})
            for number in range(client._MAX_CLIENTS + 4)
        ]
        gc.collect()
        client.close_clients()
        assert [session.closed for session in sessions] == [True] * len(sessions)
        del sessions
        gc.collect()
    assert [str(each.message) for each in caught if each.category is ResourceWarning] == []


def test_a_client_is_closed_by_a_loop_that_was_busy_when_it_was_let_go(urls: list[str]) -> None:
    session = session_of(urls[0], {"headers": {"X-Number": "busy"}})
    begun, go_on = threading.Event(), threading.Event()

    async def keep_busy() -> None:
        begun.set()
        go_on.wait()  # blocks the event loop

    busy = asyncio.run_coroutine_threadsafe(keep_busy(), get_loop())
    begun.wait()
    client._clients = {}
    gc.collect()
    assert not session.closed
    go_on.set()
    busy.result()
    client.close_clients()
    assert session.closed
