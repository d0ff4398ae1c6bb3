"""Numerics that priors, channels and theory share: each technique once."""
