"""Differential models: state as a fold of ordered diffs, and one patch from any version to the newest."""
