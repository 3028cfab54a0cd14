"""The choice of feature subsets to grow trees on: plan, space, acquisition, proposer and schedule."""
