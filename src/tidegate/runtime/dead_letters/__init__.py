"""Dead letters: grouped, and sent back."""
