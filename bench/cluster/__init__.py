"""What the cluster costs, on real parts: Redis, schedulers and workers as processes of this machine."""
