"""An executor of TOSA programs: exact integers, many samples at once.

It is independent of the TOSA reference model and of the simulator of the NPU: the three check each
other. Source of what each operator computes: TOSA 1.0 specification, chapters "Tensor Operators"
to "Control Flow Operators".
"""
