"""The distortion L(theta, ~theta): how far the disguised readings lie from the true ones."""
