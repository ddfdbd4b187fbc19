"""The steps of a topology, record by record."""
