"""The seam between the core and its guests."""

import ast
import py_compile
from pathlib import Path

import pytest

from bloscpack import plugin
from bloscpack.filetypes import table
from bloscpack.filetypes.table import GUESTS

PACKAGE = Path(plugin.__file__).parent


def imported(path: Path) -> dict[str, str]:
    """Return the names that a module imports from modules of ours, with their homes."""
    return {
        alias.name: node.module or ""
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }


def test_names_of_the_type_checker_are_those_of_the_program() -> None:
    modules = {name: home.rpartition(".")[0] for name, home in plugin._MODULES.items()}
    assert {**plugin._HOME_OF, **modules} == imported(Path(plugin.__file__))
    for name in (*plugin._HOME_OF, *modules):
        getattr(plugin, name)


def test_a_name_that_is_missing_is_an_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from bloscpack.plugin import nothing  # noqa: F401


@pytest.mark.skipif(
    not all((PACKAGE / guest).is_dir() for guest in GUESTS), reason="a guest was deleted"
)
def test_every_name_is_used_by_a_guest() -> None:
    used = {
        name
        for guest in GUESTS
        for path in (PACKAGE / guest).rglob("*.py")
        for name, home in imported(path).items()
        if home == "plugin"
    }
    assert used == imported(Path(plugin.__file__)).keys()


def test_rows_of_a_guest_are_found_without_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in an installation of bytecode alone.
    (tmp_path / "view").mkdir()
    (tmp_path / "rows.py").write_text("COMMANDS = (5,)")
    py_compile.compile(str(tmp_path / "rows.py"), cfile=str(tmp_path / "view" / "rows.pyc"))
    monkeypatch.setattr(table, "__file__", str(tmp_path / "filetypes" / "table.py"))
    assert table._load("view").COMMANDS == (5,)
    assert table._load("gulp") is None
