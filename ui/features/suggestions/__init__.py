"""The Suggestions panel."""
