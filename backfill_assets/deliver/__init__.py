"""Deliver: replays records of the lake and the landing place to topics and streams that consumers opt in to."""
