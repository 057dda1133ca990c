"""The command line: `scalemix`."""

import sys


def main() -> None:
    """Run the command line, or say what it needs. The library itself does without these."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(f'The command line needs {error.name}: pip install "scalemix[cli]"')
    from scalemix._programs import keep_programs_later
    from scalemix.cli.app import app
    from scalemix.cli.interrupts import run_interruptible

    keep_programs_later()
    run_interruptible(app)
