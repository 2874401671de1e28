"""Metrics of tasks other than classification."""
