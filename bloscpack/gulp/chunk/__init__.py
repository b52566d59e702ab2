"""One chunk of a Gulp directory: a file of JPEG records and its index."""
