"""`python -m scalemix`."""

from scalemix.cli import main

if __name__ == "__main__":
    main()
