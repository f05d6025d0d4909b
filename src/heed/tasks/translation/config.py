"""The configuration of translation."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Discriminator, Field, Tag, model_validator

from heed.config.alignment import AlignmentSection
from heed.config.data import DatesData, DigitsData, FilesData, GrammarData, HubData
from heed.config.memory import InMemory, is_memory
from heed.config.sections import EvaluationConfig, GenerationConfig, ModelSection, RunConfig, TrainingConfig


class TranslationModel(ModelSection):
    """Which model; all other fields are the model's own (`heed models NAME` lists them)."""

    take: Literal["auto", "encoder", "decoder", "both"] = "auto"
    """What is taken of the run to start from: its encoder, its decoder, or both. A model that reads or writes one text
    can become either: auto is the encoder of `bert` and `encoder`, the decoder of `gpt`, and both of a translator."""


class TranslationTraining(TrainingConfig):
    """How a translation model is trained."""

    guided_attention: float = Field(0.0, ge=0)
    """Weight of a loss that holds the attention to the source to a word alignment, which is learned from the training
    pairs beforehand; not with tokenizer.sampling. Short for alignment.automatic=true and alignment.weight."""
    alignment: AlignmentSection = AlignmentSection()
    """Supervised attention: links between words that say where to look (docs/alignment.md)."""

    @property
    def supervision(self) -> AlignmentSection | None:
        """What supervises attention; None for nothing."""
        if self.alignment.given:
            return self.alignment
        return AlignmentSection(automatic=True, weight=self.guided_attention) if self.guided_attention else None

    @property
    def supervised_by(self) -> str:
        """The field that supervises attention and its value, for messages; "" for none."""
        short = f"training.guided_attention is {self.guided_attention}" if self.guided_attention else ""
        return f"{given} is given" if (given := self.alignment.given) else short

    @model_validator(mode="after")
    def _one_alignment(self) -> Self:
        if self.alignment.given and self.guided_attention:
            raise ValueError(
                f"training.guided_attention is {self.guided_attention} and {self.alignment.given} is given; attention "
                "is supervised by one alignment: leave guided_attention out (it stands for alignment.automatic)"
            )
        return self


def why_not(section: AlignmentSection, config: TranslationConfig) -> str:
    """Why attention cannot be supervised so in a run, for people; "" where it can."""
    data, one_of = config.data, "set one of them to 0 or false"
    if config.training.activation_checkpointing:
        looks = "what supervises attention looks into every block, so nothing could be left out"
        return f"training.activation_checkpointing true; {looks}: {one_of}"
    if section.automatic and (sampling := config.tokenizer.sampling):
        holds = "a learned alignment holds for one cut of a text into tokens"
        return f"tokenizer.sampling {sampling}; {holds}: set one of them to 0, or give links with alignment.files"
    if section.data and isinstance(data, FilesData):
        own = f"data.train {', '.join(data.train)}; nobody knows the alignment of own data"
        return f"{own}: give it with training.alignment.files, or learn one with training.alignment.automatic=true"
    if not isinstance(data, FilesData):
        knows = "embedded data knows its own alignment: use training.alignment.data=true"
        return f"data.name {data.name}; {knows}" if section.files else ""
    if data.stream:
        why = (
            "words are aligned over the whole corpus" if section.automatic else "links are read beforehand, as a whole"
        )
        return f"data.stream true; {why}, and a stream has no end: {one_of}, or leave the files out"
    if section.files and data.shuffle_source:
        return f"data.shuffle_source {data.shuffle_source}, by which source words have no fixed places; leave one out"
    if len(section.files) > 1 + len(data.extra):
        corpora = "data.train" + (f" and {len(data.extra)} of data.extra" if data.extra else "")
        return f"training is on {corpora} alone; give a file of links for each corpus, and no more"
    return ""


class TranslationGeneration(GenerationConfig):
    """How a translation model writes."""

    same_words: bool = False
    """Write the words of the source in another order and nothing else, each as often as there; for word order, with
    tokenizer.shared. Words are what blanks separate; the marks at the end are words of their own."""
    unknown: bool = False
    """The unknown token may be written, as some imported models do; it is no text."""
    renormalize: bool = False
    """Tokens that are never written are left out before probabilities are normalised, and not after."""
    early_stopping: Literal["never", "heuristic", "full"] = "never"
    """When a beam search ends: when no longer output could be better (never); when as many outputs have ended as the
    beam is wide and no open one would be better if it ended now (heuristic); when as many have ended (full). The last
    two are those of the library transformers."""


class TranslationEvaluation(EvaluationConfig):
    """How a translation is scored."""

    select_by: Literal["auto", "exact_match", "token_accuracy", "chrf", "bleu", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is exact_match for embedded data and shuffled sentences,
    else chrf."""


class MemoryPairs(InMemory, FilesData):
    """Pairs of texts handed over in Python; `columns` name those of a data frame."""


def _data_kind(value: Any) -> str:
    """Which class a `data` section is: embedded data has a name, files do not."""
    if is_memory(value):
        return "memory"
    if isinstance(value, BaseModel):
        return _DATA_KINDS.get(type(value), "files")
    if isinstance(value, dict) and "hub" in value:
        return "hub"
    name = value.get("name") if isinstance(value, dict) else None
    if name is None:
        return "files"
    return _EMBEDDED.get(name, "unknown") if isinstance(name, str) else "unknown"


_EMBEDDED = {"copy": "digits", "dates": "dates", "grammar": "grammar", "reverse": "digits"}
"""Name of embedded data -> kind of its section."""


_DATA_KINDS: dict[type[BaseModel], str] = {DatesData: "dates", DigitsData: "digits", GrammarData: "grammar"}
_DATA_KINDS |= {FilesData: "files", HubData: "hub"}


class TranslationConfig(RunConfig):
    """Everything that decides a run of translation."""

    task: Literal["translation"] = "translation"
    """What is learned."""
    data: Annotated[
        Annotated[DatesData, Tag("dates")]
        | Annotated[DigitsData, Tag("digits")]
        | Annotated[GrammarData, Tag("grammar")]
        | Annotated[FilesData, Tag("files")]
        | Annotated[HubData, Tag("hub")]
        | Annotated[MemoryPairs, Tag("memory")],
        Discriminator(_data_kind),
    ]
    """Where the examples come from."""
    model: TranslationModel = TranslationModel()
    """Which model."""
    training: TranslationTraining = TranslationTraining(minutes=2.0)
    """How it is trained."""
    generation: TranslationGeneration = TranslationGeneration()
    """How it writes."""
    evaluation: TranslationEvaluation = TranslationEvaluation()
    """How it is scored."""

    @model_validator(mode="after")
    def _one_case(self) -> Self:
        if self.tokenizer.shared and self.tokenizer.lowercase == "source":
            raise ValueError(
                "tokenizer.lowercase is 'source', but tokenizer.shared makes both sides one; set one of them to false"
            )
        return self

    @model_validator(mode="after")
    def _one_vocabulary(self) -> Self:
        if self.generation.same_words and not self.tokenizer.shared:
            raise ValueError(
                "generation.same_words is true, but source and target have tokenizers of their own; set "
                "tokenizer.shared=true"
            )
        return self

    @model_validator(mode="after")
    def _can_be_supervised(self) -> Self:
        section = self.training.supervision
        why = None if section is None else why_not(section, self)
        if why:
            raise ValueError(f"{self.training.supervised_by} and {why}")
        return self

    @model_validator(mode="before")
    @classmethod
    def _one_kind_of_data(cls, values: Any) -> Any:
        data = values.get("data") if isinstance(values, dict) else None
        if isinstance(data, dict) and "name" in data and isinstance(data.get("train"), str | list):
            raise ValueError(
                f"data.name '{data['name']}' means embedded data and data.train {data['train']} your own files; "
                "give one of the two"
            )
        return values
