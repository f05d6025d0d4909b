"""Writes meanings in the languages of `grammar_languages.yaml`: words, what each expresses, and links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from re import subn
from typing import Any, NamedTuple

import yaml

from grammar_meaning import LEXICON, Clause, Entry, Phrase, Place, Sentence, State, Thought
from heed.data.examples import Link, Span

Features = frozenset[str]
LANGUAGES = yaml.safe_load((Path(__file__).parent / "grammar_languages.yaml").read_text(encoding="utf-8"))


class Word(NamedTuple):
    """A word or punctuation mark, and the parts of the meaning it expresses ("main.subject"), most important first.

    Words of two languages that express the same part are linked.
    """

    text: str
    says: tuple[str, ...] = ()


class Writer:
    """Writes meanings in one language.

    The word order, endings and tables are data; this class knows the parts of a clause, and that a verb with a subject
    in the ergative agrees with its object.
    """

    def __init__(self, code: str) -> None:
        """A language of `grammar_languages.yaml`, whose words are the fields `code` of the lexicon."""
        self.code, self._data = code, LANGUAGES[code]
        self._rules = [(frozenset(when.split()), ending, text) for when, ending, text in self._data["rules"]]
        self._asked = frozenset(_keys(self._data))  # so that caches do not depend on other features

    def write(self, sentence: Sentence) -> list[Word]:
        """The words of a sentence."""
        words = _say(self._data.get("question", "") if sentence.question else "", "end")
        asked = {"question"} if sentence.question else {"timed"} if sentence.time else set[str]()
        if sentence.thought is not None:
            words += [*self._clause(sentence.thought, "thought", {"thought"}), *self._conjunction("that")]
            asked = {"dependent"}
        if sentence.time:
            words += _say(LEXICON.times[sentence.time].words(self.code, sentence.time), "time")
        words += self._clause(sentence.main, "main", asked)
        if sentence.also is not None:
            words += [*self._conjunction("and"), *self._clause(sentence.also, "also", {"second"})]
        if sentence.because is not None:
            reason = self._clause(sentence.because, "because", {"dependent", "because"})
            words += [*self._conjunction("because"), *reason]
        return [*words, Word("?" if sentence.question else ".", ("end",))]

    def _conjunction(self, name: str) -> list[Word]:
        return [Word(text, () if text == "," else (name,)) for text in self._data["conjunctions"][name].split()]

    def _clause(self, said: Clause | State | Thought, part: str, features: set[str]) -> list[Word]:
        """A clause: its parts in the order of the language."""
        slots: dict[str, Sequence[Word]] = {}
        if isinstance(said, Clause):
            entry = LEXICON.verbs[said.verb]
            features |= {said.tense, *(["negated"] if said.negated else []), *(["transitive"] if said.object else [])}
        elif isinstance(said, State):
            entry = LEXICON.adjectives[said.adjective]
            features |= {"state", *(["past"] if said.past else [])}
        else:
            entry = LEXICON.thoughts[said.verb]
        shared = (entry.features | features) & self._asked
        slots["subject"] = () if "second" in features else self._phrase(said.subject, f"{part}.subject", shared)
        agreeing = self._features(said.subject)
        if isinstance(said, State):
            slots["degree"] = _say(self._data["degrees"][said.degree] if said.degree else "", f"{part}.degree")
            adjective = [
                self._inflect(text, agreeing | {"predicate"}) for text in entry.words(self.code, said.adjective)
            ]
            slots["state"] = _say(adjective, f"{part}.state")
        elif isinstance(said, Clause):
            agreeing = self._add_objects(slots, said, part, shared)
        finite, rest = self._verb(entry, shared | agreeing, said.subject.verb_form, part, not slots["subject"])
        slots |= {"finite": finite, "rest": rest}
        order = _pick(self._data["orders"], shared).split()
        if (
            "particle" in order
            and entry["particle"]
            and isinstance(said, Clause)
            and said.object
            and said.object.pronoun
        ):
            *verb, up = [*finite, *rest]  # picked it up
            slots |= {
                "finite": verb[:1],
                "rest": verb[1:],
                "particle": _say(up.text, f"{part}.particle", f"{part}.verb"),
            }
        return [word for name in order for word in slots.get(name, ())]

    def _add_objects(self, slots: dict[str, Sequence[Word]], clause: Clause, part: str, shared: Features) -> Features:
        """Add what depends on the verb to the parts of a clause; returns the features that the verb agrees with."""
        entry, clitics = LEXICON.verbs[clause.verb], self._data.get("clitics", {})
        agreeing = self._features(clause.subject)
        if (thing := clause.object) is not None:
            said = shared | {"marked"} if clause.marks_object else shared
            slots["object"] = self._phrase(thing, f"{part}.object", said)
            slots["it"] = _say(_pick(clitics.get("it", ""), self._features(thing)), f"{part}.object")
            if "ergative" in _pick(self._data["roles"]["subject"], shared):
                of = "".join(entry["possessive"])
                marked = thing.pronoun or clause.marks_object
                agreeing = frozenset([of]) if of else frozenset("m") if marked else self._features(thing)
        if (to := clause.recipient) is not None:
            slots["recipient"] = self._phrase(to, f"{part}.recipient", shared)
            slots["to"] = _say(_pick(clitics.get("to", ""), self._features(to)), f"{part}.recipient")
        if clause.place is not None:
            slots["place"] = self._place(clause.place, f"{part}.place")
        slots["fixed"] = _say(entry["fixed"], f"{part}.verb")
        slots["not"] = _say(self._data.get("not", "") if clause.negated else "", f"{part}.not")
        return agreeing

    @cache  # noqa: B019 (there are four writers)
    def _verb(
        self, entry: Entry, features: Features, form: int, part: str, alone: bool
    ) -> tuple[list[Word], list[Word]]:
        """The finite verb and the rest; if `alone`, the finite verb also expresses the subject."""
        words = entry.words(self.code)
        if len(words) == 1 and "regular" in self._data:
            endings = next(forms for end, forms in self._data["regular"].items() if words[0].endswith(end))
            words = (words[0], *(words[0][:-2] + ending for ending in endings.split()))
        own = _Forms(self._data["tables"], features, form)
        own |= {name: fields[form if len(fields) == 4 else 0] for name, fields in entry.items() if fields}
        own |= dict(zip(self._data["parts"].split(), words, strict=False))
        own["verb"] = words[min(form, len(words) - 1)] if words else ""
        own["prefix"], _, own["simple"] = (words[0] if words else "").rpartition("|")
        both: list[list[Word]] = []
        for half in f"{_pick(self._data['verbs'], features)}|".split("|")[:2]:
            both.append([])
            for token in half.split():
                text, parts = token.split(":")
                says = [f"{part}.{one}" for one in parts.split("+") if one != "subject" or alone]
                both[-1] += _say(self._agree(text.format_map(own), features), *says)
        return both[0], both[1]

    @cache  # noqa: B019 (there are four writers)
    def _phrase(self, phrase: Phrase, part: str, features: Features) -> list[Word]:
        """A phrase in the case of its role, the last word of `part`."""
        own = self._features(phrase)
        features = own | features
        features |= set(_pick(self._data["roles"][part.rpartition(".")[2]], features).split())
        if phrase.pronoun:
            return _say(_pick(self._data["pronouns"], features), part)
        noun = self._inflect(LEXICON.nouns[phrase.noun].words(self.code)[0], features | {"noun"})
        words = {"noun": _say([noun], part), "adjective": list[Word]()}
        if phrase.adjective:
            adjective = LEXICON.adjectives[phrase.adjective].words(self.code, phrase.adjective)
            words["adjective"] = _say([self._inflect(text, features) for text in adjective], f"{part}.adjective")
        if (words["adjective"] or words["noun"])[0].text[0] in "aeiou":
            features |= {"vowel"}
        determiner = _pick(self._data["determiners"], features)
        words["determiner"] = _say(self._agree(determiner, features), f"{part}.determiner")
        order = [word for name in self._data["phrase"].split() for word in words[name]]
        return self._beside(_say(_pick(self._data.get("adpositions", ""), features), part), order)

    def _place(self, place: Place, part: str) -> list[Word]:
        """A preposition with its noun, whose case may be the last of the preposition's words."""
        entry = LEXICON.prepositions[place.preposition]
        words = entry.words(self.code)
        if place.ground is None:
            return _say(words, part)
        if place.ground.kind != "thing":
            words = entry[f"{self.code}_living"] or words
        cases = frozenset(words) & {"accusative", "dative"}
        ground = self._phrase(place.ground, f"{part}.ground", cases)
        return self._beside(_say([word for word in words if word not in cases], part), ground)

    def _beside(self, adposition: list[Word], phrase: list[Word]) -> list[Word]:
        """An adposition and its phrase, contracted where required: de + el = del."""
        if self._data.get("postpositions"):
            return [*phrase, *adposition]
        if adposition:
            last, article = adposition[-1], phrase[0]
            if both := self._data.get("contractions", {}).get(f"{last.text} {article.text}"):
                return [*adposition[:-1], Word(both, (*article.says, *last.says)), *phrase[1:]]
        return [*adposition, *phrase]

    @cache  # noqa: B019 (there are four writers)
    def _features(self, phrase: Phrase) -> Features:
        """Gender and number; the pronoun, or the determiner."""
        gender: Sequence[str] = ("f" if phrase.pronoun == "she" else "m",)
        if phrase.noun:
            gender = LEXICON.nouns[phrase.noun][self.code][1:]
        own = ("pronoun", phrase.pronoun) if phrase.pronoun else (phrase.determiner,)
        return frozenset((*gender, *own, *(["plural"] if phrase.plural else [])))

    def _agree(self, text: str, features: Features) -> list[str]:
        """The words of a text; those with "~" are inflected, with the further feature after it."""
        parted = [word.partition("~") for word in text.split()]
        return [self._inflect(word, features | {feature}) if mark else word for word, mark, feature in parted]

    @cache  # noqa: B019 (there are four writers)
    def _inflect(self, word: str, features: Features) -> str:
        """The form of a word, or of its forms after "/", with the ending of the first rule that fits."""
        forms = word.split("/")
        if len(forms) == 1:
            features |= {"regular"}
        index = _pick(self._data.get("forms", {"plural": 1, "": 0}), features)
        word = forms[min(index, len(forms) - 1)]
        for when, ending, replacement in self._rules:
            if when <= features:
                changed, count = subn(ending, replacement, word, count=1)
                if count:
                    return changed
        return word


class _Forms(dict[str, str]):
    """Forms of a verb by name, and those of the tables of the language."""

    def __init__(self, tables: Mapping[str, Any], features: Features, form: int) -> None:
        self._in_table = lambda name: _pick(tables[name], features, form)

    def __missing__(self, name: str) -> str:
        return str(self._in_table(name).format_map(self))


def _pick(table: Any, features: Features, form: int = 0) -> Any:
    """The value of the first key whose features all hold, in nested tables; of a list, the entry `form`; else ""."""
    while isinstance(table, Mapping):
        table = next((value for key, value in table.items() if features.issuperset(key.split())), "")
    return table[form] if isinstance(table, list) else table


def _keys(table: Any) -> set[str]:
    """The features that the keys of nested tables ask for."""
    if not isinstance(table, Mapping):
        return set()
    return {word for key in table for word in key.split()}.union(*map(_keys, table.values()))


def _say(texts: str | Sequence[str], *parts: str) -> list[Word]:
    """Words that express the same parts together."""
    return [Word(text, parts) for text in (texts.split() if isinstance(texts, str) else texts)]


def join(words: Sequence[Word]) -> tuple[str, list[Span]]:
    """The sentence, with a capital first letter, and the span of each word."""
    text, spans = "", []
    for word in words:
        if text and word.text not in ".,?" and text != "¿":
            text += " "
        begin = len(text)
        text += word.text if begin > 1 else word.text[:1].upper() + word.text[1:]  # ¿Ha, El, The
        spans.append((begin, len(text)))
    return text, spans


def link(
    source: Sequence[Word], source_spans: Sequence[Span], target: Sequence[Word], target_spans: Sequence[Span]
) -> tuple[Link, ...]:
    """Link each target word to the source words that express the same parts.

    These are one run of adjacent words, around the first word that expresses the most important part found in the
    source. A target word without a counterpart in the source (the German comma) has no link.
    """
    said_at: dict[str, list[int]] = {}
    for i, word in enumerate(source):
        for part in word.says:
            said_at.setdefault(part, []).append(i)
    links = []
    for word, span in zip(target, target_spans, strict=True):
        if parts := [part for part in word.says if part in said_at]:
            same = {i for part in parts for i in said_at[part]}
            first = last = said_at[parts[0]][0]
            while first - 1 in same:
                first -= 1
            while last + 1 in same:
                last += 1
            links.append(Link(target=span, source=(source_spans[first][0], source_spans[last][1])))
    return tuple(links)
