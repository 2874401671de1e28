"""Passes over data that compute the numbers of a converted module in less time."""
