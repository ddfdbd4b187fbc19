"""`tidegate demo`: orders through a gate to totals, on Spark, with the HTTP server."""
