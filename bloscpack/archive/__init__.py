"""Archive: several named arrays in one file."""
