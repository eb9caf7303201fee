"""What every room uses: errors, ids, settings, clock, people, Spark. One subject a module."""
