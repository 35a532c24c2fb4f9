"""What votes: the actor WITNESS, registers of PLCs, and how voters come to vote."""
