"""The studio: a local page on which a privacy officer and an engineer agree on a design.

``understudy studio`` serves it on the loopback interface to the one browser that holds the printed token. The page is
no second implementation: every number comes from the public library, and the page names the call.

- `command`: the options of ``understudy studio``.
- `server`: what is answered and what is refused; security stands in front of every route.
- `desk`: what lies on the table, a history, a family, a design, and what may be done with it.
- `jobs`: long work in a child process, one piece at a time, with progress, cancelling and a cache.
- `worker`: what the child does.
- `views`: values of the library as plain data for the page.
- `takeaway`: what leaves the studio, as bytes.

All English of the page stands in ``words.toml``. The studio never draws a pseudo value: a draw that somebody looked at
and rejected would be a selection.
"""
