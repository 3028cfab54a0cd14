"""Ways to run a cluster: on one machine, from an image, with systemd and on Kubernetes."""
