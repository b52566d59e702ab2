"""Storage of bytes: positional reads, and writes that appear whole or not at all."""
