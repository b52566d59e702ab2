"""Commands that bloscpack 0.16 has for files of any content."""
