"""Cells that have run."""

from nbformat.v4 import new_code_cell, new_output


def showing(code: str, text: str) -> dict:
    """Return a cell that has run: it prints a text that ends its line, and shows another."""
    stream = new_output("stream", name="stdout", text=text)
    result = new_output("execute_result", {"text/plain": text}, execution_count=1)
    outputs = [stream if text.endswith("\n") else result] if text else []
    return new_code_cell(code, execution_count=1, outputs=outputs)
