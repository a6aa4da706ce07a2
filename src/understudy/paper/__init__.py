"""The paper's numbers, each with ours beside it: what ``understudy paper`` computes.

`run` has the catalogue of the results, writes them to a folder and makes the page. `setting` has the room of Section V
and the form of a result. Each result is a function ``compute(settings) -> Outcome``:

- `claims`: every sentence that can be checked, with a verdict;
- `estimates`: the estimator of Sections II-B and V, on raw, noisy and disguised readings, and wrong guesses against
  leakage;
- `tradeoff`: distortion against leakage, for two values and for five;
- `noise`: noise addition beside the filter, for the adversary and for a user downstream;
- `examples`: the special cases of Section IV, a parameter that moves, and the block diagrams.

Their words stand in ``results.toml``. Everything is made with the public library.
"""
