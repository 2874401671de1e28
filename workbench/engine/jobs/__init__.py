"""What an engine process does: the command loop, its jobs, and the processes beside them."""
