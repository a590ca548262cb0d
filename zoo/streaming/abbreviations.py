"""Abbreviations whose full stop does not end a sentence, lower-case, by language code.

There are two lists, because equal scores need Moses' own. ``moses_prefixes`` are the nonbreaking
prefixes of Moses' tokenizer that can equal a single lower-cased word; stems that contain a dot are
kept whole by rule. Languages without a list use the English list, as in Moses; Moses has long lists
for Czech and Russian, which are not included here.
``SENTENCE_ABBREVIATIONS`` are common abbreviations within sentences; single capitals and "e.g." are
recognised by rule.
"""

from string import ascii_lowercase

LETTERS = frozenset(ascii_lowercase)
NUMERALS = frozenset(str(number) for number in range(1, 100))

# Abbreviations besides single letters and numerals.
_PREFIXES = {
    "ca": """
        adm admdor admdora al angl aprox av c ca cast dc dept dg dir dj dl ds dt dv ed entl espf
        esq fra maj màx n nre núm p pl pta ptes pàg smin tel
    """,
    "de": """
        bzgl bzw ca dergl dgl etc evtl ff ggf jun pp sen sog sogen spp usf usw vgl vs zzt
    """,
    "en": """
        rev v vs
    """,
    "es": """
        a/c adj admón afmo apdo av c cap cm cta dcha doc ej entlo esq etc grs izq kg km mg mm
        núm p ptas pág págs s vid vol
    """,
    "fr": """
        al ann apr art auj av boul ca cf chap contr dir env etc ex fasc fig fr fém hab ibid id
        inf lib masc ms n/réf pl pp sec sect sing sq sqq suiv sup suppl tél vb vol vs éd
    """,
    "it": """
        acc banc corr dott ecc fatt gg int lett ogg on post pp racc rev ric seg sgg ss tel v vs
    """,
    "nl": """
        bacc bc bgen bijv bijz bv dhr dr drs ds eint ev fa fam gen genm ing ir jhr jkvr jr kand
        kol lgen lkol maj mevr mr nrs plv prof ritm tint
    """,
    "pt": """
        adj adm adv art cit col con corp cpl dr dra dras drs eng enga engas engos ex exmo exo
        fig op prof rev sr sra sras srs sto vs
    """,
    "ro": """
        d-na dl dpdv dvs etc pt șamd
    """,
}
_ROMAN = "i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx"

MOSES_PREFIXES: dict[str, frozenset[str]] = {
    code: frozenset(words.split()) for code, words in _PREFIXES.items()
}
MOSES_PREFIXES["de"] |= LETTERS | NUMERALS | frozenset(_ROMAN.split())
MOSES_PREFIXES["pt"] |= LETTERS | frozenset(_ROMAN.split())
MOSES_PREFIXES["fr"] |= LETTERS


def moses_prefixes(language: str) -> frozenset[str]:
    """Moses' list of a language, or the English one."""
    return MOSES_PREFIXES.get(language, MOSES_PREFIXES["en"])


SENTENCE_ABBREVIATIONS: dict[str, str] = {
    "ca": "av dr dra etc prof pàg sr sra",
    "cs": "apod atd bc dr ing mgr mudr např prof resp tzv",
    "de": (
        "bspw bzw ca dipl dr evtl fr geb ggf hr ing inkl mio mrd nr prof sog st str tel usw vgl "
        "zzgl"
    ),
    "en": (
        "al approx ave blvd capt cf col dept dr etc gen gov hon inc jr lt ltd mr mrs ms prof rev "
        "sen sgt sr st vs"
    ),
    "es": "av dr dra etc ing lic núm prof pág sr sra srta ud uds",
    "fr": "av cf dr env etc mlle mm mme pr prof st ste",
    "it": "arch avv dott ecc ing pag prof sig",
    "nl": "bijv ca dhr dr drs enz ing ir jr mevr mw prof",
    "pt": "av dr dra eng etc prof pág sr sra",
    "ro": "dl dna dr etc nr prof str",
    "ru": "др млн млрд пр см стр ул",
    "tr": "av doç dr prof sn vb vs",
}
