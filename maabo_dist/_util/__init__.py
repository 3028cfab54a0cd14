"""General helpers: files, arrays on disk, random draws, text."""
