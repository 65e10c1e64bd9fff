"""The paper's experiments, each a list of independent runs and what is made of their outcomes."""
