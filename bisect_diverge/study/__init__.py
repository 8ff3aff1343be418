"""What a run is sensitive to, found by running it again and again."""
