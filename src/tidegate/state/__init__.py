"""State: stores whose every change goes to a changelog, and what is needed to trust them."""
