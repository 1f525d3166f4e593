"""`python -m attncourse.gpt2` is one of the processes that share the heads: see run_processes."""

from attncourse.gpt2.parallel import main

if __name__ == "__main__":
    main()
