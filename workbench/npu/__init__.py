"""Functional simulator of the Arm Ethos-U55, U65 and U85: values, no timing.

``program.load`` opens a compiled program, ``Program.run`` computes its outputs.
"""
