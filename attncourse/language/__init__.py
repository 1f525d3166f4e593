"""A real language model in the reader's hands: SmolLM2-135M, around our attention class.

files opens a GGUF file, words cuts texts, model is the rest of a Llama, kept holds what was
unpacked, load finds the installed model. reader reads and writes, runs is one reading,
interventions what can be changed in it, hooks how; copies makes random texts; recorded stands in
where no model is installed; reference is what another implementation answers; parallel shares heads
out over processes.
"""

from attncourse.language import copies
from attncourse.language.interventions import Cut, Mute, Put
from attncourse.language.kept import forget
from attncourse.language.load import ModelMissingError, installed_model, language_model
from attncourse.language.model import Head, LlamaSize
from attncourse.language.reader import LanguageModel
from attncourse.language.recorded import NotRecordedError, RecordedModel
from attncourse.language.reference import reference_logits
from attncourse.language.runs import Run

__all__ = [
    "Cut",
    "Head",
    "LanguageModel",
    "LlamaSize",
    "ModelMissingError",
    "Mute",
    "NotRecordedError",
    "Put",
    "RecordedModel",
    "Run",
    "copies",
    "forget",
    "installed_model",
    "language_model",
    "reference_logits",
]
