"""Candidates: from a manifest to staged rows that are measured, proven and not yet visible to readers."""
