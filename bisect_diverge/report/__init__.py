"""The same result as text, as JSON, ...: one file per result and format."""
