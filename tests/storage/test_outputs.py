"""Every writer on devices, pipes, links, private files, full disks and others, as two users."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OTHER = 65534
PROGRAM = Path(__file__).with_name("outputs.py")


@pytest.mark.parametrize("user", [0, OTHER], ids=["root", "other"])
@pytest.mark.parametrize("writers", ["core", pytest.param("all", marks=pytest.mark.slow)])
def test_no_writer_replaces_what_is_not_its_own(user: int, writers: str) -> None:
    """The program says what is wrong."""
    if os.geteuid() and user != OTHER:
        pytest.skip("needs root")
    number = user if os.geteuid() == 0 else os.getuid()
    done = subprocess.run(
        [sys.executable, PROGRAM, str(number), writers], capture_output=True, text=True, check=False
    )
    found: dict[str, Any] = {}
    try:
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["problems"] == {}
    finally:
        if found:
            subprocess.run(["umount", f"{found['work']}/small"], check=False, capture_output=True)
            shutil.rmtree(found["work"], ignore_errors=True)
