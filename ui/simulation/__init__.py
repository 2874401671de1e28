"""A run on a simulator, shown."""
