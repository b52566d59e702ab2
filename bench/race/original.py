"""The original bloscpack 0.16 as a contender in a process of its own.

It lives in an environment of its own, whose folder ``BLOSCPACK_ORACLE`` names. By default that is
``.oracle`` in the project, which ``make_bloscpack_oracle.sh`` of the shared tools builds, if that
script and a network are there.
"""

import os
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

from race.timing import NTHREADS, ORIGINAL, Loop
from race.worker import Process, WorkerError

ROOT = Path(__file__).resolve().parents[2]
_BUILDER = ROOT.parent / "shared" / "tools" / "make_bloscpack_oracle.sh"
_BUILD_TIMEOUT = 600  # seconds; it installs five packages


class Original(Process):
    """A running process of the original; see original_worker.py.

    Raises
    ------
    WorkerError
        It cannot be found, built or started.
    """

    def __init__(self) -> None:
        worker = Path(__file__).with_name("original_worker.py")
        super().__init__(ORIGINAL, find_python(), "-I", "-W", "ignore", worker)
        try:
            self.versions: dict[str, str] = self.ask(op="versions", nthreads=NTHREADS)
        except WorkerError:
            self.close()
            raise

    def loop(self, op: str, wanted: Any, **request: Any) -> Loop:
        """Return the loop of `op` in the process, whose result must have the bytes of `wanted`.

        Only the loop made last can be run.
        """
        found = self.ask(op=op, **request)["sha256"]
        assert found == sha256(wanted).hexdigest(), f"{ORIGINAL}: {op} gave other bytes"
        return lambda count: float(self.ask(op="time", count=count)["seconds"])


def find_python() -> Path:
    """Return the interpreter of the original's environment, which is built if it is missing.

    Raises
    ------
    WorkerError
        It is not there and cannot be built.
    """
    given = os.environ.get("BLOSCPACK_ORACLE")
    folder = Path(given or ROOT / ".oracle")
    python = folder / "venv" / "bin" / "python"
    if python.exists():
        return python
    if given or not _BUILDER.exists():
        raise WorkerError(f"no bloscpack 0.16 in {folder}")
    try:
        subprocess.run(
            ["bash", _BUILDER, folder], check=True, capture_output=True, timeout=_BUILD_TIMEOUT
        )
    except (subprocess.SubprocessError, OSError) as err:
        raise WorkerError(f"bloscpack 0.16 could not be built in {folder}: {err}") from err
    return python
