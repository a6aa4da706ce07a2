"""Streams: the run-time of a design. Draws once an epoch, remembers for ever, releases only what is recorded."""
