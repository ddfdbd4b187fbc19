"""Driving an app: taking it over, starting its slots, planning, stopping and resetting it."""
