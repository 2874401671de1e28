"""What the graph panel is made of: bar, levels, telling, keeping, comparing."""
