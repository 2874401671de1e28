"""Firmware with Arm's NPU driver on an emulated Cortex-M55, its NPU answered by the simulator."""
