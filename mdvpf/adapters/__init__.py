"""Other libraries' ways of saying what this package does: one file each, none of them required."""
