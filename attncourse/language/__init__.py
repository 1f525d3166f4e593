"""SmolLM2-135M, a released language model, around the attention classes of the course.

files opens a GGUF file, tokenizer cuts texts into tokens, model is the Llama, weight_cache keeps
what was unpacked, load finds the installed model. reader reads and writes texts, runs is one
reading, interventions what can be changed in it, hooks how. copies makes random texts that repeat,
and reference has the logits of another implementation.
"""

from attncourse.language import copies
from attncourse.language.interventions import Ablate, Patch, PathPatch
from attncourse.language.load import ModelMissingError, language_model
from attncourse.language.model import Head, LlamaSize
from attncourse.language.reader import LanguageModel
from attncourse.language.reference import reference_logits
from attncourse.language.runs import Run
from attncourse.language.weight_cache import clear_cache
from attncourse.renamed import explain_renamed

__all__ = [
    "Ablate",
    "Head",
    "LanguageModel",
    "LlamaSize",
    "ModelMissingError",
    "Patch",
    "PathPatch",
    "Run",
    "clear_cache",
    "copies",
    "language_model",
    "reference_logits",
]

explain_renamed(__name__)
