"""A small grammar: English sentences and their translation into Spanish, German or romanised Hindi, either way.

`scenes` draws what is said (`meaning`), one file per language says it, `source` pairs two languages and links their
words. The words are in `lexicon.yaml`.

Nine kinds of sentences: being and moving somewhere, doing, giving, going, being so, not doing for a reason, doing two
things to the same thing, saying that, asking; about 500 English words. Of 100,000 drawn sentences 91,800 are distinct,
and a sample repeats one only when 20 draws found no new one. Each English sentence has one translation: "I", "we" and
"they" speak as men do, "doctor" and "farmer" are men, and "you" does not occur. What "it" refers to decides the pronoun
in German (es, sie), the adjective in Spanish (cansado, congestionada) and the verb in Hindi (tha, thi).

Into English the pairs are turned round, and the links with them. Of 10,000 English sentences 3.4 % share their Hindi
with another one ("bahut" is both "very" and "too", "vah" both "he" and "she"), 0.5 % their Spanish and none their
German; no translator into English can tell which of the two was meant.

A link holds one target word and the run of source words that it translates ("Voy": "I am going", "zur": "to the").
Words without a counterpart have no link: the German comma, English "did", and in Hindi "the". A particle that is
separated from its verb ("picked it up") is linked only in German.
"""
