"""Files of readings: CSV, Parquet and JSON lines in, the same with disguised readings out, in bounded memory."""
