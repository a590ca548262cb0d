"""The command of version 0.2: python -m zoo.report is python -m zoo report now."""

import runpy

if __name__ == "__main__":
    runpy.run_module("zoo.apps.report", run_name="__main__", alter_sys=True)
