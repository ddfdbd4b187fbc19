"""`python -m tests.simulator SEED` runs a seed and prints what happened; `--count` runs more."""

from __future__ import annotations

import argparse
import sys

from tests.simulator import STEPS, Violation, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--steps", type=int, default=STEPS, help="actions in a run")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.count):
        try:
            trace = simulate(seed, options.steps)
        except Violation as violation:
            sys.stdout.write(f"{violation}\n")
            return 1
        if options.count == 1:
            sys.stdout.write(f"{trace}\n")
    sys.stdout.write(f"{options.count} seeds from {options.seed} on: all invariants held\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
