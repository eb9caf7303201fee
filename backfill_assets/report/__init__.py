"""Evidence: the documents for reviewers and auditors."""
