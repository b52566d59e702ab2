"""Fixtures of several tests of faults."""

import pytest

from bloscpack.container import inplaceappend


@pytest.fixture
def soon_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write new files to disk after 600 bytes and reserve few entries, so that small files do."""
    monkeypatch.setattr(inplaceappend, "_HELD_NBYTES", 600)
    monkeypatch.setattr(inplaceappend, "RESERVED_ENTRIES", 2)
    monkeypatch.setattr(inplaceappend, "_TABLE_GROWTH", 1)
