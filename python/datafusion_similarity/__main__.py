"""``python -m datafusion_similarity`` is the shell."""

from ._shell import main

if __name__ == "__main__":
    main()
