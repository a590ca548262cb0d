"""Lower-case abbreviations after which Moses leaves a full stop in place, by language code.

Only what a lower-cased single word can meet: stems with a dot inside are kept whole by rule. Languages without a list
(Moses falls back to English for those it does not know; Czech and Russian have long lists there) use the English one.
"""

from string import ascii_lowercase

LETTERS = frozenset(ascii_lowercase)
NUMERALS = frozenset(str(number) for number in range(1, 100))

# words by list, besides letters and numerals
WORDS = {
    "ca": """
        adm admdor admdora al angl aprox av c ca cast dc dept dg dir dj dl ds dt dv ed entl espf esq fra maj
        màx n nre núm p pl pta ptes pàg smin tel
    """,
    "de": """
        bzgl bzw ca dergl dgl etc evtl ff ggf jun pp sen sog sogen spp usf usw vgl vs zzt
    """,
    "en": """
        rev v vs
    """,
    "es": """
        a/c adj admón afmo apdo av c cap cm cta dcha doc ej entlo esq etc grs izq kg km mg mm núm p ptas pág
        págs s vid vol
    """,
    "fr": """
        al ann apr art auj av boul ca cf chap contr dir env etc ex fasc fig fr fém hab ibid id inf lib masc
        ms n/réf pl pp sec sect sing sq sqq suiv sup suppl tél vb vol vs éd
    """,
    "it": """
        acc banc corr dott ecc fatt gg int lett ogg on post pp racc rev ric seg sgg ss tel v vs
    """,
    "nl": """
        bacc bc bgen bijv bijz bv dhr dr drs ds eint ev fa fam gen genm ing ir jhr jkvr jr kand kol lgen
        lkol maj mevr mr nrs plv prof ritm tint
    """,
    "pt": """
        adj adm adv art cit col con corp cpl dr dra dras drs eng enga engas engos ex exmo exo fig op prof
        rev sr sra sras srs sto vs
    """,
    "ro": """
        d-na dl dpdv dvs etc pt șamd
    """,
}
ROMAN = "i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx"

ABBREVIATIONS: dict[str, frozenset[str]] = {
    code: frozenset(words.split()) for code, words in WORDS.items()
}
ABBREVIATIONS["de"] |= LETTERS | NUMERALS | frozenset(ROMAN.split())
ABBREVIATIONS["pt"] |= LETTERS | frozenset(ROMAN.split())
ABBREVIATIONS["fr"] |= LETTERS


def abbreviations(language: str) -> frozenset[str]:
    """The list of a language, or the English one."""
    return ABBREVIATIONS.get(language, ABBREVIATIONS["en"])
