"""Networks and links to other tools that no other part of the zoo imports; see README.md."""
