"""One stream's memory, its text, and the simulation that feeds it chunks and keeps the clock."""
