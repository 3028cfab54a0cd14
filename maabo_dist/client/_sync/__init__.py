"""The blocking client, generated from `maabo_dist.client._async`."""
