from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette and uvicorn are not installed (view)")
pytest.importorskip("uvicorn", reason="starlette and uvicorn are not installed (view)")

from bloscpack.view.server import create_application
from bloscpack.view.session import Session

from .asgiclient import HOST, TOKEN, Client


@pytest.fixture
def client() -> Iterator[Callable[..., Client]]:
    """Return a function from paths to a client of their page."""
    sessions = []

    def make(*places: Any, **options: Any) -> Client:
        session = Session([str(place) for place in places], nthreads=1)
        sessions.append(session)
        return Client(create_application(session, token=TOKEN, hosts={HOST}), **options)

    yield make
    for session in sessions:
        session.close()
