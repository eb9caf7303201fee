"""SFTP: files of a folder of a server are fetched and landed."""

from backfill_assets.capture.families import Family

FAMILY = Family(name="sftp", package=__name__, servers=("SftpFolder",), schemes=("sftp",))
