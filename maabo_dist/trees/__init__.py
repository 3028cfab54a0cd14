"""Trees grown for blocks of subsets: the training table, the kernels, the depth search, the resulting forest."""
