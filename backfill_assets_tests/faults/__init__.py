"""What happens to the promises when processes die, wait, race, and things break?"""
