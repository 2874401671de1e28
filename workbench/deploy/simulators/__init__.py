"""Arm's simulators (FVP): which there are, how they are started, and what they print."""
