"""Words for the records of the rooms below: functions from a record to text."""
