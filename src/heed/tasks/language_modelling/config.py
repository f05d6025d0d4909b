"""The configuration of language modelling."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from heed.config.data import Documents, Sources, generated
from heed.config.sections import (
    EvaluationConfig,
    ModelSection,
    RunConfig,
    SearchConfig,
    TokenizerConfig,
    TrainingConfig,
    from_left_to_right,
)


class DocumentTokenizer(TokenizerConfig):
    """How text becomes tokens."""

    normalization: Literal["none", "nfc", "nfkc"] = "none"
    """Unicode normalisation of input and output; none keeps every text unchanged."""
    extend: bool = False
    """Add unknown characters (with kind word, unknown words) to the tokenizer of another run (tokenizer.from, or
    --from); existing tokens keep their numbers and weights."""


class LanguageModelSection(ModelSection):
    """Which model; all other fields are the model's own (`heed models NAME` lists them)."""

    name: str = "gpt"
    """File in `heed/models`."""


class LanguageModelTraining(TrainingConfig):
    """How a language model is trained."""

    batch_tokens: int = Field(2_048, gt=0)
    """Tokens of one batch: rows of data.context tokens, at least one; on a GPU 32,000 by default, or a
    hundredth of a pass if that is less, but no fewer than elsewhere."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.1, ge=0)
    """Decay of matrices towards zero (not of biases and vectors)."""


class ContinuationConfig(SearchConfig):
    """How the model continues a text."""

    max_length: int = Field(100, gt=0, le=100_000)
    """Largest number of tokens to write."""
    first_token: bool = True
    """Put the token that precedes documents (end, or start) before a prompt; false does not, as in the programs of many
    published models. An empty prompt always begins with that token."""


class LanguageModelEvaluation(EvaluationConfig):
    """How a language model is scored."""

    select_by: Literal["auto", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss."""
    stride: int | None = Field(None, gt=0)
    """Tokens by which the window of data.context tokens advances in scoring a longer text: each token is predicted from
    at least context - stride tokens, where there are as many. By default the context, which is fastest; unused by
    models that carry a state, which read whole documents."""


class LanguageModelConfig(RunConfig):
    """The full configuration of a run of language modelling."""

    task: Literal["language_modelling"] = "language_modelling"
    """What is learned."""
    data: Annotated[
        Documents,
        Sources(Documents, "language_modelling", hub=True, meals=generated(20_000, 400, 1_000, context=16)),
    ]
    """Where the texts come from."""
    tokenizer: DocumentTokenizer = DocumentTokenizer()
    """How text becomes tokens."""
    model: LanguageModelSection = LanguageModelSection()
    """Which model."""
    training: LanguageModelTraining = LanguageModelTraining(minutes=2.0)
    """How it is trained."""
    generation: ContinuationConfig = ContinuationConfig()
    """How it continues a text."""
    evaluation: LanguageModelEvaluation = LanguageModelEvaluation()
    """How it is scored."""

    @model_validator(mode="after")
    def _stride_within_context(self) -> Self:
        stride, context = self.evaluation.stride, self.data.context
        if stride is not None and stride > context:
            raise ValueError(
                f"evaluation.stride is {stride}, more than data.context {context}: tokens between two windows would "
                f"not be scored; expected at most {context}"
            )
        return self

    _direction = model_validator(mode="before")(
        from_left_to_right(
            "a language model predicts the next token, which a network that reads from the end has already seen"
        )
    )
