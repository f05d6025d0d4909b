"""A small grammar: English sentences and their translation into Spanish, German or romanised Hindi, either way.

`scenes` draws meanings (`meaning`), one file for each language writes them, `source` pairs two languages and links
their words. The words are in `lexicon.yaml`.

There are nine kinds of sentences (positions and movements, actions, gifts, going, states, actions not done for a
reason, two actions on one thing, thoughts, questions) and about 500 English words. Of 100,000 drawn sentences 91,800
are distinct, and a sample repeats one only when 20 draws found no new one. Each English sentence has one translation:
"I", "we" and "they" are masculine, "doctor" and "farmer" are men, and "you" does not occur. The noun that "it" refers
to decides the pronoun in German (es, sie), the adjective in Spanish (cansado, congestionada) and the verb in Hindi
(tha, thi).

Into English, pairs and links are reversed. Of 10,000 English sentences 3.4 % share their Hindi with another one
("bahut" is both "very" and "too", "vah" both "he" and "she"), 0.5 % their Spanish and none their German; translations
of these into English are ambiguous.

A link joins one target word and the run of source words that it translates ("Voy": "I am going", "zur": "to the").
Words without a counterpart have no link: the German comma, English "did", and in Hindi "the". A particle that is
separated from its verb ("picked it up") is linked only in German.
"""
