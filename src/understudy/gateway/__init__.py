"""The gateway: readings come in as messages or lines, and leave disguised.

`plant` holds the fleets of a ledger and the outbox in which stands what leaves. A group of arrivals is one commit:
fleets step, outputs are written as the bytes that leave, and only then is anything sent. Whatever is killed afterwards,
the same bytes go out again. `formats` reads and writes lines and JSON.
"""
