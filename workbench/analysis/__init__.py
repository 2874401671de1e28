"""Analysis of stored results without torch and without a window."""
