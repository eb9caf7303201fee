"""Schemas: the values of a topic in Confluent's wire format."""
