"""Configuration: `tidegate.toml`, `TIDEGATE_*` and the sections that client libraries take."""
