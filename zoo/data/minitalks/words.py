"""Word tables of the built-in corpus in English, German, Spanish and Chinese.

``lexicon.py`` parses them. A noun has the columns English, German, German gender, Spanish, Spanish
gender, Chinese and Chinese measure word. In fixed phrases the digits after a colon are indices of
English words: ``Woche:1`` translates the second English word of the phrase, ``am:01`` the first
two, and ``la:`` none.
"""

PEOPLE = """
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
"""

# name | gender | Chinese
NAMES = """
Anna|f|安娜
Peter|m|彼得
Maria|f|玛丽
Paul|m|保罗
Julia|f|朱莉
David|m|大卫
Sofia|f|索菲
Martin|m|马丁
"""

# Names of tst_hard only.
RARE_NAMES = """
Wolfgang|m|沃尔夫冈
Svetlana|f|斯维特拉娜
Leopold|m|利奥波德
Isadora|f|伊莎多拉
Bartholomew|m|巴塞洛缪
Guinevere|f|桂妮维亚
Montgomery|m|蒙哥马利
Philippa|f|菲利帕
"""

# noun | plurals in English, German, Spanish (empty: never counted) | pools in addition to "things"
THINGS = """
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
"""

POOLS = {
    "money": "money Geld n dinero m 钱 笔",
    "facts": """
answer Antwort f respuesta f 答案 个
secret Geheimnis n secreto m 秘密 个
address Adresse f dirección f 地址 个
reason Grund m motivo m 原因 个
""",
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
}

# English | German stem, and the predicate where it differs | Spanish masculine, feminine | Chinese
THING_ADJECTIVES = """
old|alt|viejo vieja|旧
new|neu|nuevo nueva|新
red|rot|rojo roja|红色
small|klein|pequeño pequeña|小
beautiful|schön|hermoso hermosa|漂亮
expensive|teur teuer|caro cara|昂贵
green|grün|verde|绿色
heavy|schwer|pesado pesada|沉重
"""
PERSON_ADJECTIVES = """
young|jung|joven|年轻
famous|berühmt|famoso famosa|著名
tired|müd müde|cansado cansada|疲惫
"""

# English base, third person, past, participle if different, +particle
# | German infinitive, third person, participle, separable prefix, (ist) if it is the perfect's
#   auxiliary, (dat) if the object is in the dative
# | Spanish infinitive, present, past, participle
# | Chinese, "before+after" if it surrounds the object, "!" if the verb is stative
# | pool of objects | weight (default 1) | frame
VERBS = """
buy buys bought|kaufen kauft gekauft|comprar compra compró comprado|买|things
sell sells sold|verkaufen verkauft verkauft|vender vende vendió vendido|卖|things
find finds found|finden findet gefunden|encontrar encuentra encontró encontrado|找到|things
repair repairs repaired|reparieren repariert repariert|reparar repara reparó reparado|修理|machine
paint paints painted|streichen streicht gestrichen|pintar pinta pintó pintado|粉刷|paint|.7
paint paints painted|malen malt gemalt|pintar pinta pintó pintado|画|draw|.3
steal steals stole stolen|stehlen stiehlt gestohlen|robar roba robó robado|偷|portable
describe describes described|beschreiben beschreibt beschrieben|describir describe describió descrito|描述|things
see sees saw seen|sehen sieht gesehen|ver ve vio visto|看见|things
build builds built|bauen baut gebaut|construir construye construyó construido|造|build
visit visits visited|besuchen besucht besucht|visitar visita visitó visitado|看望|people
invite invites invited|einladen lädt eingeladen ein|invitar invita invitó invitado|邀请|people
call calls called|anrufen ruft angerufen an|llamar llama llamó llamado|给+打电话|people
help helps helped|helfen hilft geholfen (dat)|ayudar ayuda ayudó ayudado|帮助|people
know knows knew known|kennen kennt gekannt|conocer conoce conocía conocido|认识!|people|.65
know knows knew known|wissen weiß gewusst|saber sabe sabía sabido|知道!|facts|.35
leave leaves left|verlassen verlässt verlassen|abandonar abandona abandonó abandonado|离开|places|.65
leave leaves left|lassen lässt gelassen|dejar deja dejó dejado|把+留|portable|.35|leave
spend spends spent|verbringen verbringt verbracht|pasar pasa pasó pasado|度过|seasons|.65
spend spends spent|ausgeben gibt ausgegeben aus|gastar gasta gastó gastado|花掉|money|.35
save saves saved|retten rettet gerettet|salvar salva salvó salvado|救|people|.65
save saves saved|sparen spart gespart|ahorrar ahorra ahorró ahorrado|存下|money|.35
miss misses missed|vermissen vermisst vermisst|extrañar extraña extrañaba extrañado|想念!|people|.65
miss misses missed|verpassen verpasst verpasst|perder pierde perdió perdido|错过|trains|.35
pick picks picked +up|aufheben hebt aufgehoben auf|recoger recoge recogió recogido|把+捡起来|portable|.65
pick picks picked +out|aussuchen sucht ausgesucht aus|elegir elige eligió elegido|把+选出来|portable|.35
turn turns turned +on|einschalten schaltet eingeschaltet ein|encender enciende encendió encendido|把+打开|device|.4
turn turns turned +off|ausschalten schaltet ausgeschaltet aus|apagar apaga apagó apagado|把+关掉|device|.4
turn turns turned +down|ablehnen lehnt abgelehnt ab|rechazar rechaza rechazó rechazado|拒绝|offers|.2
take takes took taken +along|mitnehmen nimmt mitgenommen mit|llevar lleva llevó llevado|把+带走|portable|.65
take takes took taken +apart|zerlegen zerlegt zerlegt|desmontar desmonta desmontó desmontado|把+拆开|machine|.35
give gives gave given +back|zurückgeben gibt zurückgegeben zurück|devolver devuelve devolvió devuelto|把+归还|portable|3
give gives gave given|geben gibt gegeben|dar da dio dado|给|portable|6|give
throw throws threw thrown +away|wegwerfen wirft weggeworfen weg|tirar tira tiró tirado|把+扔掉|portable
put puts put|stellen stellt gestellt|poner pone puso puesto|把+放|upright|.6|put
put puts put|hängen hängt gehängt|colgar cuelga colgó colgado|把+挂|flat|.25|hang
put puts put +away|wegräumen räumt weggeräumt weg|guardar guarda guardó guardado|把+收起来|portable|.15
ask asks asked|fragen fragt gefragt|preguntar pregunta preguntó preguntado|向+打听|people|.6|about
ask asks asked|bitten bittet gebeten|pedir pide pidió pedido|向+要|people|.4|for
sleep sleeps slept|schlafen schläft geschlafen|dormir duerme durmió dormido|睡觉
wait waits waited|warten wartet gewartet|esperar espera esperó esperado|等待
work works worked|arbeiten arbeitet gearbeitet|trabajar trabaja trabajó trabajado|工作
arrive arrives arrived|ankommen kommt angekommen an (ist)|llegar llega llegó llegado|到达
return returns returned|zurückkommen kommt zurückgekommen zurück (ist)|volver vuelve volvió vuelto|回来
"""
GO = "go goes went gone|gehen geht gegangen (ist)|ir va fue ido|去"

# noun | the modifier that determines its sense, in the four languages | weight
NOUN_SENSES = """
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

TIMES = {
    "past": """
yesterday|gestern:0|ayer:0|昨天:0
last week|letzte:0 Woche:1|la: semana:1 pasada:0|上:0 周:1
this morning|heute:0 Morgen:1|esta:0 mañana:1|今天:0 早上:1
""",
    "present": """
today|heute:0|hoy:0|今天:0
every day|jeden:0 Tag:1|cada:0 día:1|每:0 天:1
now|jetzt:0|ahora:0|现在:0
""",
    "modal": """
tomorrow|morgen:0|mañana:0|明天:0
next week|nächste:0 Woche:1|la: semana:1 próxima:0|下:0 周:1
""",
}
# units of "two days ago"
AGO = """
days|Tagen|días|天
weeks|Wochen|semanas|周
years|Jahren|años|年
"""
NUMBERS = """
two|zwei|dos|两
three|drei|tres|三
four|vier|cuatro|四
five|fünf|cinco|五
six|sechs|seis|六
seven|sieben|siete|七
eight|acht|ocho|八
ten|zehn|diez|十
twelve|zwölf|doce|十二
twenty|zwanzig|veinte|二十
twenty-five|fünfundzwanzig|veinticinco|二十五
"""
# Numbers of tst_hard only.
RARE_NUMBERS = """
thirteen|dreizehn|trece|十三
seventeen|siebzehn|diecisiete|十七
forty-seven|siebenundvierzig|cuarenta y siete|四十七
sixty-eight|achtundsechzig|sesenta y ocho|六十八
ninety-three|dreiundneunzig|noventa y tres|九十三
one hundred and four|hundertvier|ciento cuatro|一百零四
two thousand|zweitausend|dos mil|两千
twelve thousand|zwölftausend|doce mil|一万两千
"""

# goals of verbs with this frame
SURFACES = {
    "put": """
on the table|auf:0 den:1 Tisch:2|en:0 la:1 mesa:2|桌子:2 上:0
on the floor|auf:0 den:1 Boden:2|en:0 el:1 suelo:2|地板:2 上:0
by the window|ans:01 Fenster:2|junto:0 a:0 la:1 ventana:2|窗户:2 边:0
""",
    "hang": """
on the wall|an:0 die:1 Wand:2|en:0 la:1 pared:2|墙:2 上:0
on the hook|an:0 den:1 Haken:2|en:0 el:1 gancho:2|钩子:2 上:0
""",
}
MODALS = """
can|kann:0|puede:0|能:0
must|muss:0|debe:0|必须:0
wants to|will:0|quiere:0|想:0
should|soll:0|debería:0|应该:0
"""
REPORTS = """
I think|ich:0 glaube,:1|creo:01 que:|我:0 认为:1
we know|wir:0 wissen,:1|sabemos:01 que:|我们:0 知道:1
everyone says|jeder:0 sagt,:1|todos:0 dicen:1 que:|大家:0 说:1
my friend believes|mein:0 Freund:1 glaubt,:2|mi:0 amigo:1 cree:2 que:|我:0 的:0 朋友:1 相信:2
"""
CONJUNCTIONS = """
because|weil:0|porque:0|因为:0
although|obwohl:0|aunque:0|虽然:0
when|als:0|cuando:0|当:0
if|wenn:0|si:0|如果:0
"""
FILLERS = ("um,", "uh,")
