"""The original bloscpack 0.16 as a contender in a process of its own.

It lives in an environment of its own, whose folder ``BLOSCPACK_ORACLE`` names. By default that is
``.oracle`` in the project, which ``make_bloscpack_oracle.sh`` of the shared tools builds, if that
script and a network are there.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from race.timing import NTHREADS, Loop

ROOT = Path(__file__).resolve().parents[2]
_BUILDER = ROOT.parent / "shared" / "tools" / "make_bloscpack_oracle.sh"
_BUILD_TIMEOUT = 600  # seconds; it installs five packages


class NoOriginalError(Exception):
    """The original is not available; the message says why."""


class Original:
    """A running process of the original.

    Raises
    ------
    NoOriginalError
        It cannot be found, built or started.
    """

    def __init__(self) -> None:
        worker = Path(__file__).with_name("original_worker.py")
        self._process = subprocess.Popen(
            [find_python(), "-I", "-W", "ignore", worker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.versions = self.ask("versions", nthreads=NTHREADS)
        except NoOriginalError:
            self.close()
            raise

    def ask(self, op: str, **request: Any) -> dict[str, Any]:
        """Return the answer to a request; see original_worker.py.

        Raises
        ------
        NoOriginalError
            The process has ended.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps({"op": op, **request}, default=str) + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise NoOriginalError("the process of bloscpack 0.16 has ended") from None
        line = stdout.readline()
        if not line:
            raise NoOriginalError(f"the process of bloscpack 0.16 ended at {op!r}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def loop(self, op: str, sha256: str, **request: Any) -> Loop:
        """Return the loop of `op` in the process, after checking its result.

        Only the loop made last can be run.
        """
        found = self.ask(op, **request)["sha256"]
        assert found == sha256, f"bloscpack 0.16: {op} gave other bytes"
        return lambda count: float(self.ask("time", count=count)["seconds"])

    def close(self) -> None:
        """End the process."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()


def find_python() -> Path:
    """Return the interpreter of the original's environment, which is built if it is missing.

    Raises
    ------
    NoOriginalError
        It is not there and cannot be built.
    """
    given = os.environ.get("BLOSCPACK_ORACLE")
    folder = Path(given or ROOT / ".oracle")
    python = folder / "venv" / "bin" / "python"
    if python.exists():
        return python
    if given or not _BUILDER.exists():
        raise NoOriginalError(f"no bloscpack 0.16 in {folder}")
    try:
        subprocess.run(
            ["bash", _BUILDER, folder], check=True, capture_output=True, timeout=_BUILD_TIMEOUT
        )
    except (subprocess.SubprocessError, OSError) as err:
        raise NoOriginalError(f"bloscpack 0.16 could not be built in {folder}: {err}") from err
    return python
