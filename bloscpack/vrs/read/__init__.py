"""Reading the records of a recording."""
