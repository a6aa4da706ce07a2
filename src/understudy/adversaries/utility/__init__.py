"""What is left of the readings for honest use."""
