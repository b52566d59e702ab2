"""Reference libraries to compare with, each in a separate process.

A test package defines how to get its library (`Recipe`) and what its snippets see (a subject, see
`tests.snippets`), and makes an `Oracle` of both in a fixture of the session.
"""

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from . import snippets
from .conftest import REPOSITORY

BUILD_TIMEOUT_S = 600
ANSWER_TIMEOUT_S = 120

Command = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Instructions for making an environment that has a library.

    Attributes
    ----------
    library : str
        Its name in messages.
    variable : str
        The environment variable that names an environment which is there.
    python : Path
        The python of the environment that is used, or made, where the variable is not set.
    probe : str
        A statement that works where the library does.
    commands : tuple of commands
        They make the environment.
    cwd : Path, optional
        Where they run.
    given_python : callable
        Makes a path to a python of what the variable says.
    """

    library: str
    variable: str
    python: Path
    probe: str
    commands: tuple[Command, ...]
    cwd: Path | None = None
    given_python: Callable[[str], Path] = Path

    def find_or_make(self, *, install: bool) -> Path:
        """Return the python of a working environment, or skip the test.

        Nothing is installed, nor what was installed before is used, unless `install` asks for it.
        """
        given = os.environ.get(self.variable)
        if given:
            python = self.given_python(given)
            if not self._works(python):
                pytest.fail(f"{self.variable}={given} holds no working {self.library}")
            return python
        if not install:
            self._skip(f"make test-all (--all) installs it, {self.variable} names one")
        # Tests run in several processes: one makes the environment, the others wait.
        with (REPOSITORY / f".{self.variable.lower()}.lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            return self._make(self.python)

    def _make(self, python: Path) -> Path:
        if self._works(python):
            return python
        # One retry: without a network this should end in seconds.
        environment = {
            **os.environ,
            "PYTHON": sys.executable,
            "PIP_RETRIES": "1",
            "PIP_TIMEOUT": "15",
        }
        environment.pop("PYTHONPATH", None)
        for command in self.commands:
            try:
                made = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    check=False,
                    env=environment,
                    cwd=self.cwd,
                    timeout=BUILD_TIMEOUT_S,
                )
            except subprocess.TimeoutExpired:
                self._skip(f"over {BUILD_TIMEOUT_S} s to install it")
            except OSError as err:
                self._skip(str(err))
            if made.returncode:
                self._skip((made.stderr.strip().splitlines() or ["no message"])[-1])
        if not self._works(python):
            self._skip(f"{python} cannot {self.probe!r}")
        return python

    def _works(self, python: Path) -> bool:
        if not python.exists():
            return False
        # Isolated mode, so that the current folder's bloscpack is not imported.
        command = [python, "-I", "-W", "ignore", "-c", self.probe]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _skip(self, why: str) -> None:
        pytest.skip(f"no {self.library} to compare with: {why}")


def pip_commands(folder: Path, *installs: Sequence[str]) -> tuple[Command, ...]:
    """Return the commands that make an environment; `installs` are arguments of pip."""
    python = folder / "bin" / "python"
    pip = [python, "-I", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    pip += ["install", "--no-compile"]
    return ([sys.executable, "-m", "venv", folder], *([*pip, *install] for install in installs))


class SnippetError(Exception):
    """A snippet raised; `kinds` are the names of the classes of its error, most derived first."""

    def __init__(self, kinds: list[str], message: str) -> None:
        super().__init__(f"{kinds[0]}: {message}")
        self.kinds = kinds


class Oracle:
    """Library in a process that lives as long as the session, or until a snippet kills it.

    One that takes over two minutes is ended, too. The next snippet is answered by a new process.
    """

    def __init__(self, recipe: Recipe, subject: Path, *, install: bool) -> None:
        self.library = recipe.library
        self._command = [
            recipe.find_or_make(install=install),
            *("-I", "-W", "ignore"),
            Path(snippets.__file__),
            subject,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self.greeting: Any = None
        message = self._start()
        if message:
            pytest.fail(message)

    def outcome(self, source: str, /, **values: Any) -> tuple[str, Any]:
        """Run a snippet like `tests.snippets.run`; ("died", reason) if it kills the process."""
        if self._process is None:
            message = self._start()
            if message:
                pytest.fail(message)
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            snippets.send(self._process.stdin, (source, values))
            self._await_answer()
            answer: tuple[str, Any] = snippets.receive(self._process.stdout)  # type: ignore[arg-type]
        except (EOFError, BrokenPipeError):
            return "died", self._bury()
        return answer

    def _await_answer(self) -> None:
        """End the process if it has not answered for long: its library hangs."""
        assert self._process is not None
        if not select.select([self._process.stdout], [], [], ANSWER_TIMEOUT_S)[0]:
            self._process.kill()

    def __call__(self, source: str, /, **values: Any) -> Any:
        """Run a snippet and return its result; raise SnippetError, or fail if the process died."""
        kind, result = self.outcome(source, **values)
        if kind == "died":
            pytest.fail(result)
        if kind == "error":
            raise SnippetError(*result)
        return result

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._bury()

    def _start(self) -> str:
        # The output of the process goes to a file, because a full pipe would block it.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        try:
            self.greeting = snippets.receive(self._process.stdout)  # type: ignore[arg-type]
        except EOFError:
            return self._bury()
        return ""

    def _bury(self) -> str:
        process, stderr = self._process, self._stderr
        assert process is not None
        assert stderr is not None
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # died before reading the snippet
                    stream.close()
        code = process.wait()
        stderr.seek(0)
        said = stderr.read().decode(errors="replace")
        stderr.close()
        self._process = self._stderr = None
        return f"{self.library} died (code {code}): {said[-2000:]}"


def oracle_fixture(recipe: Recipe, subject: Path, version: str) -> Any:
    """Return a fixture of the session: a library of this version in a process."""

    @pytest.fixture(scope="session")
    def oracle(pytestconfig: pytest.Config) -> Iterator[Oracle]:
        oracle = Oracle(recipe, subject, install=pytestconfig.getoption("--all"))
        assert oracle.greeting == version
        yield oracle
        oracle.close()

    return oracle
