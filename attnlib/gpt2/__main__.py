"""`torchrun -m attnlib.gpt2` runs this in each of the processes that share the heads."""

from attnlib.gpt2.parallel import main

if __name__ == "__main__":
    main()
