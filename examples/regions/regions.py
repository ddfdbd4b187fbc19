"""What each region buys: each customer's order number, the region from a Parquet table, totals per region.

The middle step is Spark SQL. The table may change from one batch to the next; each order is looked up once.
"""

from msgspec import Struct
from pyspark.sql import DataFrame

from tidegate import App, Context, Record, Settings, TableTopic, Topic, stores


class Order(Struct, frozen=True):
    id: int
    cents: int


class Placed(Struct, frozen=True):
    id: int
    cents: int
    number: int
    region: str = ""


class Config(Settings):
    regions: str = "regions.parquet"


ORDERS = Topic("orders", Order)
PLACED = Topic("placed", Placed)
SALES = TableTopic("sales-by-region", int)
NUMBERS = stores.key_value("numbers", int)


def number(record: Record[str, Order], ctx: Context[str, Placed]) -> None:
    """Count each customer's orders."""
    numbers = ctx.store(NUMBERS)
    count = (numbers.get(record.key) or 0) + 1
    numbers.put(record.key, count)
    ctx.forward(record.with_value(Placed(record.value.id, record.value.cents, count)))


def app(config: Config) -> App:
    def add_region(orders: DataFrame) -> DataFrame:
        spark = orders.sparkSession
        spark.read.parquet(config.regions).createOrReplaceTempView("regions")
        orders.createOrReplaceTempView("placed_orders")
        return spark.sql(
            """
            SELECT o.key, o.timestamp, o.partition, o.offset,
                   named_struct('id', o.value.id, 'cents', o.value.cents, 'number', o.value.number,
                                'region', coalesce(r.region, 'unknown')) AS value
            FROM placed_orders o LEFT JOIN regions r ON o.key = r.customer
            """
        )

    app = App("regions")
    placed = app.stream(ORDERS).process("number", number, stores=[NUMBERS])
    known = placed.frame("with-region", add_region, value=Placed)
    known.to(PLACED)
    known.group_by("by-region", lambda order: order.region, key=str).sum("sales", cents).to(SALES)
    return app


def cents(order: Placed) -> int:
    return order.cents
