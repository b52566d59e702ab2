"""Every operation stopped at every step, by an error or by death: the old state or the new one."""

from pathlib import Path

import pytest

from .disk import Crash, StoppingDisk, installed, without_syncs
from .operations import OPERATIONS, Operation, check, contents_of

pytestmark = pytest.mark.usefixtures("soon_on_disk")

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=str)


def leftovers(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name not in ("a.blp", "new")]


@each_operation
def test_it_works(operation: Operation, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    operation.prepare(path)
    operation.run(path)
    assert not leftovers(tmp_path)
    assert check(path, operation.allowed, operation.repairs) == operation.allowed[-1]


@pytest.mark.sampled(13)
@each_operation
@pytest.mark.parametrize("kind", ["error", "crash", pytest.param("torn", marks=pytest.mark.slow)])
def test_stopped_at_every_step(operation: Operation, kind: str, tmp_path: Path) -> None:
    seen, checked = set(), set()
    for step in range(1000):
        folder = tmp_path / str(step)
        folder.mkdir()
        path = folder / "a.blp"
        with without_syncs():
            operation.prepare(path)
        stopping = StoppingDisk(step, kind)
        with installed(stopping):
            try:
                operation.run(path)
            except (OSError, Crash):
                pass
            else:
                if step >= stopping.count:
                    break
        if kind == "error" and stopping.names[step] not in ("unlink", "sync_folder"):
            assert not [name for name in leftovers(folder) if name.endswith(".tmp")]
        content = contents_of(folder)
        if content not in checked:
            checked.add(content)
            seen.add(check(path, operation.allowed, operation.repairs))
    # Stopped early it is the old state; after an error at the very end it is the new one.
    assert operation.allowed[0] in seen
    assert step > 2
