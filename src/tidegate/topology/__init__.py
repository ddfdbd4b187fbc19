"""Topologies: built by the dsl, checked once, immutable from then on."""
