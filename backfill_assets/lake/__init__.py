"""The only room that knows Delta: snapshots, staging, the swap."""
