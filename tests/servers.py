"""Servers of bench/, under the name that tests use."""

import pytest

from bench import servers
from bench.servers import SIGNED, Answer, FileServer, Request, Server, cut_range, running

__all__ = [
    "SIGNED",
    "Answer",
    "FileServer",
    "Request",
    "S3Server",
    "Server",
    "cut_range",
    "running",
]


class S3Server(servers.S3Server):
    """S3 server (moto); skips the test if moto or the S3 client is not installed."""

    def __init__(self) -> None:
        pytest.importorskip("moto", reason="the package moto is not installed")
        pytest.importorskip("s3fs", reason="the package s3fs is not installed")
        super().__init__()
