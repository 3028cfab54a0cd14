"""The client for event loops, from which `maabo_dist.client._sync` is generated (`make client`)."""
