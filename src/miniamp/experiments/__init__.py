"""Experiments: one file a figure, each writes its numbers and then the plot."""
