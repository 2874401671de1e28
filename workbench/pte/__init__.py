"""Any ``.pte`` on the host: decoded without torch, and without trusting what it says."""
