"""Inputs of commands: a source from a name, a selection from text."""
