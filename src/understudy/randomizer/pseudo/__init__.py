"""Which pseudo values to play, chosen from an interval or a box."""
