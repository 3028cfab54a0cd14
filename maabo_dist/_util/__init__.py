"""Helpers without a place on the data path: files, arrays on disk, random draws, text."""
