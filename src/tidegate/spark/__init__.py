"""Slots as Spark jobs; topics and stores as DataFrames. The only package that imports pyspark."""
