"""Disguise what flows: between two MQTT brokers, or from standard input to standard output."""
