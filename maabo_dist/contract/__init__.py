"""What processes say to each other: names, the job document, messages."""
