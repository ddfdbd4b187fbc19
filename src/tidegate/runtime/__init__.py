"""Running stream tasks: commit, merge, slots."""
