"""Whether type checkers know the type of every name of the package: `python -m tests.check_types`.

This is `pyright --verifytypes`, less what scikit-learn's lack of types takes from the estimators.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

BY_BASE_CLASS = ("Type of base class", "Type of metaclass")


def unknown_names() -> list[str]:
    """A line for each name whose type is not known, or known only by guessing."""
    folder = Path(sys.executable).parent
    ran = subprocess.run(
        [folder / "pyright", "--verifytypes", "scalemix", "--ignoreexternal", "--outputjson"],
        # Pyright finds the packages of the Python that comes first.
        env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    symbols = json.loads(ran.stdout)["typeCompleteness"]["symbols"]
    return [
        f"{symbol['name']}: {message}"
        for symbol in symbols
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
        for message in (told["message"] for told in symbol["diagnostics"])
        if not (message.startswith(BY_BASE_CLASS) and ".sklearn." in symbol["name"])
        if not message.startswith("No docstring")
    ]


if __name__ == "__main__":
    sys.exit("\n".join(unknown_names()) or None)
