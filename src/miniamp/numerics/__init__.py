"""Numerics that priors, channels and theory share: quadrature, normal tails, sums, tables."""
