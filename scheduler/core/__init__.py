"""The scheduler itself: its loop, the state machines of jobs, and the handlers of answers."""
