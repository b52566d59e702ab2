"""File types: open, verify and convert a file by what it is."""
