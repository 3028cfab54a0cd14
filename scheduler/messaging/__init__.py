"""What goes out to workers and other services, and what comes in from them."""
