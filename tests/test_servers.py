"""The servers that tests use."""

import socket
from http.client import HTTPResponse

import pytest

from .servers import FileServer, running


@pytest.mark.parametrize("is_accepted", [True, False])
def test_requests_that_were_sent_before_a_clear_are_not_in_the_new_log(is_accepted: bool) -> None:
    """Neither do they take its faults."""

    def status() -> int:
        response = HTTPResponse(early)
        response.begin()
        response.read()
        return response.status

    with running(FileServer()) as server, socket.socket() as early:
        server.files["/a"] = b"content"
        early.connect(server._server.server_address)
        if is_accepted:
            early.sendall(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            assert status() == 200
        early.sendall(b"GET /a HTTP/1.1\r\nHost: a\r\n")
        server.clear()
        server.faults.append("500")
        early.sendall(b"\r\n")
        assert status() == 200
        assert server.log == []
        early.sendall(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
        assert status() == 500
        assert len(server.log) == 1
