"""Studies: questions about a project that need many runs."""
