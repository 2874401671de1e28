"""Ethos-U: the quantizer, lowering, Vela, the simulator and the reference model."""
