"""Helpers for the whole package that do not depend on filters.

Argument validation, messages for missing optional packages, the progress bar, the table printer,
and deferred interrupts.
"""
