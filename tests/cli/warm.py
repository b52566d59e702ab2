"""Fork server for commands: many runs of ``blpk`` and ``python -c`` import the package once.

Starting Python and importing take most of the time of a small command. The server imports first,
and forks for each command. The child gets the folder, the environment and the three standard
streams of the client, builds the streams of Python on them, and ends as the interpreter does.
Behaviour that depends on a new process (imports, signals, terminals) must be tested with one.

``python warm.py serve SOCKET`` is the server, until its standard input ends. It prints a line when
it is ready. ``python -I -S warm.py run SOCKET blpk ARGUMENT...`` is a client, whose exit code is
that of the command.
"""

import array
import contextlib
import io
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run a server whose socket is in `folder`; yield the command of its clients, for a shell."""
    place = folder / "warm"
    with subprocess.Popen(
        [sys.executable, __file__, "serve", place],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        try:
            yield f'"{sys.executable}" -I -S "{__file__}" run "{place}"'
        finally:
            server.stdin.close()
            assert server.wait(240) == 0


def run(place: str, argv: list[str]) -> int:
    """Ask the server for a command, and return its exit code."""
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    words = [os.getcwd(), str(len(argv)), *argv, *environment]
    data = b"\0".join(map(os.fsencode, words))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(place)
        streams = array.array("i", [0, 1, 2])
        length = len(data).to_bytes(4, "little")
        connection.sendmsg([length], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        connection.sendall(data)
        code = connection.recv(1)
    if not code:
        raise SystemExit("the command was killed")
    return code[0]


def serve(place: str) -> None:
    """Fork for each client until standard input ends."""
    import importlib
    import selectors
    import signal

    import numpy as np

    from bloscpack.cli.commands import COMMANDS, Group

    assert np
    for command in COMMANDS:
        for each in command.commands if isinstance(command, Group) else (command,):
            importlib.import_module(f"bloscpack.{each.module}")
    for optional in ("PIL.Image", "simplejpeg", "av"):
        with contextlib.suppress(ImportError):
            importlib.import_module(optional)
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(place)
        listener.listen(64)
        selector.register(listener, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children leave no zombies
        os.write(1, b"ready\n")
        while not any(key.fd == 0 for key, _ in selector.select()):
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    """Run the command of a client in this process, send the exit code, and end."""
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
    data = connection.recv(int.from_bytes(length, "little"), socket.MSG_WAITALL)
    folder, count, *words = map(os.fsdecode, data.split(b"\0"))
    argv, environment = words[: int(count)], words[int(count) :]
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(one.split("=", 1) for one in environment)
    sys.stdin = _stream(0, "r", "surrogateescape")
    sys.stdout = _stream(1, "w", "surrogateescape")
    sys.stderr = _stream(2, "w", "backslashreplace")
    code = _status_of(argv)
    connection.send(bytes([code]))
    os._exit(0)


def _stream(descriptor: int, mode: str, errors: str) -> io.TextIOWrapper:
    """Return a standard stream as the interpreter makes it in a UTF-8 locale."""
    unbuffered = mode == "w" and bool(os.environ.get("PYTHONUNBUFFERED"))
    binary = os.fdopen(descriptor, f"{mode}b", 0 if unbuffered else -1, closefd=False)
    by_line = not unbuffered and (descriptor == 2 or binary.isatty())
    return io.TextIOWrapper(
        binary, "utf-8", errors, "\n", line_buffering=by_line, write_through=unbuffered
    )


def _status_of(argv: list[str]) -> int:
    """Run a command, flush its output, and return its exit code."""
    import atexit
    import traceback

    sys.argv, code = argv, 0
    try:
        try:
            if argv[0] == "blpk":
                from bloscpack.cli.main import main

                sys.exit(main())
            sys.argv, source = ["-c", *argv[3:]], argv[2]
            exec(source, {"__name__": "__main__"})
        except SystemExit as err:
            code = err.code if isinstance(err.code, int) else int(err.code is not None)
            if isinstance(err.code, str):
                sys.stderr.write(f"{err.code}\n")
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(run(sys.argv[2], sys.argv[3:]))
