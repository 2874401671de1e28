"""What a histogram says about a grid before anything is run: no torch, no window."""
