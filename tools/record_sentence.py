"""Record what the panel of the reader's own sentence shows where there is no model.

    python tools/record_sentence.py

Writes attncourse/panels/data/sentence.json; it takes some minutes.
"""

from __future__ import annotations

import json
from typing import Any

from attncourse.language import LanguageModel, language_model
from attncourse.panels.sentence import (
    RECORDING,
    answer,
    cached_reader,
    recorded_requests,
    request_key,
)


def record(model: LanguageModel) -> dict[str, Any]:
    """Return the answers of a model to all that a page without Python can be asked."""
    read = cached_reader(model)
    shape = {"layers": model.size.num_layers, "heads": model.size.num_heads}
    answers = {request_key(request): answer(read, request) for request in recorded_requests()}
    return {"source": model.origin, "license": "Apache-2.0", **shape, "answers": answers}


if __name__ == "__main__":
    made = json.dumps(record(language_model()), ensure_ascii=False)
    RECORDING.write_text(made + "\n", encoding="utf-8")
    print(f"{RECORDING.name}: {RECORDING.stat().st_size / 1e3:.0f} kB")
