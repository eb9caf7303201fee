"""What do a reviewer and an auditor read?"""
