"""The jobs that a scheduler holds: the loop, the state machines and what handles their answers."""
