"""Where bytes live: positional reads from, and whole-or-absent writes to, files and memory."""
