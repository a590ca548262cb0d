"""The words of the built-in corpus: English entries with their German, Spanish and Chinese translations.

Tables are text, one entry a line, so that people can read and extend them. Fixed phrases mark alignment by hand:
``Woche:1`` translates the phrase's second English word, ``am:01`` its first two, ``la:`` none. It knows no grammar.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun; plural forms are empty where the grammar never counts it. classifier: the Chinese measure word."""

    english: str
    german: str
    german_gender: str
    spanish: str
    spanish_gender: str
    chinese: str
    classifier: str
    person: bool = False
    name: bool = False
    english_plural: str = ""
    german_plural: str = ""
    spanish_plural: str = ""


@dataclass(frozen=True, slots=True)
class Adjective:
    """german: the stem that endings follow; chinese includes no 的."""

    english: str
    german: str
    spanish_masculine: str
    spanish_feminine: str
    chinese: str
    german_predicate: str


@dataclass(frozen=True, slots=True)
class Verb:
    """One sense of an English verb. Senses that share English forms are told apart by what follows (see ``decided_by``).

    particle: the English particle; german_particle: the separable prefix; german_case: the case of the object.
    chinese: the verb, or ``before+after`` around its object; stative Chinese verbs take no 了.
    objects: the pool of nouns for the object, or "" (intransitive). frame: see grammar.py.
    """

    base: str
    third: str
    past: str
    participle: str
    particle: str
    german: str
    german_third: str
    german_particle: str
    german_participle: str
    german_auxiliary: str
    german_case: str
    spanish: str
    spanish_present: str
    spanish_past: str
    spanish_participle: str
    chinese: str
    objects: str
    frame: str
    weight: float
    stative: bool = False


@dataclass(frozen=True, slots=True)
class Fixed:
    """A phrase translated as a whole: words with the indices (into the English phrase) that they translate."""

    english: tuple[str, ...]
    german: tuple[tuple[str, tuple[int, ...]], ...]
    spanish: tuple[tuple[str, tuple[int, ...]], ...]
    chinese: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Sense:
    """A noun that the phrase behind it disambiguates."""

    noun: Noun
    tail: Fixed
    weight: float


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _marked(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((word, tuple(map(int, marks))) for word, _, marks in (item.partition(":") for item in text.split()))


def _fixed(english: str, german: str, spanish: str, chinese: str) -> Fixed:
    return Fixed(tuple(english.split()), _marked(german), _marked(spanish), _marked(chinese))


def _noun(text: str, plurals: str = "", *, person: bool = False) -> Noun:
    forms = plurals.split() or ["", "", ""]
    english, german, german_gender, spanish, spanish_gender, chinese, classifier = text.split()
    return Noun(
        english=english,
        german=german,
        german_gender=german_gender,
        spanish=spanish,
        spanish_gender=spanish_gender,
        chinese=chinese,
        classifier=classifier,
        person=person,
        english_plural=forms[0],
        german_plural=forms[1],
        spanish_plural=forms[2],
    )


PEOPLE = [
    _noun(row[0], person=True)
    for row in _rows("""
farmer Landwirt m granjero m 农夫 个
teacher Lehrer m profesor m 老师 个
doctor Arzt m médico m 医生 个
girl Mädchen n chica f 女孩 个
woman Frau f mujer f 女人 个
king König m rey m 国王 个
queen Königin f reina f 女王 个
baker Bäcker m panadero m 面包师 个
sister Schwester f hermana f 姐姐 个
brother Bruder m hermano m 哥哥 个
captain Kapitän m capitán m 船长 个
engineer Ingenieur m ingeniero m 工程师 个
singer Sänger m cantante m 歌手 个
lawyer Anwalt m abogado m 律师 个
grandmother Großmutter f abuela f 奶奶 个
""")
]

_RELATED = ("sister", "brother", "grandmother", "doctor", "lawyer", "teacher")
RELATIONS = [noun for noun in PEOPLE if noun.english in _RELATED]  # whom one calls "my"

NAMES = [
    Noun(name, name, gender, name, gender, chinese, "", person=True, name=True)
    for name, gender, chinese in (
        ("Anna", "f", "安娜"),
        ("Peter", "m", "彼得"),
        ("Maria", "f", "玛丽"),
        ("Paul", "m", "保罗"),
        ("Julia", "f", "朱莉"),
        ("David", "m", "大卫"),
        ("Sofia", "f", "索菲"),
        ("Martin", "m", "马丁"),
    )
]

PRONOUNS = [
    Noun("he", "er", "m", "él", "m", "他", "", person=True, name=True),
    Noun("she", "sie", "f", "ella", "f", "她", "", person=True, name=True),
]

_THINGS = _rows("""
house Haus n casa f 房子 座 | | build see
car Auto n coche m 汽车 辆 | cars Autos coches | machine
book Buch n libro m 书 本 | books Bücher libros | portable
letter Brief m carta f 信 封 | letters Briefe cartas | portable
door Tür f puerta f 门 扇 | | paint
window Fenster n ventana f 窗户 扇 | | paint
bicycle Fahrrad n bicicleta f 自行车 辆 | bicycles Fahrräder bicicletas | machine
picture Bild n cuadro m 画 幅 | pictures Bilder cuadros | portable flat draw
table Tisch m mesa f 桌子 张 | | build
lamp Lampe f lámpara f 灯 盏 | | device machine upright
apple Apfel m manzana f 苹果 个 | apples Äpfel manzanas | portable
flower Blume f flor f 花 朵 | flowers Blumen flores | portable draw upright
boat Boot n barco m 船 条 | | machine build
clock Uhr f reloj m 钟 个 | | machine portable flat
guitar Gitarre f guitarra f 吉他 把 | | portable flat
cup Tasse f taza f 杯子 个 | | portable upright
key Schlüssel m llave f 钥匙 把 | keys Schlüssel llaves | portable flat
ticket Fahrkarte f billete m 票 张 | tickets Fahrkarten billetes | portable
newspaper Zeitung f periódico m 报纸 份 | newspapers Zeitungen periódicos | portable
bottle Flasche f botella f 瓶子 个 | bottles Flaschen botellas | portable upright
chair Stuhl m silla f 椅子 把 | | build paint
camera Kamera f cámara f 相机 台 | cameras Kameras cámaras | portable device machine
computer Computer m ordenador m 电脑 台 | computers Computer ordenadores | device machine
""")

POOLS: dict[str, list[Noun]] = {"people": PEOPLE}
for _entry, _plurals, _tags in _THINGS:
    _thing = _noun(_entry, _plurals)
    for _tag in ("things", *_tags.split()):
        POOLS.setdefault(_tag, []).append(_thing)

for _pool, _table in {
    "facts": """
answer Antwort f respuesta f 答案 个
secret Geheimnis n secreto m 秘密 个
address Adresse f dirección f 地址 个
reason Grund m motivo m 原因 个
""",
    "money": "money Geld n dinero m 钱 笔",
    "seasons": """
summer Sommer m verano m 夏天 个
evening Abend m noche f 晚上 个
""",
    "trains": """
train Zug m tren m 火车 列
bus Bus m autobús m 公交车 辆
""",
    "offers": """
offer Angebot n oferta f 提议 个
invitation Einladung f invitación f 邀请 个
""",
    "places": """
garden Garten m jardín m 花园 个
city Stadt f ciudad f 城市 座
village Dorf n pueblo m 村子 个
kitchen Küche f cocina f 厨房 间
school Schule f escuela f 学校 所
station Bahnhof m estación f 车站 个
forest Wald m bosque m 森林 片
market Markt m mercado m 市场 个
library Bibliothek f biblioteca f 图书馆 座
museum Museum n museo m 博物馆 座
hotel Hotel n hotel m 酒店 家
hospital Krankenhaus n hospital m 医院 家
""",
}.items():
    POOLS[_pool] = [_noun(_row[0]) for _row in _rows(_table)]

ADJECTIVES = [
    Adjective(*row)
    for row in (
        (english, german[0], *spanish, chinese, german[-1])
        for english, german, spanish, chinese in (
            (row[0], row[1].split(), (row[2].split() * 2)[:2], row[3])
            for row in _rows("""
old|alt|viejo vieja|旧
new|neu|nuevo nueva|新
red|rot|rojo roja|红色
small|klein|pequeño pequeña|小
beautiful|schön|hermoso hermosa|漂亮
expensive|teur teuer|caro cara|昂贵
green|grün|verde|绿色
heavy|schwer|pesado pesada|沉重
young|jung|joven|年轻
famous|berühmt|famoso famosa|著名
tired|müd müde|cansado cansada|疲惫
""")
        )
    )
]
PERSON_ADJECTIVES = ADJECTIVES[-3:]
PLACE_ADJECTIVES = [word for word in ADJECTIVES if word.english in ("old", "new", "small", "beautiful", "famous")]
THING_ADJECTIVES = ADJECTIVES[:-3]

# English base third past participle [particle] | German infinitive third particle participle auxiliary case |
# Spanish infinitive present past participle | Chinese (! stative) | object pool | frame | weight among its senses
_VERBS = """
buy buys bought bought|kaufen kauft - gekauft hat acc|comprar compra compró comprado|买|things|object|1
sell sells sold sold|verkaufen verkauft - verkauft hat acc|vender vende vendió vendido|卖|things|object|1
find finds found found|finden findet - gefunden hat acc|encontrar encuentra encontró encontrado|找到|things|object|1
repair repairs repaired repaired|reparieren repariert - repariert hat acc|reparar repara reparó reparado|修理|machine|object|1
paint paints painted painted|streichen streicht - gestrichen hat acc|pintar pinta pintó pintado|粉刷|paint|object|.7
paint paints painted painted|malen malt - gemalt hat acc|pintar pinta pintó pintado|画|draw|object|.3
steal steals stole stolen|stehlen stiehlt - gestohlen hat acc|robar roba robó robado|偷|portable|object|1
describe describes described described|beschreiben beschreibt - beschrieben hat acc|describir describe describió descrito|描述|things|object|1
see sees saw seen|sehen sieht - gesehen hat acc|ver ve vio visto|看见|things|object|1
build builds built built|bauen baut - gebaut hat acc|construir construye construyó construido|造|build|object|1
visit visits visited visited|besuchen besucht - besucht hat acc|visitar visita visitó visitado|看望|people|object|1
invite invites invited invited|einladen lädt ein eingeladen hat acc|invitar invita invitó invitado|邀请|people|object|1
call calls called called|anrufen ruft an angerufen hat acc|llamar llama llamó llamado|给+打电话|people|object|1
help helps helped helped|helfen hilft - geholfen hat dat|ayudar ayuda ayudó ayudado|帮助|people|object|1
know knows knew known|kennen kennt - gekannt hat acc|conocer conoce conocía conocido|认识!|people|object|.65
know knows knew known|wissen weiß - gewusst hat acc|saber sabe sabía sabido|知道!|facts|object|.35
leave leaves left left|verlassen verlässt - verlassen hat acc|abandonar abandona abandonó abandonado|离开|places|object|.65
leave leaves left left|lassen lässt - gelassen hat acc|dejar deja dejó dejado|把+留|portable|leave|.35
spend spends spent spent|verbringen verbringt - verbracht hat acc|pasar pasa pasó pasado|度过|seasons|object|.65
spend spends spent spent|ausgeben gibt aus ausgegeben hat acc|gastar gasta gastó gastado|花掉|money|object|.35
save saves saved saved|retten rettet - gerettet hat acc|salvar salva salvó salvado|救|people|object|.65
save saves saved saved|sparen spart - gespart hat acc|ahorrar ahorra ahorró ahorrado|存下|money|object|.35
miss misses missed missed|vermissen vermisst - vermisst hat acc|extrañar extraña extrañaba extrañado|想念!|people|object|.65
miss misses missed missed|verpassen verpasst - verpasst hat acc|perder pierde perdió perdido|错过|trains|object|.35
pick picks picked picked up|aufheben hebt auf aufgehoben hat acc|recoger recoge recogió recogido|把+捡起来|portable|particle|.65
pick picks picked picked out|aussuchen sucht aus ausgesucht hat acc|elegir elige eligió elegido|把+选出来|portable|particle|.35
turn turns turned turned on|einschalten schaltet ein eingeschaltet hat acc|encender enciende encendió encendido|把+打开|device|particle|.4
turn turns turned turned off|ausschalten schaltet aus ausgeschaltet hat acc|apagar apaga apagó apagado|把+关掉|device|particle|.4
turn turns turned turned down|ablehnen lehnt ab abgelehnt hat acc|rechazar rechaza rechazó rechazado|拒绝|offers|particle|.2
take takes took taken along|mitnehmen nimmt mit mitgenommen hat acc|llevar lleva llevó llevado|把+带走|portable|particle|.65
take takes took taken apart|zerlegen zerlegt - zerlegt hat acc|desmontar desmonta desmontó desmontado|把+拆开|machine|particle|.35
give gives gave given back|zurückgeben gibt zurück zurückgegeben hat acc|devolver devuelve devolvió devuelto|把+还回去|portable|particle|.3
give gives gave given|geben gibt - gegeben hat acc|dar da dio dado|给|portable|give|.6
throw throws threw thrown away|wegwerfen wirft weg weggeworfen hat acc|tirar tira tiró tirado|把+扔掉|portable|particle|1
put puts put put|stellen stellt - gestellt hat acc|poner pone puso puesto|把+放|upright|put|.6
put puts put put|hängen hängt - gehängt hat acc|colgar cuelga colgó colgado|把+挂|flat|hang|.25
put puts put put away|wegräumen räumt weg weggeräumt hat acc|guardar guarda guardó guardado|把+收起来|portable|particle|.15
ask asks asked asked|fragen fragt - gefragt hat acc|preguntar pregunta preguntó preguntado|向+打听|people|about|.6
ask asks asked asked|bitten bittet - gebeten hat acc|pedir pide pidió pedido|向+要|people|for|.4
sleep sleeps slept slept|schlafen schläft - geschlafen hat acc|dormir duerme durmió dormido|睡觉||plain|1
wait waits waited waited|warten wartet - gewartet hat acc|esperar espera esperó esperado|等待||plain|1
work works worked worked|arbeiten arbeitet - gearbeitet hat acc|trabajar trabaja trabajó trabajado|工作||plain|1
arrive arrives arrived arrived|ankommen kommt an angekommen ist acc|llegar llega llegó llegado|到达||plain|1
return returns returned returned|zurückkommen kommt zurück zurückgekommen ist acc|volver vuelve volvió vuelto|回来||plain|1
"""


def _verb(row: list[str]) -> Verb:
    base, third, past, participle, *particle = row[0].split()
    german, german_third, german_particle, german_participle, auxiliary, case = row[1].split()
    chinese = row[3].rstrip("!")
    return Verb(
        *(base, third, past, participle, "".join(particle)),
        *(german, german_third, german_particle.strip("-"), german_participle, auxiliary, case),
        *row[2].split(),
        chinese,
        objects=row[4],
        frame=row[5],
        weight=float(row[6]),
        stative=row[3].endswith("!"),
    )


GO = _verb(
    _rows("go goes went gone|gehen geht - gegangen ist acc|ir va fue ido|去||plain|1")[0],
)
VERBS = [_verb(row) for row in _rows(_VERBS)]
SENSES_OF_VERBS: dict[str, list[Verb]] = {}
for _sense in VERBS:
    SENSES_OF_VERBS.setdefault(_sense.base, []).append(_sense)

# noun | tail, each in English, German, Spanish, Chinese | weight
_SENSES = """
bank Bank f banco m 银行 家|in the city|in:0 der:1 Stadt:2|en:0 la:1 ciudad:2|城市:2 里:0 的:|.7
bank Ufer n orilla f 堤岸 段|by the river|am:01 Fluss:2|junto:0 al:01 río:2|河:2 边:0 的:|.3
letter Brief m carta f 信 封|from the king|vom:01 König:2|del:01 rey:2|国王:2 的:0|.7
letter Buchstabe m letra f 字母 个|of the alphabet|des:01 Alphabets:2|del:01 alfabeto:2|字母表:2 的:0|.3
key Schlüssel m llave f 钥匙 把|to the house|zum:01 Haus:2|de:0 la:1 casa:2|房子:2 的:0|.7
key Taste f tecla f 琴键 个|of the piano|des:01 Klaviers:2|del:01 piano:2|钢琴:2 的:0|.3
bat Fledermaus f murciélago m 蝙蝠 只|in the forest|im:01 Wald:2|en:0 el:1 bosque:2|森林:2 里:0 的:|.4
bat Schläger m bate m 球棒 根|in the box|in:0 der:1 Kiste:2|en:0 la:1 caja:2|箱子:2 里:0 的:|.6
crane Kran m grúa f 起重机 台|by the house|am:01 Haus:2|junto:0 a:0 la:1 casa:2|房子:2 旁:0 的:|.7
crane Kranich m grulla f 鹤 只|by the lake|am:01 See:2|junto:0 al:01 lago:2|湖:2 边:0 的:|.3
match Spiel n partido m 比赛 场|in the stadium|im:01 Stadion:2|en:0 el:1 estadio:2|体育场:2 里:0 的:|.7
match Streichholz n cerilla f 火柴 根|in the box|in:0 der:1 Kiste:2|en:0 la:1 caja:2|箱子:2 里:0 的:|.3
trunk Stamm m tronco m 树干 根|of the tree|des:01 Baumes:2|del:01 árbol:2|树:2 的:0|.7
trunk Rüssel m trompa f 鼻子 个|of the elephant|des:01 Elefanten:2|del:01 elefante:2|大象:2 的:0|.3
"""
SENSES = [Sense(_noun(row[0]), _fixed(*row[1:5]), float(row[5])) for row in _rows(_SENSES)]

TIMES = {
    "past": [
        _fixed("yesterday", "gestern:0", "ayer:0", "昨天:0"),
        _fixed("last week", "letzte:0 Woche:1", "la: semana:1 pasada:0", "上:0 周:1"),
        _fixed("this morning", "heute:0 Morgen:1", "esta:0 mañana:1", "今天:0 早上:1"),
    ],
    "present": [
        _fixed("today", "heute:0", "hoy:0", "今天:0"),
        _fixed("every day", "jeden:0 Tag:1", "cada:0 día:1", "每:0 天:1"),
        _fixed("now", "jetzt:0", "ahora:0", "现在:0"),
    ],
    "modal": [
        _fixed("tomorrow", "morgen:0", "mañana:0", "明天:0"),
        _fixed("next week", "nächste:0 Woche:1", "la: semana:1 próxima:0", "下:0 周:1"),
    ],
}
AGO = [
    ("days", "Tagen", "días", "天"),
    ("weeks", "Wochen", "semanas", "周"),
    ("years", "Jahren", "años", "年"),
]
NUMBERS = [
    ("two", "zwei", "dos", "两"),
    ("three", "drei", "tres", "三"),
    ("four", "vier", "cuatro", "四"),
    ("five", "fünf", "cinco", "五"),
    ("six", "sechs", "seis", "六"),
    ("seven", "sieben", "siete", "七"),
    ("eight", "acht", "ocho", "八"),
    ("ten", "zehn", "diez", "十"),
    ("twelve", "zwölf", "doce", "十二"),
    ("twenty", "zwanzig", "veinte", "二十"),
    ("twenty-five", "fünfundzwanzig", "veinticinco", "二十五"),
]
SURFACES = {
    "put": [
        _fixed("on the table", "auf:0 den:1 Tisch:2", "en:0 la:1 mesa:2", "桌子:2 上:0"),
        _fixed("on the floor", "auf:0 den:1 Boden:2", "en:0 el:1 suelo:2", "地板:2 上:0"),
        _fixed("by the window", "ans:01 Fenster:2", "junto:0 a:0 la:1 ventana:2", "窗户:2 边:0"),
    ],
    "hang": [
        _fixed("on the wall", "an:0 die:1 Wand:2", "en:0 la:1 pared:2", "墙:2 上:0"),
        _fixed("on the hook", "an:0 den:1 Haken:2", "en:0 el:1 gancho:2", "钩子:2 上:0"),
    ],
}
MODALS = [
    _fixed("can", "kann:0", "puede:0", "能:0"),
    _fixed("must", "muss:0", "debe:0", "必须:0"),
    _fixed("wants to", "will:0", "quiere:0", "想:0"),
    _fixed("should", "soll:0", "debería:0", "应该:0"),
]
REPORTS = [
    _fixed("I think", "ich:0 glaube,:1", "creo:01 que:", "我:0 认为:1"),
    _fixed("we know", "wir:0 wissen,:1", "sabemos:01 que:", "我们:0 知道:1"),
    _fixed("everyone says", "jeder:0 sagt,:1", "todos:0 dicen:1 que:", "大家:0 说:1"),
    _fixed("my friend believes", "mein:0 Freund:1 glaubt,:2", "mi:0 amigo:1 cree:2 que:", "我:0 的:0 朋友:1 相信:2"),
]
CONJUNCTIONS = [
    _fixed("because", "weil:0", "porque:0", "因为:0"),
    _fixed("although", "obwohl:0", "aunque:0", "虽然:0"),
    _fixed("when", "als:0", "cuando:0", "当:0"),
    _fixed("if", "wenn:0", "si:0", "如果:0"),
]
FILLERS = ("um,", "uh,")
