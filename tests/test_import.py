"""Cost and side effects of ``import bloscpack``, measured in a fresh process."""

import ast
import importlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import bloscpack

from .conftest import REPOSITORY
from .test_layers import FILE_TYPES

PROBE = """
import json, os, sys, threading
import numpy
tasks = "/proc/self/task"
before = set(sys.modules), len(os.listdir(tasks)) if os.path.isdir(tasks) else 0
import bloscpack
print(json.dumps({
    "names": sorted(name.split(".")[0] for name in sys.modules),
    "own": sorted(name for name in sys.modules if name.startswith("bloscpack.")),
    "modules": len(set(sys.modules) - before[0]),
    "threads": threading.active_count(),
    "new_tasks": (len(os.listdir(tasks)) if os.path.isdir(tasks) else 0) - before[1],
}))
"""


@pytest.fixture(scope="module")
def probe() -> dict[str, object]:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert run.stderr == ""
    result: dict[str, object] = json.loads(run.stdout)
    return result


@pytest.mark.parametrize(
    "name",
    [
        "aiohttp",
        "argparse",
        "asyncio",
        "av",
        "blosc",
        "dask",
        "fsspec",
        "ml_dtypes",
        "numcodecs",
        "s3fs",
        "simplejpeg",
        "torch",
        "xarray",
        "zarr",
        "zstandard",
    ],
)
def test_optional_packages_are_not_loaded(probe: dict[str, object], name: str) -> None:
    names = probe["names"]
    assert isinstance(names, list)
    assert "bloscpack" in names
    assert name not in names


def test_folders_are_not_loaded(probe: dict[str, object]) -> None:
    own = probe["own"]
    assert isinstance(own, list)
    assert "bloscpack.exceptions" in own
    assert {name.split(".")[1] for name in own} == {"exceptions", "parallel", "version"}


@pytest.mark.parametrize("name", ["frames", *FILE_TYPES])
def test_folders_are_loaded_when_they_are_named(name: str) -> None:
    program = f"import bloscpack; print(bloscpack.{name}.__name__)"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=240
    )
    assert run.stdout.strip() == f"bloscpack.{name}", run.stderr
    with pytest.raises(AttributeError, match="has no attribute 'frame'"):
        bloscpack.frame  # noqa: B018


def test_arrays_are_loaded_when_a_name_is_used(probe: dict[str, object]) -> None:
    own = probe["own"]
    assert isinstance(own, list)
    assert "bloscpack.array.array" not in own
    assert bloscpack.Array is bloscpack.array.array.Array
    assert bloscpack.__dict__["Array"] is bloscpack.Array  # found without __getattr__ from now on


def test_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(bloscpack.__file__).read_text("utf-8"))
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    declared = set(bloscpack.__all__) & {"args", "exceptions", "__version__"}
    declared |= {"BloscArgs", "BloscpackArgs", "MetadataArgs"}
    for node in block.body:
        if isinstance(node, ast.AnnAssign):  # a module that can be called
            declared.add(ast.unparse(node.target))
            continue
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            declared.add(alias.name)
            if alias.name == "as_zarr" and find_spec("zarr") is None:
                continue
            home = f"bloscpack.{node.module}" if node.module else f"bloscpack.{alias.name}"
            found = importlib.import_module(home)
            expected = getattr(found, alias.name) if node.module else found
            assert getattr(bloscpack, alias.name) is expected
    assert set(bloscpack.__all__) <= declared


def test_a_child_forked_during_the_first_use_of_a_name_can_use_it() -> None:
    program = """
import os, sys, threading, time
import bloscpack

class SlowImport:
    def find_spec(self, name, path=None, target=None):
        if name == "bloscpack.array.array":
            started.set()
            time.sleep(0.3)

started = threading.Event()
sys.meta_path.insert(0, SlowImport())
thread = threading.Thread(target=lambda: bloscpack.Array)
thread.start()
started.wait()
child = os.fork()
if not child:
    bloscpack.Array
    os._exit(7)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=REPOSITORY, timeout=240
    )
    assert run.returncode == 7


def test_no_thread_is_started(probe: dict[str, object]) -> None:
    assert probe["threads"] == 1
    assert probe["new_tasks"] == 0


def test_import_time_is_printed(probe: dict[str, object]) -> None:
    # Not asserted, since machines are shared. Shown with -rP.
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import numpy, bloscpack"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    cumulative = {}
    for line in run.stderr.splitlines():
        fields = [field.strip() for field in line.removeprefix("import time:").split("|")]
        if len(fields) == 3 and fields[1].isdecimal():
            cumulative[fields[2]] = int(fields[1])
    own = cumulative["bloscpack"] / 1000
    print(f"import bloscpack: {own:.1f} ms and {probe['modules']} modules beyond numpy")  # noqa: T201


def test_all_names_exist() -> None:
    assert sorted(bloscpack.__all__) == sorted(set(bloscpack.__all__))
    for name in bloscpack.__all__:
        assert hasattr(bloscpack, name)


@pytest.mark.parametrize("name", ["Array", "save", "load", "open", "verify", "Report"])
def test_promised_names_are_public(name: str) -> None:
    assert name in bloscpack.__all__


@pytest.mark.parametrize(
    ("kernel", "messages"),
    [
        ("None", ["bloscpack._ext.blosc", "pip install"]),
        (
            "types.SimpleNamespace(VERSION='2.15.1')",
            ["linked with C-Blosc 2.15.1; expected 1.21.x", "blosc>=1.11.1,<1.12"],
        ),
    ],
    ids=["missing", "of another Blosc"],
)
def test_error_of_the_kernel_explains_what_to_do(kernel: str, messages: list[str]) -> None:
    replace = (
        f"import sys, types\nsys.modules['bloscpack._ext.blosc'] = {kernel}\n"
        "try:\n    import bloscpack\n    bloscpack.save\nexcept ImportError as err:\n    print(err)"
    )
    run = subprocess.run(
        [sys.executable, "-c", replace],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert all(message in run.stdout for message in messages)


@pytest.mark.parametrize(
    "name", ["frames", *("gulp.clipsource" if name == "gulp" else name for name in FILE_TYPES)]
)
def test_what_reading_needs_of_numpy_is_imported_before(name):
    code = f"""
import sys
import bloscpack.{name}
import numpy as np
before = set(sys.modules)
np.unique(np.arange(5)), np.isin(np.arange(5), [1]), np.union1d([1], [2])
sys.exit(str(set(sys.modules) - before) if set(sys.modules) != before else 0)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, "")
