"""Systems of the zoo in other tools, and their agents and processors in the zoo."""
