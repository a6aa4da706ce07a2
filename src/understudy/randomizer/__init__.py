"""The randomizer: which pseudo parameter is drawn for which private one, and what that guarantees."""
