"""Fuzz targets: bytes in, and either rows or one of the package's own errors out."""
