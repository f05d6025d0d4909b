"""The small grammar. Genders and agreement are checked against lists of this file, not against the generator's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import heed
from heed.data.embedded.generated import SPLITS, split_of
from heed.data.embedded.grammar.source import NAMED, GrammarSource
from heed.errors import DataError
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.start import open_pairs
from heed.tasks.translation.task import Translation

LANGUAGES = ("es", "de", "hi")
COUNT = 4000


@pytest.fixture(scope="module")
def pairs():
    return {language: GrammarSource(language).sample("train", COUNT) for language in LANGUAGES}


@pytest.fixture(scope="module")
def many():
    """More German pairs, for what is rare."""
    return GrammarSource("de").sample("train", 8_000)


def words(text):
    return re.findall(r"\w+|[^\w\s]", text)


def linked(pair):
    """Target word -> what it is linked to, for words that occur once."""
    return {pair.target[slice(*link.target)]: pair.source[slice(*link.source)] for link in pair.links}


# Sentences everybody knows

CAT, WALL, HOME, TIRED, CONGESTED = (
    "The cat sat on the wall.",
    "The wall sat on the cat.",
    "I am going home.",
    "The animal did not cross the street because it was too tired.",
    "The animal did not cross the street because it was too congested.",
)


@pytest.mark.parametrize(
    ("language", "source", "target"),
    [
        ("es", CAT, "El gato se sentó en la pared."),
        ("es", WALL, "La pared se sentó sobre el gato."),
        ("es", HOME, "Voy a casa."),
        ("es", TIRED, "El animal no cruzó la calle porque estaba demasiado cansado."),
        ("es", CONGESTED, "El animal no cruzó la calle porque estaba demasiado congestionada."),
        ("de", CAT, "Die Katze saß auf der Mauer."),
        ("de", WALL, "Die Mauer saß auf der Katze."),
        ("de", HOME, "Ich gehe nach Hause."),
        ("de", TIRED, "Das Tier überquerte die Straße nicht, weil es zu müde war."),
        ("de", CONGESTED, "Das Tier überquerte die Straße nicht, weil sie zu verstopft war."),
        ("hi", CAT, "Billi deewar par baithi."),
        ("hi", WALL, "Deewar billi par baithi."),
        ("hi", HOME, "Main ghar ja raha hoon."),
        ("hi", TIRED, "Jaanvar ne sadak paar nahin ki kyonki vah bahut thaka hua tha."),
        ("hi", CONGESTED, "Jaanvar ne sadak paar nahin ki kyonki vah bahut vyast thi."),
    ],
)
def test_the_named_sentences_are_in_the_data(language, source, target):
    found = [pair for pair in GrammarSource(language).sample(split_of(source), 5) if pair.source == source]
    assert [pair.target for pair in found] == [target]


def named(language, source):
    return next(pair for pair in map(GrammarSource(language).pair, NAMED) if pair.source == source)


def test_links_of_the_cat_and_of_the_wall():
    assert linked(named("es", CAT)) == {
        **{"El": "The", "gato": "cat", "se": "sat", "sentó": "sat", "en": "on", "la": "the", "pared": "wall"},
        ".": ".",
    }
    assert linked(named("es", WALL))["sobre"] == "on"
    assert linked(named("de", WALL))["Katze"] == "cat"


def test_links_of_going_home():
    assert linked(named("hi", HOME)) == {
        **{"Main": "I", "ghar": "home", "ja": "going", "raha": "going", "hoon": "am", ".": "."}
    }
    assert linked(named("es", HOME)) == {"Voy": "I am going", "a": "home", "casa": "home", ".": "."}
    assert linked(named("de", HOME))["gehe"] == "am going"


def test_the_other_direction_has_the_same_sentences_and_links_of_its_own():
    home = next(pair for pair in map(GrammarSource("hi", direction="to_english").pair, NAMED) if "going" in pair.target)
    assert (home.source, home.target, home.origin) == ("Main ghar ja raha hoon.", HOME, "grammar:hi-en")
    assert linked(home) == {"I": "Main", "am": "hoon", "going": "ja raha", "home": "ghar", ".": "."}  # the notes' links
    cat = next(pair for pair in map(GrammarSource("es", direction="to_english").pair, NAMED) if pair.target == CAT)
    assert linked(cat) == {
        **{"The": "El", "cat": "gato", "sat": "se sentó", "on": "en", "the": "la", "wall": "pared", ".": "."}
    }
    with pytest.raises(DataError, match=r"no direction 'to_englsh'; did you mean 'to_english'\?"):
        GrammarSource("es", direction="to_englsh")


@pytest.mark.parametrize("language", LANGUAGES)
def test_in_the_other_direction_no_sentence_of_either_side_is_in_two_splits(language):
    seen = {}
    for seed in (1, 2):
        source = GrammarSource(language, seed, "to_english")
        for split in SPLITS:
            for pair in source.sample(split, 60):
                assert split_of(pair.source) == split
                for text in (pair.source, pair.target):
                    assert seen.setdefault(text, split) == split, text
    found = [pair for split in SPLITS for pair in GrammarSource(language, 1, "to_english").sample(split, 5)]
    assert {CAT, WALL, HOME, TIRED, CONGESTED} <= {pair.target for pair in found}


def test_a_verb_in_two_places_and_contractions(many):
    pairs = {pair.source: pair for pair in many}
    picked = next(pair for source, pair in pairs.items() if re.fullmatch(r"(He|She|They) .* picked it up\.", source))
    assert picked.target.endswith(" auf.")
    assert [linked(picked)[word] for word in ("auf", "und")] == ["up", "and"]
    school = next(pair for source, pair in pairs.items() if re.fullmatch(r"He .*to the school\.", source))
    assert linked(school)["zur"] == "to the"


# Properties


@pytest.mark.parametrize("language", LANGUAGES)
def test_links_hold_whole_words_and_leave_out_only_what_has_no_counterpart(language, pairs):
    unlinked = {"source": set(), "target": set()}
    for pair in pairs[language]:
        said = {"source": [link.source for link in pair.links], "target": [link.target for link in pair.links]}
        assert len(said["target"]) == len(set(said["target"]))
        for side, text in (("source", pair.source), ("target", pair.target)):
            places = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
            for start, end in said[side]:
                assert start in {place[0] for place in places}
                assert end in {place[1] for place in places}
                assert side == "source" or (start, end) in places
            for start, end in places:
                if not any(first <= start and end <= last for first, last in said[side]):
                    unlinked[side].add(text[start:end].lower())
    assert unlinked["target"] == ({","} if language == "de" else set())
    assert unlinked["source"] <= {"es": {"did", "up"}, "de": {"did"}, "hi": {"did", "up", "the", "to"}}[language]


@pytest.mark.parametrize("language", LANGUAGES)
def test_splits_have_no_sentence_in_common_whatever_the_seed(language):
    for seed in (1, 2):
        source = GrammarSource(language, seed)
        for split in SPLITS:
            sample = source.sample(split, 60)
            assert {split_of(pair.source) for pair in sample} == {split}
            assert len({pair.source for pair in sample}) == 60


def test_a_sample_is_the_beginning_of_a_longer_one_and_seeds_differ(pairs):
    for language in LANGUAGES:
        assert GrammarSource(language).sample("train", 50) == pairs[language][:50]
        assert [pair.source for pair in pairs[language]] == [pair.source for pair in pairs["es"]]
    assert GrammarSource("es", seed=2).sample("train", 50)[5:] != pairs["es"][5:50]


def test_thousands_of_sentences_hardly_repeat_and_each_has_one_translation(many):
    assert len({pair.source for pair in many}) > 7_960
    translations = {}
    for pair in many:
        assert translations.setdefault(pair.source, pair.target) == pair.target


def test_an_unknown_language_is_refused():
    with pytest.raises(DataError, match=r"the grammar has no language 'fr'; .*es"):
        GrammarSource("fr")
    with pytest.raises(heed.errors.ConfigError, match=r"data.language is 'fr'.*'es', 'de' or 'hi'"):
        heed.train("translation", data="grammar", settings={"data.language": "fr"})


# English


def test_english_articles_and_verbs_agree(pairs):
    for pair in pairs["es"]:
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", pair.source), pair.source
        assert not re.search(r"\bI (is|are|has|were|wants)\b|\b([Hh]e|[Ss]he) (are|have|were|want)\b", pair.source)
        assert not re.search(r"picked up (it|them)", pair.source)


# Spanish

MASCULINE = set(
    "niño hombre hermano amigo granjero médico animal gato perro caballo pájaro ratón burro elefante pato tejado "
    "puente río campo jardín mercado árbol coche libro periódico cuadro plátano pastel pescado pan té".split()
)
FEMININE = set(
    "niña mujer hermana vaca cabra pared mesa silla cama calle casa cocina escuela estación puerta ventana carta "
    "lámpara manzana sopa leche agua pelota flor camisa llave piedra caja bolsa".split()
)
PLURALS = {"ratones": "ratón", "jardines": "jardín", "mujeres": "mujer", "flores": "flor", "animales": "animal"}
PLURALS |= {"árboles": "árbol", "paredes": "pared", "pasteles": "pastel", "coches": "coche"}
ARTICLES = {"el": "ms", "un": "ms", "la": "fs", "una": "fs", "los": "mp", "las": "fp", "al": "ms", "del": "ms"}
ARTICLES |= {"mi": "?s", "mis": "?p", "dos": "?p"}


def spanish_noun(word):
    """Gender and number by this file's lists."""
    for noun, number in ((word, "s"), (PLURALS.get(word, word.removesuffix("s")), "p")):
        if noun in MASCULINE or noun in FEMININE:
            return ("m" if noun in MASCULINE else "f") + number
    return None


def spanish_ending(adjective):
    """What an adjective in -o shows, else nothing."""
    return {"o": "ms", "a": "fs", "os": "mp", "as": "fp"}.get((re.search("(o|a)s?$", adjective) or [None])[0])


def test_spanish_articles_and_adjectives_agree(pairs):
    seen = set()
    for pair in pairs["es"]:
        text = words(pair.target[0].lower() + pair.target[1:])
        for before, noun, after in zip(text, text[1:], text[2:], strict=False):
            before = before.lower()
            kind = spanish_noun(noun)
            if before not in ARTICLES or kind is None:
                continue
            if noun == "agua":
                assert before in ("el", "al", "del"), pair.target
            else:
                seen.add(noun)
                assert ARTICLES[before].replace("?", kind[0]) == kind, pair.target
            link = linked(pair).get(after, "")
            adjectives = "big small old new red white black blue green beautiful young hungry happy tall hot cold sweet"
            if link in adjectives.split() and spanish_ending(after):
                assert spanish_ending(after) == kind, pair.target
    assert len(seen) > 80


def test_spanish_contracts_and_marks_people():
    text = "\n".join(pair.target for pair in GrammarSource("es").sample("train", COUNT))
    assert not re.search(r"\b(de|a) el\b", text)
    assert " al niño" in text
    assert " del jardín" in text or " del árbol" in text or " del coche" in text
    called = re.findall(r"\b(?:invit|llam|ayud)\w+ (\w+).*\.$", text, re.MULTILINE)  # in a question the subject follows
    assert set(called) == {"a", "al"}


# German

NOUNS = {
    "m": "Junge Mann Bruder Freund Bauer Arzt Hund Vogel Esel Elefant Tisch Stuhl Fluss Garten Markt Bahnhof Baum "
    "Brief Apfel Kuchen Fisch Tee Ball Schlüssel Stein Jungen Bauern Elefanten",
    "f": "Frau Schwester Katze Kuh Maus Ziege Ente Mauer Wand Straße Brücke Küche Schule Tür Zeitung Lampe Banane "
    "Suppe Milch Blume Kiste Tasche",
    "n": "Mädchen Kind Tier Pferd Bett Dach Feld Haus Auto Fenster Buch Bild Brot Wasser Hemd",
}
GERMAN = {noun: gender for gender, nouns in NOUNS.items() for noun in nouns.split()}
DATIVE = {"m": ("dem", "einem", "meinem"), "f": ("der", "einer", "meiner"), "n": ("dem", "einem", "meinem")}
ACCUSATIVE = {"m": ("den", "einen", "meinen"), "f": ("die", "eine", "meine"), "n": ("das", "ein", "mein")}
WHERE = re.compile(r"\b(auf|in|unter|hinter|neben|vor|an) (\w+) (?:[a-zäöüß]+ )?([A-ZÄÖÜ]\w+)")
CONTRACTED = {"im": "mn", "zum": "mn", "zur": "f", "ins": "n"}


def test_german_prepositions_take_the_dative_and_for_a_motion_the_accusative(pairs):
    cases = set()
    for pair in pairs["de"]:
        moved = re.search(r"\b(sprang|ging)(en)?\b", pair.target) is not None
        for preposition, article, noun in WHERE.findall(pair.target):
            table = ACCUSATIVE if moved else DATIVE
            cases.add((moved, preposition, GERMAN[noun]))
            assert article in table[GERMAN[noun]], pair.target
        for contracted, noun in re.findall(r"\b(im|zum|zur|ins) (?:[a-zäöüß]+ )?([A-ZÄÖÜ]\w+)", pair.target):
            assert GERMAN[noun] in CONTRACTED[contracted], pair.target
        assert not re.search(r"\b(in|an|zu) dem\b|\bin das\b|\bzu der\b", pair.target), pair.target
    assert {(False, "an", "f"), (False, "auf", "f"), (True, "auf", "m"), (False, "unter", "n")} <= cases


def test_german_articles_and_adjectives_of_subjects(pairs):
    nominative = {"m": ("Der", "Ein", "Mein"), "f": ("Die", "Eine", "Meine"), "n": ("Das", "Ein", "Mein")}
    endings = {"Der": "e", "Die": "e", "Das": "e", "Eine": "e", "Meine": "e"}
    count = 0
    same_plural = ("Mädchen", "Esel", "Schlüssel", "Kuchen", "Fenster")
    for pair in pairs["de"]:
        match = re.match(r"(Der|Die|Das|Eine?|Meine?) (?:([a-zäöüß]+) )?([A-ZÄÖÜ]\w+) \w+", pair.target)
        if match is None or match[3] not in GERMAN:
            continue
        article, adjective, noun = match.groups()
        if noun in ("Jungen", "Bauern", "Elefanten") or (noun in same_plural and article in ("Die", "Meine")):
            continue  # more than one
        count += 1
        assert article in nominative[GERMAN[noun]], pair.target
        if adjective:
            wanted = endings.get(article) or {"m": "er", "n": "es"}[GERMAN[noun]]
            assert adjective.endswith(wanted), pair.target
    assert count > 800


def test_german_verbs_are_second_and_last(pairs):
    finite = re.compile(
        r"(bin|ist|sind|war|waren|habe|hat|haben|will|wollen|kann|können|\w+te|\w+ten|\w*(lud|rief|hob|sprang|stand|lag|"
        r"schlief|saß|ging|lief|hing|sah|aß|trank|las|schrieb|wusch|zerbrach|half|biss|gab)(en)?)"
    )
    progressive = re.compile(r"\b(am|is|are) \w+ing\b")
    for pair in pairs["de"]:
        if first := re.match(r"(?:Gestern|Heute Morgen|Am Abend|Heute) (\w+) ", pair.target):
            assert finite.fullmatch(first[1]) or progressive.search(pair.source), pair.target
        if ", weil" in pair.target:
            assert re.search(r", weil (er|sie|es) zu \w+ (war|waren)\.$", pair.target), pair.target
        if ", dass " in pair.target:
            last = words(pair.target)[-2]
            assert finite.fullmatch(last) or progressive.search(pair.source), pair.target
            if "has " in pair.source or " have " in pair.source:
                assert re.fullmatch("hat|habe|haben|ist|sind|bin", last) or "want" in pair.source
        if pair.source.startswith(("Has ", "Have ")):
            assert re.fullmatch(r"(Hat|Haben) .* \w+(t|en)\?", pair.target), pair.target


# Hindi

HINDI_FEMININE = (
    "ladki aurat behan billi gaay chidiya bakri battakh deewar mez kursi chhat sadak nadi rasoi gaadi khidki "
    "kitab chitthi tasveer batti machhli roti chaay gend kameez chaabi".split()
)
OBLIQUE = "ladka bachcha kutta ghoda gadha chooha bageecha darwaza dibba thaila kela".split()


def test_hindi_nouns_are_oblique_before_postpositions(pairs):
    direct = re.compile(rf"\b({'|'.join(OBLIQUE)}) (ne|ko|ka|ki|par|mein|ke|tak)\b", re.IGNORECASE)
    plural = re.compile(r"\b\w+(iyan|en) (ne|ko|ka|par|mein|ke|tak)\b")
    for pair in pairs["hi"]:
        assert not direct.search(pair.target), pair.target
        assert not plural.search(pair.target), pair.target
    assert any(re.search(r"[Ll]adke ne|kutte ko|darwaze ke", pair.target) for pair in pairs["hi"])


def test_hindi_verbs_agree_with_the_subject_where_there_is_no_ne(pairs):
    count = 0
    for pair in pairs["hi"]:
        match = re.match(r"(?:Mer[aei] |Ek )?(\w+) (?:.* )?rah([aei]) (hoon|hai|hain)\.$", pair.target)
        if match is None or " that " in pair.source or re.match("Do|Ab|Aaj|Ve|Ham", pair.target):
            continue
        noun = match[1].lower()
        if noun in HINDI_FEMININE:
            assert match[2] == "i", pair.target
        elif noun in ("main", "ladka", "kutta", "bachcha", "ghoda", "gadha", "chooha"):
            assert match[2] == "a", pair.target
        else:
            continue
        count += 1
        assert match[3] == ("hoon" if noun == "main" else "hai"), pair.target
    assert count > 20


def test_hindi_verbs_agree_with_the_object_after_ne(pairs):
    verbs = "padh likh khol tod dhoondh khareed bech dho utha chhipa".split()
    count = 0
    for pair in pairs["hi"]:
        match = re.search(
            rf"\b(ne|[Mm]aine|[Uu]sne) (?:.* )?(\w+) ({'|'.join(verbs)})y?(a|i|e)( hai)?[.?]$", pair.target
        )
        if match is None or match[2] not in (*HINDI_FEMININE, *OBLIQUE, "seb", "phool", "patthar", "ghar"):
            continue
        count += 1
        if match[2] in HINDI_FEMININE:
            assert match[4] == "i", pair.target
        elif match[2] in OBLIQUE:
            assert match[4] == "a", pair.target
        else:
            assert match[4] in "ae", pair.target  # seb: apple or apples
    assert count > 20


# As data of a run


def config(**data):
    return TranslationConfig.model_validate(
        {"data": {"name": "grammar", "train": 300, "valid": 20, "test": 30, **data}}
    )


def test_words_are_its_tokens_and_exact_match_selects():
    task = Translation.prepare(config(language="de"))
    assert task.config.tokenizer.kind == "word"
    assert task.config.evaluation.select_by == "exact_match"
    assert len(task.splits.examples["train"]) == 300
    assert "English to de" in task.splits.notes
    assert open_pairs(config(language="hi").data).examples["test"][0].origin == "grammar:hi"
    turned = open_pairs(config(language="hi", direction="to_english").data)
    assert "grammar, hi to English" in turned.notes
    assert all(pair.target.isascii() and pair.links for pair in turned.examples["test"])


def test_a_run_on_it_reports_the_alignment_error(tmp_path):
    settings = {"data.train": 300, "data.valid": 20, "data.test": 20, "model.d_hidden": 16, "training.threads": 1}
    run = heed.train("translation", data="grammar", steps=3, out=tmp_path / "run", quiet=True, settings=settings)
    assert run.config.data.language == "es"
    assert 0 <= run.report["scores"]["test"]["alignment_error"]["value"] <= 1
    assert run.predict(["The cat sat on the wall."])[0].tokens


@pytest.mark.slow
def test_the_recipe_is_learned(tmp_path):
    recipe = Path(__file__).parents[1] / "examples" / "grammar-es.yaml"
    run = heed.train(recipe, out=tmp_path / "run", quiet=True, settings={"training.device": "cpu", "data.test": 300})
    assert run.report["scores"]["test"]["exact_match"]["value"] >= 0.9
    assert run.predict([WALL])[0].text == "La pared se sentó sobre el gato."
