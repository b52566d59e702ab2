"""``python -m bloscpack`` as a process: pipes, signals, full disks, terminals."""

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli import main

from .conftest import REPOSITORY

COMMAND = [sys.executable, "-m", "bloscpack"]
LIMIT = 240


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    settings = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
    return settings | {"PYTHONPATH": str(REPOSITORY)}


def run(
    env: dict[str, str], *argv: str, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *argv], input=stdin, env=env, capture_output=True, timeout=LIMIT, check=False
    )


def shell(env: dict[str, str], script: str) -> subprocess.CompletedProcess[bytes]:
    script = f'blpk() {{ "{sys.executable}" -m bloscpack "$@"; }}\nset -o pipefail\n{script}'
    return subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, timeout=LIMIT, check=False
    )


@pytest.mark.slow
def test_pipes_of_unknown_length(env: dict[str, str]) -> None:
    data = os.urandom(3_000_000)
    for each in (data, b""):
        packed = run(env, "c", "-", stdin=each)
        assert (packed.returncode, packed.stderr) == (0, b"")
        back = run(env, "d", "-", "-", stdin=packed.stdout)
        assert (back.returncode, back.stdout, back.stderr) == (0, each, b"")
    Path("data").write_bytes(data)
    done = shell(env, "cat data | blpk -v c -z 1M - piped.blp && blpk c -z 1M data && cmp *.blp")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"blpk: nchunks: 3\n" in done.stderr
    done = shell(env, "blpk -f c <(cat data) out.blp && blpk d - back < out.blp && cmp data back")
    assert (done.returncode, done.stderr) == (0, b"")
    script = (
        "blpk verify - < out.blp && cat out.blp | blpk ls - && blpk c - - <data | cmp - data.blp"
    )
    done = shell(env, script)
    assert done.returncode == 0, done.stderr


def test_append_from_a_pipe(env: dict[str, str]) -> None:
    Path("data").write_bytes(b"x" * 5000)
    script = "blpk c -z 1K data && blpk a data.blp <(printf tail) && blpk d data.blp - | tail -c 5"
    done = shell(env, script)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"xtail", b"")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "command",
    ["d data.blp -", "c data -", "cat data.blp", "cat --text data.blp :20000", "info data.blp"],
)
def test_a_reader_that_ends_early_is_not_reported_as_an_error(
    env: dict[str, str], command: str
) -> None:
    Path("data").write_bytes(os.urandom(300_000))
    assert run(env, "c", "data").returncode == 0
    # `true` reads nothing; the pipe is closed before or while it is written to.
    done = shell(env, f"blpk {command} | head -c 10 >/dev/null; blpk {command} | true")
    assert done.stderr == b""
    assert done.returncode in (0, 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error(env: dict[str, str]) -> None:
    Path("data").write_bytes(bytes(100_000))
    assert run(env, "c", "data").returncode == 0
    for command in ("d data.blp -", "info data.blp", "c data -", "ls --json data.blp"):
        done = shell(env, f"blpk {command} >/dev/full")
        assert done.returncode == 1, command
        assert done.stderr.startswith(b"blpk: error: "), command
        assert done.stderr.count(b"\n") == 1, done.stderr
        assert b"No space left" in done.stderr


def test_closed_streams(env: dict[str, str]) -> None:
    Path("data").write_bytes(bytes(1000))
    assert shell(env, "blpk c data >&- 2>&- <&-").returncode == 0
    assert shell(env, "blpk info data.blp >&-").returncode == 1
    assert shell(env, "blpk d data.blp - >&-").returncode == 1
    assert shell(env, "blpk c - <&-").returncode == 1
    assert shell(env, "blpk info nope 2>&-").returncode == 1


def test_exit_codes(env: dict[str, str]) -> None:
    Path("data").write_bytes(bytes(range(256)) * 10)
    assert run(env, "c", "data").returncode == 0
    assert run(env, "c", "data").returncode == 1
    assert run(env).returncode == 2
    assert run(env, "verify", "data").returncode == 4
    raw = Path("data.blp").read_bytes()
    Path("data.blp").write_bytes(raw[:-1])
    assert run(env, "verify", "data.blp").returncode == 3


def test_an_interrupt_leaves_nothing_behind(env: dict[str, str]) -> None:
    with subprocess.Popen(
        [*COMMAND, "-v", "c", "-z", "64K", "-", "out.blp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        # When it has read more than the pipe holds, it has started to work.
        process.stdin.write(bytes(1 << 20))
        process.stdin.flush()
        assert list(Path().glob(".*.tmp"))
        # A signal that arrives just before a blocking read starts is only seen when that read
        # ends: repeat it, as a user would.
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LIMIT / 3)
                break
        assert process.returncode == 130
        process.stdin.close()
        assert process.stderr.read().splitlines()[-1] == b"blpk: interrupted"
    assert list(Path().iterdir()) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("command", ["compress", "convert"])
def test_other_signals_clean_up_too(
    env: dict[str, str], number: signal.Signals, code: int, command: str
) -> None:
    """The command has begun its output, and waits in the middle of reading or writing."""
    os.mkfifo("pipe")
    bp.save("array.blp", np.random.default_rng(1).random(90_000))
    argv = ["c", "pipe", "out.blp"] if command == "compress" else ["convert", "array.blp", "pipe"]
    with subprocess.Popen(
        [*COMMAND, *argv], stderr=subprocess.PIPE, env={**env, "TMPDIR": str(Path.cwd())}
    ) as process:
        with open("pipe", "wb" if command == "compress" else "rb", buffering=0) as pipe:
            if command == "compress":
                pipe.write(bytes(1 << 20))
                while not list(Path().glob(".*.tmp")):
                    pipe.write(bytes(1 << 10))
            else:
                assert pipe.read(1000)  # more remains than the pipe holds
            for _ in range(3):  # see above
                process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(LIMIT / 3)
                    break
            assert process.returncode == code
        assert process.stderr is not None
        assert process.stderr.read() == f"blpk: ended by {number.name}\n".encode()
    assert sorted(os.listdir()) == ["array.blp", "pipe"]


def test_signals_of_the_calling_program_are_left_alone() -> None:
    """`nohup` ignores SIGHUP; a program that calls `main` may handle SIGTERM."""
    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with main._ending_on_signals():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # while it cleans up
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_help_that_cannot_be_written(env: dict[str, str]) -> None:
    done = shell(env, "blpk convert --help > /dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith(b"blpk: error: standard output: No space")


def test_nothing_is_drawn_without_a_terminal_and_a_bar_with_one(env: dict[str, str]) -> None:
    code = (
        "import sys; from bloscpack.parallel import progressbar\n"
        "from bloscpack.cli.main import main\n"
        "progressbar._DELAY = 0\nsys.exit(main(sys.argv[1:]))"
    )
    Path("data").write_bytes(bytes(3 << 20))
    command = [sys.executable, "-c", code]
    argv = ["-f", "c", "data"]
    env = env | {"TERM": "xterm", "NO_COLOR": "1"}
    done = subprocess.run([*command, *argv], env=env, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    for options, drawn in (([], True), (["-q"], False), (["--no-progress"], False)):
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*command, *options, *argv], env=env, stdout=subprocess.PIPE, stderr=theirs
        ) as process:
            os.close(theirs)
            seen = b""
            while block := _read(ours):
                seen += block
            assert process.wait(LIMIT) == 0
        os.close(ours)
        assert (b"MB/s" in seen) is drawn
        assert b"\x1b" not in seen


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the other end of a pseudo-terminal has gone
        return b""


def test_output_that_a_locale_cannot_encode(env: dict[str, str]) -> None:
    Path("m.json").write_text('{"a": "\\u00e9"}')
    Path("data").write_bytes(b"data")
    done = run(env | {"PYTHONIOENCODING": "ascii"}, "c", "-m", "m.json", "data")
    assert done.returncode == 0
    done = run(env | {"PYTHONIOENCODING": "ascii"}, "info", "data.blp")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"{'a': '\\xe9'}" in done.stdout
