"""Lines of text in many scripts, for comparing tokenizers."""

LINES = (
    "The quick brown fox doesn't jump over 13 lazy dogs; it's 3.5 km away (really!).",
    "Stra\xdfe, Gr\xf6\xdfe und \xc4pfel: 'Ja', sagte er - \u201enat\xfcrlich\u201c.",
    "\xbfQu\xe9 tal, se\xf1or? \xa1El ni\xf1o comi\xf3 pi\xf1a!",
    "Le gar\xe7on na\xeff mange une cr\xe8me br\xfbl\xe9e \xe0 No\xebl \xab\xa0vite\xa0\xbb.",
    "\u041c\u043e\u0441\u043a\u0432\u0430 \u2014 "
    "\u0441\u0442\u043e\u043b\u0438\u0446\u0430 \u0420\u043e\u0441\u0441\u0438\u0438, \u0451\u043b\u043a\u0430.",
    "\u0391\u03b8\u03ae\u03bd\u03b1 \u03ba\u03b1\u03b9 "
    "\u0398\u03b5\u03c3\u03c3\u03b1\u03bb\u03bf\u03bd\u03af\u03ba\u03b7\u03c2",
    "\u6211\u7231\u5317\u4eac\u5929\u5b89\u95e8\uff0c2024\u5e74\u3002 "
    "\u6771\u4eac\u3067\u5bff\u53f8\u3092\u98df\u3079\u308b",
    "\ud55c\uad6d\uc5b4\ub294 \uc7ac\ubbf8\uc788\ub2e4 \u1112\u1161\u11ab",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645\u060c \u05e9\u05dc\u05d5\u05dd",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902 \u0932\u093f\u0916\u093e\u0964",
    "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 ti\u1ebfng Vi\u1ec7t \u0130stanbul \u0131\u015f\u0131k",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 #tag @name https://example.org/a?b=1&c=2",
    "Cafe\u0301 caf\xe9 \ufb01ne \uff21\uff22 \u2460 \xbd \u212b \u2026",
    "tab\tline\nreturn\r\nnbsp\xa0ideographic\u3000zero\u200bwidth soft\xadhyphen nul\x00 bell\x07 bom\ufeff.",
    "  two  blanks   before, and after  ",
    "UPPER CASE, MixedCase, x_y z-w a/b 1,000.00 $5 50% ~ ^ | ` <tag> {brace} \\",
    "a" * 120 + " " + "ab" * 40,
    "",
    " ",
)
