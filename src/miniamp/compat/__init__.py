"""Faces for other libraries."""
