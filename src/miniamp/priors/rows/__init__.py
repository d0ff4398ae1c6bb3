"""Priors of rows: what is known of an R-vector (a row of a factor) before any data."""
