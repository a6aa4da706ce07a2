"""What is attacked: designs played over simulations and recordings, and noise of equal distortion."""
