"""Graphs of torch: exported programs, modules, branches, observers, and their snapshot."""
