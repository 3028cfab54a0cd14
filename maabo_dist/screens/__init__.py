"""Screens: the features, and the pairs of features, to try first."""
