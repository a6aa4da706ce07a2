"""What others offer for the same job: whiten a sequence under the source, colour it under the target.

Each peer is one plain function, written as someone who knows the library would write it for speed, and never
slower than that: where a library has a batch routine, a memory switch or a steady state, it is used.
"""
