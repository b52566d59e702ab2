"""File types: open, verify and convert any file by its type."""
