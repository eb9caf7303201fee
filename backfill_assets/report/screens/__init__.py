"""Screens: one builder a screen, from a record to a page."""
