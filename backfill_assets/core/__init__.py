"""The foundation of every room: errors, ids, settings, clock, people, Spark. One subject a module."""
