"""One file per screen, its style beside it."""
