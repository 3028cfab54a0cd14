"""What `make bench` measures: each figure beside its peer's, from one run on one machine. See README.md."""
