"""Rows of the tables: the command `blpk view`."""

from ..plugin import Command

COMMANDS = (Command("view", "show files as a page in the browser", "view.cli"),)
