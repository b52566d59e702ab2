"""The power fails at every step: any subset of unsynced changes leaves a valid state."""

from pathlib import Path

import pytest

from bloscpack.storage import disk
from tests.conftest import Some

from .disk import REAL_IDENTITY, installed, without_syncs
from .operations import OPERATIONS, Operation, check
from .power import File, Identity, Recorder, after_cut, all_cuts, sectors_of

pytestmark = pytest.mark.usefixtures("soon_on_disk")

SEEDS = 25


def laid_out(folder: Path, files: dict[str, File], monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the files, each with its inode number from before the power failed."""
    identities: dict[Identity, Identity] = {}
    for name, file in files.items():
        path = folder / name
        path.write_bytes(file.durable)
        status = path.stat()
        identities[status.st_ino, status.st_dev] = file.identity

    def identity(fd: int) -> Identity:
        found = REAL_IDENTITY(fd)
        return identities.get(found, found)

    monkeypatch.setattr(disk, "identity", identity)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_at_every_step(
    operation: Operation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, some: Some
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with without_syncs():
        operation.prepare(work / "a.blp")
    recorder = Recorder(work)
    with installed(recorder):
        operation.run(work / "a.blp")
    sectors = sectors_of(work / "a.blp")
    for count, seed, files in all_cuts(recorder, some(range(SEEDS), 8), sectors):
        folder = tmp_path / f"{count}-{seed}"
        folder.mkdir()
        laid_out(folder, files, monkeypatch)
        check(folder / "a.blp", operation.allowed, operation.repairs)
    # After close, no unsynced change is needed.
    files = after_cut(recorder, len(recorder.events), 0)
    folder = tmp_path / "closed"
    folder.mkdir()
    laid_out(folder, files, monkeypatch)
    assert check(folder / "a.blp", operation.allowed, operation.repairs) == operation.allowed[-1]
