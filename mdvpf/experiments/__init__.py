"""The paper's experiments and our own: lists of independent runs, and what is made of them."""
