"""What a person starts, a folder or a file each; ``zoo/__main__.py`` lists the commands."""
