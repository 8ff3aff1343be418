"""The terminal UI: `bd walk`. The only room that imports Textual."""
