"""Tests of captures against real servers on loopback."""
