"""The application layer: every request of the command line and of Dagster. No other room is called from outside."""
