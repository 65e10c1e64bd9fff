"""Helpers for the whole package that do not depend on filters.

Argument validation, descriptors of public attributes, short texts for `repr`, messages for missing
optional packages, the progress bar, the table printer, and deferred interrupts.
"""
