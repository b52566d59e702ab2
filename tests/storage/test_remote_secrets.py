"""Secrets in URLs and storage options, which must not appear in any message."""

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import RemoteError
from bloscpack.storage.remote.source import RemoteSource
from bloscpack.storage.url import shown, without_secrets

from ..conftest import server_fixture
from ..servers import Answer, FileServer

OPTIONS = {"headers": {"X-Token": "hush"}}
ROWS = np.arange(60_000, dtype="u4").reshape(600, 100)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("secrets") / "a.blp"
    bp.save(path, ROWS, chunks=60)
    return path.read_bytes()


running_http = server_fixture(FileServer)


@pytest.fixture
def http(running_http: FileServer, content: bytes, retries_at_once: None) -> FileServer:
    running_http.clear()
    running_http.files["/a.blp"] = content
    return running_http


def secret_url(server: FileServer, name: str = "a.blp") -> str:
    return server.url(f"{name}?signature=hush").replace("//", "//me:hush@")


def text_of(err: BaseException) -> str:
    """Return the text of a traceback without source lines."""
    lines = "".join(traceback.format_exception(err)).splitlines()
    return "\n".join(line for line in lines if not line.startswith("    "))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://me:pw@host:80/a/b?key=1", "https://host:80/a/b?..."),
        ("https://me@host/a", "https://host/a"),
        ("HTTPS://me:pw@host/a?", "HTTPS://host/a?..."),
        ("http://host/a@b?c#d", "http://host/a@b?..."),
        ("http://host/a#d", "http://host/a"),
        ("http://me:pw@[bad/a?k", "http://[bad/a?..."),
        ("s3://bucket/key?versionId=3", "s3://bucket/key?versionId=3"),
        ("s3://bucket/a?[b]*#c", "s3://bucket/a?[b]*#c"),
        ("sftp://me:p@ss@host:22/a", "sftp://host:22/a"),
        ("sftp://me@host/a", "sftp://me@host/a"),
        ("abfs://box@account.net/a", "abfs://box@account.net/a"),
        ("simplecache::http://me:pw@host/a?k=1", "simplecache::http://host/a?..."),
        ("zip://in/a::ftp://me:pw@host/b.zip", "zip://in/a::ftp://host/b.zip"),
        ("memory://box/a", "memory://box/a"),
    ],
)
def test_shown(url: str, expected: str) -> None:
    assert shown(url) == expected


def test_words_of_others() -> None:
    text = "404, url='http://h/a?k=1' (from ftp://me:pw@h/b), 5: //no"
    found = without_secrets(text)
    assert found == "404, url='http://h/a?...' (from ftp://h/b), 5: //no"


@pytest.mark.parametrize("fault", ["403", "404", "418", "503", "drop", "moved", "elsewhere"])
def test_errors(http: FileServer, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    places = {"moved": "/a.blp?key=hush", "elsewhere": "ftp://me:hush@host/a?b=hush"}
    if fault in places:
        answer = Answer(302, {"Location": places[fault]}, b"")
        monkeypatch.setattr(http, "answer", lambda *_: answer)
    else:
        http.always = fault
    with pytest.raises(OSError, match=r"a\.blp\?\.\.\.") as caught:
        bp.open(secret_url(http), storage_options=OPTIONS)
    assert caught.value.__cause__ is not None
    assert "hush" not in text_of(caught.value)
    if fault == "moved":
        assert "too many redirects" in str(caught.value)


def test_a_chain(tmp_path: Path) -> None:
    url = "simplecache::http://me:hush@127.0.0.1:1/a?signature=hush"
    options = {"simplecache": {"cache_storage": str(tmp_path)}}
    with pytest.raises(OSError, match="simplecache::http://127") as caught:
        bp.open(url, storage_options=options)
    assert "hush" not in text_of(caught.value)


def test_words_are_one_line() -> None:
    """Even if a server sends a long text as its status message."""
    from bloscpack.storage.remote.errors import message_of

    found = message_of(ValueError("a\n  b " + 1000 * "c"))
    assert found.startswith("ValueError: a b ccc")
    assert len(found) < 600


def test_handles(http: FileServer) -> None:
    url = secret_url(http)
    with bp.open(url, storage_options=OPTIONS) as array:
        source: Any = array.container.source
        texts = [array, array.name, array.__reduce__(), source, source.place(4096)]
        with bp.open_many([url, url], storage_options=OPTIONS) as many:
            texts += [many, many.names, many.__reduce__()[1][0]["_reopeners"]]
        assert "hush" not in repr(texts)
        assert source.place(0).storage_options == OPTIONS


def test_references(http: FileServer) -> None:
    url = secret_url(http)
    with pytest.raises(ValueError, match="give 'url'") as caught:
        bp.kerchunk_references(url)
    assert "hush" not in str(caught.value)
    assert http.log == []
    refs = bp.kerchunk_references(url, url="https://host/a.blp")["refs"]
    assert refs["data/0.0"][0] == "https://host/a.blp"
    assert "hush" not in repr(refs)
    plain = http.url("a.blp")
    assert bp.kerchunk_references(plain)["refs"]["data/0.0"][0] == plain


def test_no_other_status_is_the_object(http: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for status in (204, 304):
        monkeypatch.setattr(http, "answer", lambda *_, status=status: Answer(status, {}, b""))
        with pytest.raises(RemoteError, match=f"HTTP status {status}"):
            RemoteSource(http.url("a.blp"))
