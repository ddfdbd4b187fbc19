"""Testing tools that are part of the product."""
