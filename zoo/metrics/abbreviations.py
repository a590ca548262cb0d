"""Lower-case abbreviations after which Moses leaves a full stop in place, by language code.

Only what a lower-cased single word can meet: stems with a dot inside are kept whole by rule. Languages without a list
(Moses falls back to English for those it does not know; Czech and Russian have long lists there) use the English one.
"""

from string import ascii_lowercase

LETTERS = frozenset(ascii_lowercase)
ROMAN = frozenset("i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx".split())
NUMERALS = frozenset(str(number) for number in range(1, 100))
ENGLISH = frozenset({"v", "vs", "rev"})

ABBREVIATIONS: dict[str, frozenset[str]] = {
    "ca": frozenset(
        "pàg p c av adm esq ptes pl màx cast dir nre fra admdora espf dc admdor tel angl aprox dept dj dl dt ds dg dv ed "
        "entl al maj smin n núm pta ca".split()
    ),
    "de": LETTERS
    | ROMAN
    | NUMERALS
    | frozenset("bzw vs usw etc ggf vgl sogen ff sog evtl spp sen jun dgl dergl zzt usf bzgl pp ca".split()),
    "en": ENGLISH,
    "es": frozenset(
        "a/c adj admón afmo apdo av c cap cm cta dcha doc ej entlo esq etc grs izq kg km mg mm núm p ptas pág págs s "
        "vid vol".split()
    ),
    "fr": LETTERS
    | frozenset(
        "art ann apr auj av boul ca chap cf contr dir env etc ex fasc fig fr fém hab ibid id inf lib masc ms n/réf pl pp "
        "sec sect sing sq sqq suiv sup suppl tél vb vol vs éd al".split()
    ),
    "it": ENGLISH | frozenset("acc banc corr dott ecc fatt gg int lett ogg on post pp racc ric seg sgg ss tel".split()),
    "nl": frozenset(
        "bacc bc bgen dhr dr drs ds eint fa fam gen genm ing ir jhr jkvr jr kand kol lgen lkol maj mevr mr plv prof ritm "
        "tint bijv bijz bv ev nrs".split()
    ),
    "pt": LETTERS
    | ROMAN
    | ENGLISH
    | frozenset(
        "adj adm adv art cit col con corp cpl dr dra dras drs eng enga engas engos ex exo exmo fig op prof sr sra sras srs "
        "sto".split()
    ),
    "ro": frozenset("dpdv etc șamd dl d-na dvs pt".split()),
}


def abbreviations(language: str) -> frozenset[str]:
    """The list of a language, or the English one."""
    return ABBREVIATIONS.get(language, ENGLISH)
