"""Clients of URLs: unreferenced ones are closed, even on a busy machine."""

import asyncio
import gc
import os
import tarfile
import threading
import time
import warnings
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")

import fsspec
from fsspec.asyn import get_loop
from fsspec.spec import AbstractFileSystem

from bloscpack.exceptions import UnsupportedError
from bloscpack.storage.file import open_source
from bloscpack.storage.folder.filelist import ListedFolder, expanded
from bloscpack.storage.remote import client
from bloscpack.storage.remote.backends import open_object
from bloscpack.storage.remote.retry import list_folder

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


def test_a_url_of_another_host_has_a_client_of_its_own() -> None:
    """File systems such as SFTP and FTP take the host and the user from the URL."""
    ftp = pytest.importorskip("fsspec.implementations.ftp")

    class Hosts(ftp.FTPFileSystem):  # type: ignore[misc, name-defined]
        protocol = "hosts"

        def _connect(self) -> None:
            pass

        def __del__(self) -> None:
            pass

    fsspec.register_implementation("hosts", Hosts, clobber=True)
    one = client.client("hosts://one/a", {})[0]
    assert (one.host, client.client("hosts://two/a", {})[0].host) == ("one", "two")
    assert client.client("hosts://one/b", {})[0] is one
    users = [client.client(f"hosts://{user}:x@one/a", {})[0].cred[0] for user in ("ann", "bob")]
    assert users == ["ann", "bob"]


@pytest.mark.parametrize("before", [[], ["s3://bucket/key"]])
def test_a_version_in_the_url_of_an_object_is_requested(before: list[str]) -> None:
    pytest.importorskip("s3fs")
    client.close_clients()
    for url in before:
        client.client(url, {"anon": True})
    found: Any = open_object("s3://bucket/key?versionId=abc", {"anon": True})
    assert (found._key, found._version) == ("key", {"VersionId": "abc"})
    found = open_object("s3://bucket/key", {"anon": True})
    assert (found._key, found._version) == ("key", {})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_clients_that_its_parent_closes() -> None:
    client.client("http://localhost/a", {})
    closing: Future[None] = Future()  # stays unfinished, as in a child
    client._closing.add(closing)
    try:
        child = os.fork()
        if not child:
            try:
                client.client("http://localhost/a", {})
                os._exit(closing in client._closing)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        client._closing.discard(closing)


def test_a_synchronous_client_gets_one_request_at_a_time() -> None:
    """FTP has one connection, whose replies would be mixed."""
    content = bytes(1 << 20)
    busy = []

    class Slow(AbstractFileSystem):  # type: ignore[misc]
        protocol = "slow"

        def answer(self, answer: Any) -> Any:
            busy.append(1)
            time.sleep(0.002)
            assert busy.pop() == 1
            assert not busy, "another request is under way"
            return answer

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return self.answer({"name": path, "size": len(content), "type": "file", "mtime": 1})

        def cat_file(self, path: str, start: int, end: int, **_: Any) -> bytes:
            return self.answer(content[start:end])

        def ls(self, path: str, **_: Any) -> list[dict[str, Any]]:
            return self.answer([self.info("slow/a")])

    fsspec.register_implementation("slow", Slow, clobber=True)
    client.close_clients()
    sources = [open_source("slow://a"), open_source("slow://b")]
    # Those that are cancelled go on in their threads.
    fetched = [each.prefetch([(200_000 * n, 10)]) for n in range(1, 5) for each in sources]
    for each in fetched[::3]:
        each.end()
    assert list(list_folder("slow://", {})) == ["a"]
    for each in fetched:
        each.wait()
    assert bytes(sources[0].read_at(200_000, 5)) == bytes(5)


def test_options_of_instances_of_fsspec_are_accepted(urls: list[str]) -> None:
    with closing(open_source(urls[0], {"skip_instance_cache": True})) as source:
        assert source.size() == 100


@pytest.mark.parametrize("scheme", ["zip", "tar", "simplecache::zip"])
def test_each_archive_of_a_chain_is_read(scheme: str, tmp_path: Path) -> None:
    """The client of one archive does not read another, nor one that was replaced."""
    for round_ in range(2):
        for number in range(3):
            name, member = str(tmp_path / f"a{number}"), tmp_path / "m"
            member.write_bytes(bytes([10 * round_ + number]) * 100)
            if scheme == "tar":
                with tarfile.open(name, "w") as tar:
                    tar.add(member, "m")
            else:
                with zipfile.ZipFile(name, "w") as archive:
                    archive.write(member, "m")
            with closing(open_source(f"{scheme}://m::{name}", None)) as source:
                assert bytes(source.read_at(0, 9)) == bytes([10 * round_ + number]) * 9
            for folder in ("", "/"):
                listed = ListedFolder(f"{scheme}://{folder}::{name}")
                with closing(listed.open("m")) as source:
                    assert source.size() == 100


def test_a_name_with_brackets_is_not_a_pattern() -> None:
    """As of a path, and although another name matches it."""
    files = fsspec.filesystem("memory")
    for name in ("run[1].blp", "run1.blp", "run2.blp"):
        files.pipe_file(f"/brackets/{name}", b"")
    folder = "memory://brackets"
    assert expanded(f"{folder}/run[1].blp") == [f"{folder}/run[1].blp"]
    assert expanded(f"{folder}/run[12].blp") == [f"{folder}/run1.blp", f"{folder}/run2.blp"]
    with pytest.raises(FileNotFoundError, match="no file matches"):
        expanded(f"{folder}/run[3].blp")


def test_a_pattern_of_a_chain_is_refused() -> None:
    for pattern in ("zip://*.blp::a.zip", "simplecache::s3://a/*.blp"):
        with pytest.raises(UnsupportedError, match="patterns in chained URLs"):
            expanded(pattern)
