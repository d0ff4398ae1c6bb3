"""Estimators with the face of scikit-learn (extra: sklearn)."""

from miniamp.estimators.clusterer import MiniAMPClusterer

__all__ = ["MiniAMPClusterer"]
