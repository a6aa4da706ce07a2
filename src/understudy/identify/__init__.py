"""Identification: what the readings themselves tell about the sensor and its model."""
