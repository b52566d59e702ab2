"""Inputs of commands: open a source by name, parse a selection."""
