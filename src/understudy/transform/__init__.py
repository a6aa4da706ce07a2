"""The transformation: whiten under the source, colour under the target (paper, Section III-A)."""
