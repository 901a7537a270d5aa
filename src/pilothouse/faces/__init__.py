"""Ways in for users. Faces translate; they decide nothing."""
