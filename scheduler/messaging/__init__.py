"""Messages: decoding and validating incoming ones, publishing tasks, status and webhooks."""
