"""`python -m tidegate`."""

from tidegate.cli.main import main

main()
