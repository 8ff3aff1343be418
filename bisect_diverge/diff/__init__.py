"""Two recorded runs to a divergence: pair the records, compare their digests, name the first difference."""
