"""Which check of a module catches which of the lessons' mistakes, at dropout 0."""

CAUGHT = {  # by its shape, causality, rows, equality
    "split without transpose": (False, True, False, True),
    "merge without transpose": (False, True, False, True),
    "both without transpose": (False, False, False, True),
    "mask of the past": (False, True, False, True),
    "mask one too late": (False, True, False, True),
    "mask with the diagonal": (False, True, True, True),
    "mask inverted": (False, True, True, True),
    "mask thrown away": (False, True, False, True),
    "minus 1e4": (False, False, False, False),
    "minus 1e9": (False, False, False, False),
    "no scale": (False, False, False, True),
    "scale by d_out": (False, False, False, True),
    "scale by d_in": (False, False, False, True),
    "softmax over queries": (False, True, True, True),
    "dropout before softmax": (False, False, False, False),
    "dropout in eval": (False, False, False, False),
    "keys and values swapped": (False, False, True, True),
    "view without contiguous": (True, True, True, True),
    "heads in reverse": (False, False, False, True),
    "no output projection": (False, False, False, True),
}
