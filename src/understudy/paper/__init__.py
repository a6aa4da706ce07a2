"""The paper's numbers, each with ours beside it: what ``understudy paper`` computes.

One file a result. Each has a function ``compute(settings) -> Outcome``: numbers, tables, paragraphs, and pictures
that are drawn on demand through `understudy.report`. Everything is made with the public library.
"""
