"""Snapshots of what users rely on: names, commands, JSON, exit codes, reads and imports.

``python -m tests.frozen`` records all of them again; ``python -m tests.frozen transcripts.txt``
records one. Do so only to change on purpose what users see: the diff shows the change.

- ``interface.json``: public names, signatures, attributes and the bases of exceptions.
- ``options.json``: every command with its arguments, choices and defaults.
- ``commands.json``: what scripts read from commands: exit codes, JSON, and text that scripts of
  bloscpack 0.16 parse.
- ``schemas.json``: the keys and types in the JSON that each command prints.
- ``transcripts.txt``: help and messages, which may be reworded.
- ``reads.json``: system calls and requests that reading makes.
- ``loading.json``: modules loaded and functions called, as upper bounds.
"""
