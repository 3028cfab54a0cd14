"""Screens: the features, and the pairs and triples of features, to try first."""
