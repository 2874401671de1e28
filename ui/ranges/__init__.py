"""One tensor's range: its histogram, other methods, its samples, and what is fixed."""
