"""The `tidegate` command: one file per verb or group."""
