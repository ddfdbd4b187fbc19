"""Rows of models and table topics in SQLite or PostgreSQL. The only package that imports SQLAlchemy."""
