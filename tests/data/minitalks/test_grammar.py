"""The built-in grammar: expected translations by construct, measured properties of the language."""

import random

import pytest

from zoo.base.languages import language
from zoo.data.minitalks import lexicon
from zoo.data.minitalks.grammar import LONGEST, Sentence, realise, sentence
from zoo.data.minitalks.lexicon import Adjective, FixedPhrase, Noun, Verb
from zoo.data.minitalks.statistics import lookahead_statistics
from zoo.data.minitalks.tree import Clause, NounPhrase, SentencePlan

LANGUAGES = ("de", "es", "zh")
ADJECTIVES = {word.english: word for word in lexicon.THING_ADJECTIVES + lexicon.PERSON_ADJECTIVES}
NOUNS = {
    noun.english: noun
    for pool in (*lexicon.POOLS.values(), lexicon.NAMES, lexicon.PRONOUNS)
    for noun in pool
}


@pytest.fixture(scope="module")
def sentences() -> list[Sentence]:
    rng = random.Random(1)
    return [sentence(rng) for _ in range(4000)]


def noun(english: str) -> Noun:
    return NOUNS[english]


def np(text: str, **more: object) -> NounPhrase:
    """A noun phrase from "the old house", "Anna"."""
    *others, head = text.split()
    adjective: Adjective | None = ADJECTIVES[others[1]] if len(others) > 1 else None
    return NounPhrase(noun(head), others[0] if others else "", adjective, **more)  # type: ignore[arg-type]


def verb(german: str) -> Verb:
    return next(item for item in lexicon.VERBS if item.german == german)


def time(tense: str, english: str) -> FixedPhrase:
    return next(item for item in lexicon.TIMES[tense] if " ".join(item.english) == english)


def sense(german: str) -> NounPhrase:
    item = next(item for item in lexicon.NOUN_SENSES if item.noun.german == german)
    return NounPhrase(item.noun, "the", modifier=item.modifier)


def texts(plan: SentencePlan | Clause) -> tuple[str, ...]:
    result = realise(plan if isinstance(plan, SentencePlan) else SentencePlan(plan))
    return (" ".join(result.words), *(result.targets[code].text for code in LANGUAGES))


def needs(plan: SentencePlan | Clause, code: str, word: str) -> set[str]:
    """The English words that a target word needs."""
    result = realise(plan if isinstance(plan, SentencePlan) else SentencePlan(plan))
    at = result.targets[code].words.index(word)
    return {result.words[index] for index in result.targets[code].needs[at]}


def test_perfect_bracket_and_gender() -> None:
    clause = Clause(np("the young farmer"), verb("kaufen"), "past", object=np("a red house"))
    assert texts(clause) == (
        "The young farmer bought a red house.",
        "Der junge Landwirt hat ein rotes Haus gekauft.",
        "El granjero joven compró una casa roja.",
        "年轻的农夫买了一座红色的房子。",
    )
    assert needs(clause, "de", "Der") == {"The", "farmer"}
    assert needs(clause, "de", "ein") == {"a", "house."}


def test_modal_bracket_and_number() -> None:
    number = next(item for item in lexicon.NUMBERS if item[0] == "three")
    letters = NounPhrase(noun("letter"), number=number)
    clause = Clause(np("Anna"), verb("wegwerfen"), "modal", modal=lexicon.MODALS[2], object=letters)
    assert texts(clause) == (
        "Anna wants to throw three letters away.",
        "Anna will drei Briefe wegwerfen.",
        "Anna quiere tirar tres cartas.",
        "安娜想把三封信扔掉。",
    )


def test_separable_verb_hangs_on_the_late_particle() -> None:
    up = Clause(np("the king"), verb("aufheben"), "present", object=np("the letter"))
    out = Clause(np("the king"), verb("aussuchen"), "present", object=np("the letter"))
    assert texts(up) == (
        "The king picks the letter up.",
        "Der König hebt den Brief auf.",
        "El rey recoge la carta.",
        "国王把信捡起来。",
    )
    assert texts(out)[:2] == ("The king picks the letter out.", "Der König sucht den Brief aus.")
    assert needs(up, "de", "hebt") == {"picks", "up."}
    assert needs(up, "es", "recoge") == {"picks", "up."}


def test_object_decides_the_verb() -> None:
    person = Clause(np("Anna"), verb("kennen"), "present", object=np("the teacher"))
    fact = Clause(np("Anna"), verb("wissen"), "present", object=np("the answer"))
    assert texts(person) == (
        "Anna knows the teacher.",
        "Anna kennt den Lehrer.",
        "Anna conoce al profesor.",
        "安娜认识老师。",
    )
    assert texts(fact) == (
        "Anna knows the answer.",
        "Anna weiß die Antwort.",
        "Anna sabe la respuesta.",
        "安娜知道答案。",
    )
    assert needs(fact, "de", "weiß") == {"knows", "answer."}


def test_following_phrase_decides_the_noun() -> None:
    river = Clause(np("Anna"), verb("sehen"), "past", object=sense("Ufer"))
    city = Clause(np("Anna"), verb("sehen"), "past", object=sense("Bank"))
    assert texts(river) == (
        "Anna saw the bank by the river.",
        "Anna hat das Ufer am Fluss gesehen.",
        "Anna vio la orilla junto al río.",
        "安娜看见了河边的堤岸。",
    )
    assert texts(city)[1:3] == (
        "Anna hat die Bank in der Stadt gesehen.",
        "Anna vio el banco en la ciudad.",
    )
    assert "river." in needs(river, "de", "das")
    assert "river." in needs(river, "de", "Ufer")


def test_surface_decides_the_verb() -> None:
    wall = Clause(
        np("he"),
        verb("hängen"),
        "past",
        object=np("the picture"),
        surface=lexicon.SURFACES["hang"][0],
    )
    assert texts(wall) == (
        "He put the picture on the wall.",
        "Er hat das Bild an die Wand gehängt.",
        "Él colgó el cuadro en la pared.",
        "他把画挂在了墙上。",
    )


def test_relative_clauses() -> None:
    subject = np("the girl")
    subject.relative = Clause(subject, verb("schlafen"), "past", gap="subject")
    thing = np("the lamp")
    thing.relative = Clause(np("Peter"), verb("verkaufen"), "past", gap="object")
    assert texts(Clause(subject, verb("reparieren"), "past", object=thing)) == (
        "The girl who slept repaired the lamp that Peter sold.",
        "Das Mädchen, das geschlafen hat, hat die Lampe, die Peter verkauft hat, repariert.",
        "La chica que durmió reparó la lámpara que Peter vendió.",
        "睡觉了的女孩修理了彼得卖的灯。",
    )


def test_verb_final_clauses_fronted_and_not() -> None:
    arrived = Clause(np("the doctor"), verb("ankommen"), "past")
    invited = Clause(np("Maria"), verb("einladen"), "past", object=np("the sister"))
    fronted = SentencePlan(
        invited, conjunction=lexicon.CONJUNCTIONS[0], subordinate=arrived, subordinate_first=True
    )
    assert texts(fronted) == (
        "Because the doctor arrived, Maria invited the sister.",
        "Weil der Arzt angekommen ist, hat Maria die Schwester eingeladen.",
        "Como el médico llegó, Maria invitó a la hermana.",
        "因为医生到达了，所以玛丽邀请了姐姐。",
    )
    assert texts(SentencePlan(invited, conjunction=lexicon.CONJUNCTIONS[1], subordinate=arrived))[
        1
    ] == ("Maria hat die Schwester eingeladen, obwohl der Arzt angekommen ist.")


def test_when_hangs_on_the_tense() -> None:
    def plan(tense: str) -> SentencePlan:
        clauses = [Clause(np(name), verb("arbeiten"), tense) for name in ("Anna", "Peter")]  # type: ignore[arg-type]
        return SentencePlan(
            clauses[0],
            conjunction=lexicon.CONJUNCTIONS[2],
            subordinate=clauses[1],
            subordinate_first=True,
        )

    assert texts(plan("past"))[1] == "Als Peter gearbeitet hat, hat Anna gearbeitet."
    assert texts(plan("present"))[1] == "Wenn Peter arbeitet, arbeitet Anna."
    assert texts(plan("present"))[3] == "当彼得工作时，安娜工作。"
    assert needs(plan("past"), "de", "Als") == {"When", "worked,"}


def test_reported_clause_without_that() -> None:
    clause = Clause(np("the queen"), verb("anrufen"), "present", object=np("Martin"))
    plan = SentencePlan(None, report=lexicon.REPORTS[0], subordinate=clause, that=False)
    assert texts(plan) == (
        "I think the queen calls Martin.",
        "Ich glaube, dass die Königin Martin anruft.",
        "Creo que la reina llama a Martin.",
        "我认为女王给马丁打电话。",
    )
    assert realise(plan).targets["de"].alignment[2] == ()


def test_negation() -> None:
    none = Clause(np("Anna"), verb("bauen"), "past", object=np("a table"), negated=True)
    assert texts(none) == (
        "Anna did not build a table.",
        "Anna hat keinen Tisch gebaut.",
        "Anna no construyó una mesa.",
        "安娜没造一张桌子。",
    )
    place = Clause(np("Anna"), verb("schlafen"), "present", place=np("the garden"), negated=True)
    assert texts(place)[1:] == (
        "Anna schläft nicht im Garten.",
        "Anna no duerme en el jardín.",
        "安娜不在花园里睡觉。",
    )


def test_passive_and_copula() -> None:
    passive = Clause(np("the door"), verb("streichen"), "past", object=np("the king"), passive=True)
    assert texts(passive) == (
        "The door was painted by the king.",
        "Die Tür wurde vom König gestrichen.",
        "La puerta fue pintada por el rey.",
        "门被国王粉刷了。",
    )
    assert needs(passive, "de", "wurde") == {"was", "painted"}
    tired = Clause(np("the queen"), None, "past", predicate=ADJECTIVES["tired"])
    assert texts(tired)[1:] == ("Die Königin war müde.", "La reina estaba cansada.", "女王很疲惫。")


def test_questions() -> None:
    go = Clause(np("the baker"), lexicon.GO, "past", question="where")
    sleep = Clause(np("the baker"), verb("schlafen"), "past", question="where")
    help_whom = Clause(
        np("the baker"), verb("helfen"), "present", object=np("Anna"), question="whom"
    )
    polar = Clause(np("Anna"), verb("kaufen"), "past", object=np("this car"), question="polar")
    assert texts(go)[1:] == (
        "Wohin ist der Bäcker gegangen?",
        "¿Adónde fue el panadero?",
        "面包师去了哪里？",
    )
    assert texts(sleep)[1:] == (
        "Wo hat der Bäcker geschlafen?",
        "¿Dónde durmió el panadero?",
        "面包师在哪里睡觉？",
    )
    assert texts(help_whom)[1:] == (
        "Wem hilft der Bäcker?",
        "¿A quién ayuda el panadero?",
        "面包师帮助谁？",
    )
    assert texts(polar)[1:] == (
        "Hat Anna dieses Auto gekauft?",
        "¿Compró Anna este coche?",
        "安娜买了这辆汽车吗？",
    )
    assert needs(go, "de", "Wohin") == {"Where", "did", "go?"}


def test_time_and_place_orders() -> None:
    clause = Clause(
        np("Paul"), verb("arbeiten"), "past", place=np("the school"), time=time("past", "yesterday")
    )
    assert texts(clause) == (
        "Paul worked in the school yesterday.",
        "Paul hat gestern in der Schule gearbeitet.",
        "Paul trabajó en la escuela ayer.",
        "保罗昨天在学校里工作了。",
    )
    clause.time_first = True
    assert texts(clause)[1] == "Gestern hat Paul in der Schule gearbeitet."


def test_same_rng_same_sentences() -> None:
    def draw(seed: int) -> list[Sentence]:
        rng = random.Random(seed)
        return [sentence(rng) for _ in range(50)]

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)


@pytest.mark.parametrize("code", LANGUAGES)
def test_words_join_to_the_text_and_indices_are_valid(sentences: list[Sentence], code: str) -> None:
    for item in sentences:
        target = item.targets[code]
        assert language(code).join(target.words) == target.text
        assert language(code).units(target.text) == list(target.words)
        assert len(target.words) == len(target.alignment) == len(target.needs)
        for align, need in zip(target.alignment, target.needs, strict=True):
            assert set(align) <= set(need)
            assert all(0 <= index < len(item.words) for index in need)


def test_capitals_and_final_marks(sentences: list[Sentence]) -> None:
    marks = {".": (".", ".", "。"), "?": ("?", "?", "？")}
    for item in sentences:
        assert item.words[0][0].isupper()
        for code, mark in zip(LANGUAGES, marks[item.words[-1][-1]], strict=True):
            text = item.targets[code].text
            assert text.endswith(mark)
            assert code == "zh" or text.lstrip("¿")[0].isupper()
            assert text.startswith("¿") == (code == "es" and mark == "?")


def test_disfluencies_have_no_counterpart(sentences: list[Sentence]) -> None:
    seen = 0
    for item in sentences:
        for at, word in enumerate(item.words):
            if word in lexicon.FILLERS:
                seen += 1
                assert all(
                    at not in align
                    for target in item.targets.values()
                    for align in target.alignment
                )
    assert seen > 50


def test_size_of_the_language(sentences: list[Sentence]) -> None:
    types = {word.strip(".,?").lower() for item in sentences for word in item.words}
    german = {word.strip(".,?").lower() for item in sentences for word in item.targets["de"].words}
    lengths = [len(item.words) for item in sentences]
    assert 200 <= len(types) <= 300
    assert 300 <= len(german) <= 390
    assert 9 <= sum(lengths) / len(lengths) <= 11
    assert max(lengths) <= LONGEST
    assert len({item.words for item in sentences}) > 0.95 * len(sentences)


def test_lookahead_share_is_at_least_fifteen_percent(sentences: list[Sentence]) -> None:
    statistics = lookahead_statistics(sentences)
    for code in LANGUAGES:
        print(code, {name: round(share, 4) for name, share in statistics[code].items()})
        assert statistics[code]["lookahead"] >= 0.15
    assert 0.10 <= statistics["de"]["guess_1"] <= 0.14
    assert (
        statistics["de"]["guess_1"]
        > statistics["de"]["guess_2"]
        > statistics["de"]["guess_4"]
        > 0.02
    )


def test_lookahead_statistics_by_hand() -> None:
    """Der[0; needs 2] König hat[2] gebaut: one of five words depends on the word two ahead.

    That word is guessed in 2 of 2.5 chunk phases.
    """
    result = realise(SentencePlan(Clause(np("the young king"), verb("schlafen"), "past")))
    target = result.targets["de"]
    assert target.words == ("Der", "junge", "König", "hat", "geschlafen.")
    assert target.needs == ((0, 2), (1, 2), (2,), (3,), (3,))
    statistics = lookahead_statistics([result])["de"]
    assert statistics["lookahead"] == pytest.approx(1 / 5)
    assert statistics["guess_1"] == pytest.approx((2 / 2.5 + 1 / 2.5) / 5)
    assert statistics["guess_2"] == pytest.approx((2 / 5 + 1 / 5) / 5)
