"""What several tests of datasets need."""

from typing import Any

import pytest

from bloscpack.storage.file import FileSource


class Counted:
    """Reads of the datasets that are opened, as (offset, nbytes)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[tuple[int, int]] = []
        monkeypatch.setattr(FileSource, "read_at", self._counting(FileSource.read_at))
        monkeypatch.setattr(FileSource, "read_into", self._counting(FileSource.read_into))

    def _counting(self, read: Any) -> Any:
        def counted(source: FileSource, offset: int, wanted: Any) -> Any:
            nbytes = wanted if isinstance(wanted, int) else len(wanted)
            self.reads.append((offset, nbytes))
            return read(source, offset, wanted)

        return counted

    def take(self) -> list[tuple[int, int]]:
        """Return the reads since the last time."""
        taken, self.reads = self.reads, []
        return taken


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)
