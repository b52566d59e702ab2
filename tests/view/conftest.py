from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def client() -> Iterator[Callable[..., Any]]:
    """Return a function from paths to a client of their page."""
    for package in ("starlette", "uvicorn"):
        pytest.importorskip(package, reason="starlette and uvicorn are not installed (view)")
    from bloscpack.storage.file import Place
    from bloscpack.view.server import create_application
    from bloscpack.view.session import Session

    from .asgiclient import HOST, TOKEN, Client

    sessions = []

    def make(*places: Any, **options: Any) -> Client:
        session = Session([*map(Place.of, map(str, places))], nthreads=1)
        sessions.append(session)
        return Client(create_application(session, token=TOKEN, hosts={HOST}), **options)

    yield make
    for session in sessions:
        session.close()
