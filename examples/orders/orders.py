"""What each customer has bought: large orders only. A customer can be paused; bad orders are put aside."""

from msgspec import Struct

from tidegate import App, Secret, Settings, TableTopic, Topic, operational


class Order(Struct, frozen=True):
    id: int
    cents: int
    test: bool = False


class Totals(Struct, frozen=True):
    orders: int = 0
    cents: int = 0


class Config(Settings):
    min_cents: int = 0
    pager_key: Secret | None = operational(None)


ORDERS = Topic("orders", Order)
TOTALS = TableTopic("customer-totals", Totals)


def add(total: Totals, order: Order) -> Totals:
    return Totals(total.orders + 1, total.cents + order.cents)


def app(config: Config) -> App:
    app = App("orders")
    admitted = app.stream(ORDERS, on_error="dead-letter").gate("orders-gate", max_held=100_000)
    large = admitted.filter(lambda order: order.cents >= config.min_cents)
    large.aggregate("totals", Totals, add).to(TOTALS)
    return app
