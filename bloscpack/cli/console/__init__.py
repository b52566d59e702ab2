"""The terminal side of a command: options, output, progress and exit codes."""
