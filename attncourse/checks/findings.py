"""What can be wrong with an attention class, as data: sentences makes the words of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from attncourse.tracing.operations import SourceLine


class Kind(StrEnum):
    """What is wrong, short and stable, for counting: before the dot the step, after it the way."""

    # Nothing was written, or it cannot be run
    STUB = "stub"
    STUB_RAISE = "stub.raise"
    STUB_RETURN = "stub.return"
    STUB_INIT = "stub.init"
    NOT_A_CLASS = "not.a-class"
    FORWARD_NAME = "forward.name"
    SETTINGS = "settings"
    TIME = "time"
    CHECK_FAILED = "check.failed"

    # An exception; what PyTorch's or Python's own words say of it
    ERROR = "error"
    ERROR_ARGUMENTS = "error.arguments"
    ERROR_DIMENSION = "error.dimension"
    ERROR_DTYPE = "error.dtype"
    ERROR_EXIT = "error.exit"
    ERROR_FLOAT_SIZE = "error.float-size"
    ERROR_GENERATOR = "error.generator"
    ERROR_KEEPDIM = "error.keepdim"
    ERROR_LAYER_MADE = "error.layer-made"
    ERROR_LAYERS = "error.layers"
    ERROR_LIST = "error.list"
    ERROR_MASK_CUT = "error.mask-cut"
    ERROR_MASK_DIMS = "error.mask-dims"
    ERROR_MERGED_WIDTH = "error.merged-width"
    ERROR_NONE = "error.none"
    ERROR_NO_ROOM = "error.no-room"
    ERROR_NOT_SPLIT = "error.not-split"
    ERROR_NUMBER_CALLED = "error.number-called"
    ERROR_NUMPY = "error.numpy"
    ERROR_RECURSION = "error.recursion"
    ERROR_RESIDUAL = "error.residual"
    ERROR_REFUSED = "error.refused"
    ERROR_SIZES = "error.sizes"
    ERROR_SOFTMAX_DIM = "error.softmax-dim"
    ERROR_SUPER = "error.super"
    ERROR_T = "error.T"
    ERROR_VIEW_ORDER = "error.view-order"
    ERROR_VIEW_SIZE = "error.view-size"
    ERROR_WIDTHS = "error.widths"

    # The parameters and the constructor
    PARAMETERS_BIAS_ALWAYS = "parameters.bias-always"
    PARAMETERS_BIAS_NEVER = "parameters.bias-never"
    PARAMETERS_CHANGED = "parameters.in-place"
    PARAMETERS_EXTRA = "parameters.extra"
    PARAMETERS_FROZEN = "parameters.frozen"
    PARAMETERS_MISSING = "parameters.missing"
    PARAMETERS_PLAIN_LIST = "parameters.plain-list"
    PARAMETERS_REPEATED_HEAD = "parameters.repeated-head"
    PARAMETERS_SHAPE = "parameters.shape"
    PARAMETERS_SHARED = "parameters.shared"
    PARAMETERS_TURNED = "parameters.turned"
    INIT_EQUAL = "init.equal"
    INIT_SEED = "init.seed"
    INIT_VALUES = "init.values"
    HEADS_ARGUMENT = "heads.argument"
    HEADS_COUNT = "heads.count"

    # The heads of a stack
    HEADS_CHAINED = "heads.chained"
    HEADS_MANY = "heads.many"
    HEADS_PART = "heads.part"
    HEADS_NOT_RUN = "heads.not-run"
    LOOP_RETURN = "loop.return"

    # x and the projections
    X_CHANGED = "x.changed"
    X_IN_PLACE = "x.in-place"
    OUTSIDE = "outside"
    PROJECTION_WRONG = "projection.wrong"
    PARTS_SWAPPED = "parts.swapped"
    PARTS_TWICE = "parts.twice"
    PARTS_CHANGED = "parts.changed"
    MULTIPLIED = "multiplied"
    ORDER = "order"
    SPLIT_COLUMNS = "split.columns"
    SPLIT_MISSING = "split.missing"
    SPLIT_MIXED = "split.mixed"
    SPLIT_TEXTS = "split.texts"
    SPLIT_NO_TRANSPOSE = "split.no-transpose"
    SPLIT_PARTS = "split.parts"

    # The scores
    SCORES_APART = "scores.apart"
    SCORES_CHANGED = "scores.changed"
    SCORES_LARGE = "scores.large"
    SCORES_PAIR = "scores.pair"
    SCORES_SUMMED = "scores.summed"
    SCORES_TRANSPOSED = "scores.transposed"
    SCORES_WRONG = "scores.wrong"
    SCALE_CUT = "scale.cut"
    SCALE_HALF = "scale.half"
    SCALE_LATE = "scale.after-softmax"
    SCALE_NONE = "scale.none"
    SCALE_NO_ROOT = "scale.no-root"
    SCALE_OTHER = "scale.wrong"
    SCALE_SIGN = "scale.sign"
    SCALE_TIMES = "scale.times"
    SCALE_TWICE = "scale.twice"
    SCALE_WIDTH = "scale.width"

    # The mask
    MASK_AFTER_SOFTMAX = "mask.after-softmax"
    MASK_ADDED = "mask.added"
    MASK_CUT = "mask.cut"
    MASK_DIAGONAL = "mask.diagonal"
    MASK_DIFFERS = "mask.differs"
    MASK_EMPTY = "mask.empty"
    MASK_EMPTY_ROW = "mask.empty-row"
    MASK_EVERYTHING = "mask.everything"
    MASK_FILL = "mask.fill"
    MASK_INVERTED = "mask.inverted"
    MASK_LATE = "mask.late"
    MASK_LEAKS = "mask.leaks"
    MASK_LENGTH = "mask.length"
    MASK_NAN = "mask.nan"
    MASK_NO_BUFFER = "mask.no-buffer"
    MASK_NONE = "mask.none"
    MASK_NOT_LOW = "mask.not-low"
    MASK_PAST = "mask.past"
    MASK_ROWS = "mask.rows"
    MASK_TOO_MUCH = "mask.too-much"
    MASK_TRAINING = "mask.training"
    MASK_UNUSED = "mask.unused"
    MASK_ZEROS = "mask.zeros"

    # Softmax and the weights
    SOFTMAX_AXIS = "softmax.axis"
    SOFTMAX_BY_HAND = "softmax.by-hand"
    SOFTMAX_LARGEST = "softmax.largest"
    SOFTMAX_NONE = "softmax.none"
    SOFTMAX_OTHER = "softmax.other"
    SOFTMAX_UNFINISHED = "softmax.unfinished"
    SOFTMAX_WRONG = "softmax.wrong"
    WEIGHTS_CHANGED = "weights.changed"
    WEIGHTS_TRANSPOSED = "weights.transposed"
    VALUES_OTHER = "values.other"
    ATTENTION_WRONG = "attention.wrong"

    # From the context vectors to the result
    CONTEXT_CHANGED = "context.changed"
    CONTEXT_WRONG = "context.wrong"
    MERGE_ADDED = "merge.added"
    MERGE_ALTERNATING = "merge.alternating"
    MERGE_AXIS = "merge.axis"
    MERGE_MIXED = "merge.mixed"
    MERGE_ORDER = "merge.order"
    MERGE_REPEATED = "merge.repeated"
    MERGE_SOME_HEADS = "merge.some-heads"
    MERGE_TEXTS = "merge.texts"
    OUT_PROJ_MISSING = "out_proj.missing"
    OUT_PROJ_TWICE = "out_proj.twice"
    RESULT_CHANGED = "result.changed"
    RESULT_DIFFERS = "result.differs"
    RESULT_DTYPE = "result.dtype"
    RESULT_NONE = "result.none"
    RESULT_OTHER = "result.other"
    RESULT_SHAPE = "result.shape"
    RESULT_TYPE = "result.type"
    RESULT_UNWRITTEN = "result.unwritten"
    GRADIENT = "gradient"
    GRADIENT_BIAS = "gradient.bias"
    GRADIENT_IN_PLACE = "gradient.in-place"

    # Other calls, other modes
    RANDOM = "random"
    RANDOM_LAYERS = "random.layers"
    STATE = "state"
    STATE_KEPT = "state.kept"
    LENGTH = "length"
    LENGTH_CROPPED = "length.cropped"
    TRAINING = "training"
    MODE_CHANGED = "mode.changed"
    DROPOUT_ACTIVE = "dropout.eval"
    DROPOUT_FIXED = "dropout.fixed"
    DROPOUT_NOT_GROWN = "dropout.not-grown"
    DROPOUT_NONE = "dropout.none"
    DROPOUT_PLACE = "dropout.place"
    DROPOUT_SHARE = "dropout.share"
    DROPOUT_TOGETHER = "dropout.together"
    DROPOUT_TWICE = "dropout.twice"
    DROPOUT_VALUES = "dropout.values"

    # Worth a word, and no fault
    NOTE_SCORES = "note.scores"

    @property
    def step(self) -> str:
        """What comes before the dot: the step of attention that it is about."""
        return self.value.partition(".")[0]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth a word.

    Args:
        kind: what it is.
        line: the learner's own, where it is known.
        facts: plain values that the sentence needs: names, numbers, shapes.
        sure: whether one relation fits; otherwise it is only known what should be there.
        question: which question found it, by its name.
    """

    kind: Kind
    line: SourceLine | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    sure: bool = True
    question: str = ""

    @property
    def code(self) -> str:
        """The kind as text."""
        return self.kind.value

    def at(self, line: SourceLine | None) -> Finding:
        """Return the same of another line."""
        return replace(self, line=line)

    def knowing(self, **facts: Any) -> Finding:
        """Return the same with more facts."""
        return replace(self, facts={**self.facts, **facts})
