"""Calibration that repeats nothing: statistics and transformations are kept between edits."""
