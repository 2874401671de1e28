"""Decoder for ``.pte`` files without torch; all contents are validated."""
