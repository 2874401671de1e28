"""What was tried before: every evaluated configuration of a project, kept beside it."""
