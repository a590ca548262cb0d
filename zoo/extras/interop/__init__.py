"""Systems of the zoo in other tools, and their agents, processors and servers in the zoo."""
