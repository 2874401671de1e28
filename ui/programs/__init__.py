"""Windows that show what is inside a ``.pte``, of this program or any other."""
