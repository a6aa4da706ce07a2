"""A private parameter that moves: a randomizer with memory, what it costs and what it guarantees."""
