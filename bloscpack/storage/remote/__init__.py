"""Storage behind URLs: S3, HTTP and all other file systems of fsspec."""
