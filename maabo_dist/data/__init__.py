"""From files, DataFrames and arrays to `Columns`, the prepared table that the search works on."""
