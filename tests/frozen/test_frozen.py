"""Names, commands, JSON, exit codes, reads and imports are as they were recorded.

A test that fails shows a change that users notice. If it is wanted, record the snapshot again
(``python -m tests.frozen NAME``) and commit the difference.
"""

from typing import Any

import pytest

from . import commands, interface, loading, reads
from .snapshots import PYTHON, dumped, recorded

INTERFACE = recorded("interface.json")


def test_every_public_module_is_recorded() -> None:
    assert list(INTERFACE) == list(interface.MODULES)


@pytest.mark.parametrize("module", interface.MODULES)
def test_public_names_keep_their_signatures_and_attributes(module: str) -> None:
    library = interface.MODULES[module]
    if not interface.has(library):
        pytest.skip(f"{library} is not installed")
    names = [name for name in INTERFACE[module] if interface.is_available(module, name)]
    found = {name: interface.describe(module, name) for name in names}
    assert found == {name: INTERFACE[module][name] for name in names}


@pytest.mark.parametrize("module", interface.MODULES)
def test_no_public_name_is_added_unrecorded(module: str) -> None:
    library = interface.MODULES[module]
    if not interface.has(library):
        pytest.skip(f"{library} is not installed")
    assert {*interface.public_names(module)} - {"__version__"} <= {*INTERFACE[module]}


def as_json(value: Any) -> str:
    """Return a text to compare, whose differences pytest shows line by line."""
    return dumped(value)


def test_options_of_commands_keep_their_names_choices_and_defaults() -> None:
    assert as_json(commands.options()) == as_json(recorded("options.json"))


@pytest.mark.parametrize("key", [case.key for case in commands.cases()])
def test_exit_codes_json_and_data_of_a_command_are_as_before(key: str) -> None:
    assert as_json(commands.commands()[key]) == as_json(recorded("commands.json")[key])


def test_every_recorded_command_is_still_run() -> None:
    assert {case.key for case in commands.cases()} == {*recorded("commands.json")}


def test_json_has_the_same_keys_and_types() -> None:
    assert as_json(commands.schemas()) == as_json(recorded("schemas.json"))


def test_help_and_messages_read_as_recorded() -> None:
    before = recorded("transcripts.txt")
    if not before.startswith(f"{PYTHON}\n"):
        pytest.skip(f"{before.partition(chr(10))[0]}: others word usage errors differently")
    assert commands.transcripts().splitlines() == before.splitlines()[2:]


def test_local_files_are_read_by_as_many_calls() -> None:
    assert as_json(reads.local()) == as_json(recorded("reads.json")["local"])


def test_files_behind_urls_are_read_by_as_many_requests() -> None:
    if not reads.has_http():
        pytest.skip("the packages aiohttp and fsspec are not installed")
    assert as_json(reads.remote()) == as_json(recorded("reads.json")["http"])


def test_no_more_modules_are_loaded_and_no_more_functions_called() -> None:
    most = recorded("loading.json")
    more = {
        (task, name): f"{count}, at most {most[task][name]}"
        for task, counts in loading.counts().items()
        for name, count in counts.items()
        if count > most[task][name]
    }
    assert more == {}
