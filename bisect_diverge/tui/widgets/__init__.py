"""One file per part of a screen."""
