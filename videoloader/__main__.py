"""``python -m videoloader``: the command ``videoloader``."""

from videoloader.cli import app

if __name__ == "__main__":
    app(prog_name="videoloader")
