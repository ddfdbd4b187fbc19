"""Run stream tasks: slots, their driver, commits and outputs."""
