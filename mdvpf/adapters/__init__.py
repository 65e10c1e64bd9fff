"""Adapters to other libraries: one module each; none of the libraries is required."""
