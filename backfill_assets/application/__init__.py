"""The application: what a person, an orchestrator or a page can ask for; the only way in."""
