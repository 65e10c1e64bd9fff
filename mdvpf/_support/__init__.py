"""What every part of the package may need and that knows nothing of filters.

Checks of arguments, messages for missing optional packages, the progress bar, the table printer,
and deferred interrupts.
"""
