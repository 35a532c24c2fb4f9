"""Segments: the files of frames; read, recovered, cut, repaired, scrubbed."""
