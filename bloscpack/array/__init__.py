"""Arrays in a file: open, index, save, append, and many files as one array."""
