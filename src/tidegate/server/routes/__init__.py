"""One file per noun of the API."""
