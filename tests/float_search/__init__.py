"""Random float networks, as people write them, judged against eager PyTorch."""
