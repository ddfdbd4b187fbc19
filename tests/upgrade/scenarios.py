"""The eight reasons for an upgrade, each as two versions of an app with a repartition inside."""

from __future__ import annotations

from collections.abc import Callable

from tests.upgrade.versions import IN, MORE, OUT

from tidegate import App, Context, Record, Settings, TableTopic, stores

TOTALS, SEEN = stores.key_value("totals", int), stores.key_value("seen", int)
LABELS = TableTopic("out", str)
"""The topic of `OUT`, with another schema."""


class Limits(Settings):
    most: int


class Sum:
    """Adds up all values of a key."""

    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        total = (ctx.store(TOTALS).get(record.key) or 0) + record.value
        ctx.store(TOTALS).put(record.key, total)
        ctx.forward(record.with_value(total))


class SumOnce(Sum):
    """Adds up the different remainders of a key."""

    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
        key = f"{record.key}/{record.value % 4}"
        if ctx.store(SEEN).get(key) is None:
            ctx.store(SEEN).put(key, 1)
            super().process(record.with_value(record.value % 4), ctx)


def digit(value: int) -> str:
    return f"d{value % 6}"


def source(*, more: bool) -> App:
    app = App("shop")
    events = app.stream(IN)
    (events.merge(app.stream(MORE)) if more else events).group_by("by-digit", digit).count("counts").to(OUT)
    return app


def key(*, parity: bool) -> App:
    app = App("shop")

    def chosen(value: int) -> str:
        return f"p{value % 2}" if parity else f"d{value % 6}"

    app.stream(IN).group_by("by-digit", chosen).count("counts").to(OUT)
    return app


def state(*, once: bool) -> App:
    app = App("shop")
    grouped = app.stream(IN).group_by("by-digit", digit)
    if once:
        grouped.process("sum", SumOnce, stores=[TOTALS, SEEN]).to(OUT)
    else:
        grouped.process("sum", Sum, stores=[TOTALS]).to(OUT)
    return app


def schema(*, text: bool) -> App:
    app = App("shop")
    counts = app.stream(IN).group_by("by-digit", digit).count("counts")
    if text:
        counts.map(label).to(LABELS)
    else:
        counts.to(OUT)
    return app


def label(count: int) -> str:
    return f"{count} times"


def config(*, most: int) -> App:
    limits = Limits(most=most)
    app = App("shop", limits)

    def allowed(value: int) -> bool:
        return value < limits.most

    app.stream(IN).filter(allowed).group_by("by-digit", digit).count("counts").to(OUT)
    return app


def logic(*, twice: bool) -> App:
    app = App("shop")

    def weight(value: int) -> int:
        return value * 2 if twice and value % 3 == 0 else value

    app.stream(IN).group_by("by-digit", digit).sum("sums", weight).to(OUT)
    return app


Build = Callable[[], App]
SCENARIOS: dict[str, tuple[Build, Build]] = {
    "new source": (lambda: source(more=False), lambda: source(more=True)),
    "removed source": (lambda: source(more=True), lambda: source(more=False)),
    "other key": (lambda: key(parity=False), lambda: key(parity=True)),
    "more state": (lambda: state(once=False), lambda: state(once=True)),
    "less state": (lambda: state(once=True), lambda: state(once=False)),
    "schema": (lambda: schema(text=False), lambda: schema(text=True)),
    "config": (lambda: config(most=99), lambda: config(most=12)),
    "logic": (lambda: logic(twice=False), lambda: logic(twice=True)),
}
