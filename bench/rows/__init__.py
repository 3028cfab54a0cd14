"""Tables of many rows: time and memory of `maabo mine DIR`, and of counting rules on all rows."""
