"""Rules on new tables: which of them match each row (`apply`), and whether they still hold (`check`).

judging    pure: from counts to intervals, tests and a status
labels     the classes of new rows
applying   pure: from rows to matches, the deciding rule and the predicted class
output     Parquet and CSV in parts
use        what `maabo apply`, `maabo check`, the HTTP API and Python programs call
"""
