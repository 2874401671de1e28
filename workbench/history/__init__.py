"""The run history: every evaluated configuration of a project, stored beside it."""
