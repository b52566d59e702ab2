"""Security of the server: who gets an answer, and what no answer contains."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from ..conftest import SMALL_FORMATS, small_vectors
from .asgiclient import HOST, ORIGIN, Client, anyio

SECRET = "beside-the-files"


@pytest.fixture
def page(tmp_path: Path, client) -> Client:
    (tmp_path / "secret.txt").write_text(SECRET)
    bp.save(tmp_path / "a.blp", np.arange(12).reshape(3, 4), attrs={"<b>": "<script>x()</script>"})
    return client(tmp_path / "a.blp")


def test_the_page_needs_no_token_and_data_do(page):
    stranger = Client(page.application, token=None)
    for name in ("/", "/main.js", "/style.css", "/icon.svg"):
        assert stranger.get(name).status == 200
    for name in ("/api/files", "/api/0/info", "/api/0/plane", "/api", "/other", "//api/files"):
        assert stranger.get(name).status == 401, name
    assert stranger.post("/api/0/verify").status == 401


@pytest.mark.parametrize("token", ["", "wrong", "secret-of-the-test", "secret-of-the-testsx"])
def test_a_wrong_token_is_refused(page, token):
    assert page.get("/api/files", authorization=f"Bearer {token}").status == 401


def test_a_token_in_the_url_does_not_give_data(page):
    stranger = Client(page.application, token=None)
    assert stranger.get("/api/files?token=secret-of-the-tests").status == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:80"])
@pytest.mark.parametrize("name", ["/", "/main.js", "/api/files"])
def test_another_host_is_refused(page, host, name):
    assert page.get(name, host=host).status == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://{HOST}", "http://127.0.0.1"]
)
def test_another_origin_is_refused(page, origin):
    assert page.get("/api/files", origin=origin).status == 403
    assert page.post("/api/0/verify", origin=origin).status == 403


def test_the_own_origin_is_answered(page):
    assert page.get("/api/files", origin=ORIGIN, sec_fetch_site="same-origin").status == 200
    assert page.get("/", sec_fetch_site="none").status == 200
    assert page.get("/", sec_fetch_site="cross-site").status == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_get_and_post(page, method):
    assert anyio_request(page, method, "/api/0/info").status == 405


def test_post_is_for_verification_only_and_needs_an_origin(page):
    assert page.post("/api/files").status == 405
    assert page.post("/api/0/plane").status == 405
    assert page.get("/api/0/verify").status == 404
    assert anyio_request(page, "POST", "/api/0/verify").status == 403


def anyio_request(page, method, target):
    return anyio.run(lambda: page.request(method, target))


@pytest.mark.parametrize(
    "target",
    [
        "/../secret.txt",
        "/secret.txt",
        "/page/../server.py",
        "/..%2f..%2fsecret.txt",
        "/server.py",
        "/api/../secret.txt",
        "/api/0/../../secret.txt",
        "/api/-1/info",
        "/api/1/info",
        "/api/99999999999999999999/info",
        "/api/a.blp/info",
        "/api/0/secret.txt",
        "/api/0/..",
        "/api/0/info/../../..",
    ],
)
def test_nothing_but_the_named_files_is_read(page, target):
    reply = page.get(target)
    assert reply.status in (404, 405)
    assert SECRET.encode() not in reply.body


def test_headers_forbid_everything_from_elsewhere(page):
    for target in ("/", "/main.js", "/api/files", "/api/9/info", "/nothing"):
        headers = page.get(target).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


def test_text_of_a_file_is_only_sent_as_json(page):
    reply = page.get("/api/0/array")
    assert reply.headers["content-type"] == "application/json"
    assert reply.json["attrs"] == {"<b>": "<script>x()</script>"}


def test_the_page_loads_nothing_from_elsewhere_and_has_nothing_inline():
    folder = Path(bp.__file__).parent / "view" / "page"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        text = path.read_text("utf-8")
        if path.parent.name == "vendor":  # a comment names its source
            text = re.sub(r"^//.*$", "", text, flags=re.MULTILINE)
        # The static page names the schemes that it takes; its policy is in tests/staticview.
        if path.suffix != ".svg" and path.parent.name != "static":
            assert "http:" not in text, path
            assert "https:" not in text, path
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, path
    html = (folder / "index.html").read_text()
    assert html.count("<script") == 1
    assert "style=" not in html


@pytest.mark.parametrize(
    "query",
    [
        "index=99", "index=-1", "index=0,0,0", "index=x", "rows=5", "rows=0&cols=0", "width=0",
        "width=100000", "row_start=3", "row_start=1&row_stop=1", "part=x", "field=x", "member=x",
        "index=" + "9" * 5000, "index=1e3", "width=٣&index=%00",
    ],
)  # fmt: skip
def test_wrong_parameters_are_errors_in_json(page, query):
    reply = page.get(f"/api/0/plane?{query}")
    if query.startswith("member"):  # of an archive only
        assert reply.status == 200
        return
    assert reply.status in (200, 400)
    assert reply.status == 200 or reply.json["error"]["type"] == "QueryError"


def test_a_bug_is_reported_as_one(page, monkeypatch, caplog):
    def broken(*args):
        raise AttributeError("oops")

    monkeypatch.setattr("bloscpack.view.filepage._row", broken)
    reply = page.get("/api/files")
    assert reply.status == 500
    assert "oops" not in reply.body.decode()
    assert "oops" in caplog.text


WATCH_IMPORTS = """
import http.client, sys, threading
from urllib.parse import parse_qs, urlsplit
from bloscpack.storage.file import Place
from bloscpack.view.server import PageServer
from bloscpack.storage.file import Place
from bloscpack.view.session import Session

server = PageServer(Session([Place(sys.argv[1])]))
ready = threading.Event()
threading.Thread(target=server.run, args=(ready.set,), daemon=True).start()
ready.wait()
before = set(sys.modules)
url = urlsplit(server.url)
headers = {"Authorization": "Bearer " + parse_qs(url.query)["token"][0]}
connection = http.client.HTTPConnection(url.hostname, url.port)
for target in sys.argv[2:]:
    connection.request("GET", target, headers=headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    response.read()
new = set(sys.modules) - before
print(*[each for each in new if each.startswith(("bloscpack", "anyio", "av"))])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "views"),
    [
        ("recording.vrs", ("recording", "timeline", "frames?stop=1")),
        ("h264.bzna", ("dataset", "samples", "frames?stop=1")),
        ("gulp_store.blp", ("clips", "clip", "frames?stop=1")),
    ],
)
def test_the_first_answers_import_nothing(name, views):
    """Everything that they need is loaded when the server says that it is ready."""
    targets = ["/", "/api/files", *(f"/api/0/{view}" for view in views)]
    for place in map(SMALL_FORMATS.joinpath, small_vectors(name)):
        program = [sys.executable, "-c", WATCH_IMPORTS, str(place), *targets]
        found = subprocess.run(program, capture_output=True, text=True, check=True, timeout=240)
        assert found.stdout.split() == []


@pytest.mark.parametrize("content", [b"blpk" + bytes(60), b"no file of ours", b""])
def test_a_damaged_file_does_not_keep_the_page_from_starting(tmp_path, content):
    from bloscpack.storage.file import Place
    from bloscpack.view.server import PageServer
    from bloscpack.view.session import Session

    (tmp_path / "a.blp").write_bytes(content)
    server = PageServer(Session([Place(str(tmp_path / "a.blp"))]))
    server.run(server.stop)  # returns: it was ready, and then ended
