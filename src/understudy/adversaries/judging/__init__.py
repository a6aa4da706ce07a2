"""From guesses to figures: intervals, tests, and whether anything was found."""
