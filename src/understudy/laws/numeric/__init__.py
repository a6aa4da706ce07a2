"""The arithmetic behind `laws.density`: integrals of a density of which only the logarithm is known."""
