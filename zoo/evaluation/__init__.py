"""Systems x talks -> streams -> scores -> rows, and the rows to read them against."""
