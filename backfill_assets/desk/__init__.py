"""The desk: pages for auditors and operators, on loopback and read-only. What they show is asked of `application`."""
