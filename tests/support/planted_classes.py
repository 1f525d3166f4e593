"""Every wrong class of these tables, in one list: what a rule of the diagnosis is measured on."""

import re
from typing import Any, NamedTuple

from attncourse import checks
from support.behind_classes import BEHIND
from support.many_styles import STYLES
from support.odd_classes import HIDDEN_FAULTS
from support.wrong_classes import CASES, several, write


class Planted(NamedTuple):
    """A wrong class and how it is checked."""

    name: str
    text: str
    options: dict[str, Any]
    outside: dict[str, object]

    def examine(self) -> checks.Verdict:
        """Check it, by what its text says it is."""
        check = checks.check_weight_split if re.search("num_heads|n_head", self.text) else None
        check = checks.check_stacked_heads if "self.heads" in self.text else check
        cls = write(self.text, **self.outside)
        return (check or checks.check_causal_attention)(cls, **self.options)


PLANTED = [
    *(Planted(f"case: {what}", t.replace(*pair), {}, {}) for _, t, what, pair, *_ in CASES),
    *(
        Planted(f"{style}: {what}", one.text.replace(slip.right, slip.wrong), one.options, {})
        for style, one in STYLES.items()
        for what, slip in one.slips.items()
    ),
    *(
        Planted(f"hidden: {what}", several(text, *pairs), {"seconds": 1.0}, {})
        for what, (text, pairs, *_) in HIDDEN_FAULTS.items()
    ),
    *(
        Planted(f"behind: {what}", several(text, *pairs), {}, outside)
        for what, (text, pairs, _, _, outside) in BEHIND.items()
    ),
]
