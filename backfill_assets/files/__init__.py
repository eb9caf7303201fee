"""Files: the one port to files, over local folders and object stores."""
