"""What the panel Numerics is made of."""
