"""`python -m benchmarks.upgrade [--parts plan,preview,kafka,beside,switch,reset] [--keys N]`: upgrades.

plan      the plan of an app with 200 steps in a project of 35,000 lines: below 1 s
preview   one million records and 100,000 rows: the rate beside that of the live app
kafka     the same on Kafka, with two million records; needs a JDK and Maven
beside    the latency of the live app while a preview of it runs
switch    the pause of an app with one million keys, step by step; transactions, memory, what is left
reset     the same beside Kafka Streams, whose output is reset and written again; needs a JDK and Maven

`--keys` is for the last two.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks import upgrade_beside, upgrade_plan, upgrade_preview, upgrade_reset, upgrade_switch
from benchmarks.report import Report, run

PARTS: Mapping[str, Callable[[Report, bool], None]] = {
    "plan": upgrade_plan.measure,
    "preview": upgrade_preview.measure,
    "kafka": upgrade_preview.measure_on_kafka,
    "beside": upgrade_beside.measure,
}
OF_MANY_KEYS: Mapping[str, Callable[[Report, bool, int | None], None]] = {
    "switch": upgrade_switch.measure,
    "reset": upgrade_reset.measure,
}


def main(arguments: Sequence[str]) -> None:
    """Measure the parts that are named, by default all."""
    parser = argparse.ArgumentParser(add_help=False)
    known = [*PARTS, *OF_MANY_KEYS]
    parser.add_argument("--parts", default=",".join(known))
    parser.add_argument("--keys", type=int)
    options, rest = parser.parse_known_args(arguments)
    chosen = [part for part in options.parts.split(",") if part]
    unknown = [part for part in chosen if part not in known]
    if unknown:
        sys.exit(f"there is no part {unknown[0]!r}: use {', '.join(known)}")

    def measure(report: Report, quick: bool) -> None:
        for part in chosen:
            if part in PARTS:
                PARTS[part](report, quick)
            else:
                OF_MANY_KEYS[part](report, quick, options.keys)

    run("upgrade", measure, rest)


if __name__ == "__main__":
    main(sys.argv[1:])
