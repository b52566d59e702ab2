"""Pictures and HTML of arrays and clips, for notebooks and terminals."""
