"""Deliver: what leaves the lake and the landing place on purpose, to topics that consumers opt in to."""
