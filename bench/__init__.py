"""The benchmarks of `make bench`: our figures and those of a peer from the same run. See README.md."""
