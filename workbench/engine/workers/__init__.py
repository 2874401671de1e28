"""Requests to other processes: local ones, and those of a Dask cluster."""
