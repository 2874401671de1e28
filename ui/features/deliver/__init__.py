"""The Deliverables panel."""
