"""SFTP: files of a folder of a server are fetched and landed."""
