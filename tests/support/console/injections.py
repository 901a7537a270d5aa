"""Texts with which a page that takes text for something else does what they say.

In a template MARK is a piece that everybody must see, RUN is what a script would call, and AWAY is
where a request would go to: a port of this machine at which nobody listens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

__all__ = ["HIDDEN", "INJECTIONS", "MARKUP", "NAMES", "WHOLE", "Injection", "by_family"]

AWAY: Final = "canary.localhost:9"
HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
"""What nobody sees, and what makes others stand where they do not."""
NAMES: Final = (
    *("__proto__", "constructor", "prototype", "toString", "valueOf", "hasOwnProperty"),
    *("__defineGetter__", "isPrototypeOf", "innerHTML", "then", "length", "nodeName"),
)
"""What every object of a page has by itself, as the name of something else."""


class Injection(NamedTuple):
    """One text; `mark` is in it once or more, and in no other."""

    family: str
    mark: str
    text: str


# Markup

TAGS: Final = (
    "<script>RUN</script>MARK",
    "<SCRIPT SRC=AWAY></SCRIPT>MARK",
    "<script type=module>import 'AWAY'</script>MARK",
    "<script\n>RUN</script\n>MARK",
    "</script><script>RUN</script>MARK",
    "<img src=x onerror=RUN>MARK",
    '<img src="AWAY" alt="MARK">',
    "<img src=/canary/MARK>",
    "<img srcset='AWAY 1x, AWAY/2 2x'>MARK",
    "<img/src=x/onerror=RUN>MARK",
    "<img\tsrc=x\tonerror\t=\tRUN>MARK",
    "<img src=x onerror=RUN//MARK",
    "<<img src=x onerror=RUN>>MARK",
    '"><img src=x onerror=RUN>MARK',
    "'><img src=x onerror=RUN>MARK",
    "</p></div></main><img src=x onerror=RUN>MARK",
    "<picture><source srcset=AWAY><img src=x></picture>MARK",
    "<video src=AWAY poster=AWAY onerror=RUN></video>MARK",
    "<audio autoplay><source src=AWAY onerror=RUN></audio>MARK",
    "<track src=AWAY onerror=RUN default>MARK",
    "<bgsound src=AWAY>MARK",
    "<input type=image src=AWAY onerror=RUN>MARK",
    "<a href=javascript:RUN>MARK</a>",
    "<a href='java&#9;script:RUN'>MARK</a>",
    "<a href=AWAY ping=AWAY>MARK</a>",
    "<area href=javascript:RUN>MARK",
    "<details open ontoggle=RUN>MARK</details>",
    "<select autofocus onfocus=RUN><option>MARK</select>",
    "<button autofocus onfocus=RUN>MARK</button>",
    "<div contenteditable autofocus onfocus=RUN>MARK</div>",
    "<own-thing tabindex=1 autofocus onfocus=RUN>MARK</own-thing>",
    "<body onload=RUN onhashchange=RUN>MARK",
    "<marquee onstart=RUN>MARK</marquee>",
    "<dialog open oncancel=RUN>MARK</dialog>",
    "<b onpointerenter=RUN>MARK</b>",
    "<p onanimationstart=RUN class=spin>MARK</p>",
)
LOADERS: Final = (
    "<iframe src=javascript:RUN></iframe>MARK",
    "<iframe srcdoc='<script>parent.RUN</script>'></iframe>MARK",
    "<iframe src=/canary/MARK sandbox></iframe>MARK",
    "<frameset><frame src=javascript:RUN></frameset>MARK",
    "<object data=javascript:RUN></object>MARK",
    "<object data=AWAY type=text/html></object>MARK",
    "<embed src=AWAY>MARK",
    "<embed src=javascript:RUN>MARK",
    "<applet code=AWAY></applet>MARK",
    "<portal src=AWAY></portal>MARK",
    "<base href=AWAY/>MARK",
    "<meta http-equiv=refresh content='0;url=AWAY'>MARK",
    "<meta http-equiv=Set-Cookie content='canary=MARK'>MARK",
    "<link rel=stylesheet href=AWAY>MARK",
    "<link rel=prefetch href=AWAY>MARK",
    "<link rel=manifest href=AWAY>MARK",
    "<form action=AWAY><input name=token><button>MARK</button></form>",
    "<form action=javascript:RUN><input type=submit value=MARK></form>",
    "<button form=app formaction=AWAY>MARK</button>",
    "<input type=submit formaction=javascript:RUN value=MARK>",
    "<isindex action=javascript:RUN type=submit value=MARK>",
    "<template shadowrootmode=open><img src=AWAY></template>MARK",
)
FOREIGN: Final = (
    "<svg onload=RUN>MARK</svg>",
    "<svg/onload=RUN//MARK",
    "<svg><script>RUN</script>MARK</svg>",
    "<svg><script href=AWAY /><text>MARK</text></svg>",
    "<svg><a xlink:href=javascript:RUN><text>MARK</text></a></svg>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload=RUN>#x'/></svg>MARK",
    "<svg><image href=AWAY onerror=RUN /></svg>MARK",
    "<svg><set attributeName=href to=javascript:RUN onbegin=RUN />MARK</svg>",
    "<svg><animate onbegin=RUN attributeName=x dur=1s></svg>MARK",
    "<svg><foreignObject><img src=x onerror=RUN></foreignObject></svg>MARK",
    "<svg><style>@import 'AWAY';</style></svg>MARK",
    "<math><maction actiontype=statusline href=javascript:RUN>MARK</maction></math>",
    "<math><mi xlink:href=javascript:RUN>MARK</mi></math>",
    "MARK<math><annotation-xml encoding=text/html><img src=x onerror=RUN></annotation-xml></math>",
)
MUTATIONS: Final = (
    "MARK<math><mtext><table><mglyph><style><!--</style><img title='--><img src=x onerror=RUN>'>",
    "<svg></p><style><a title='</style><img src=x onerror=RUN>'>MARK",
    "<noscript><p title='</noscript><img src=x onerror=RUN>'>MARK",
    "<textarea>MARK<img title='</textarea><img src=x onerror=RUN>'></textarea>",
    "<title><a title='</title><img src=x onerror=RUN>'></title>MARK",
    "<xmp><p title='</xmp><svg onload=RUN>'></xmp>MARK",
    "<form><div></form><form><img src=x onerror=RUN>MARK",
    "<table><td><form><tr><img src=x onerror=RUN></table>MARK",
    "<select><template><img src=x onerror=RUN></template></select>MARK",
    "<!--><img src=x onerror=RUN>-->MARK",
    "<!-- --!><img src=x onerror=RUN>-->MARK",
    "<![CDATA[<img src=x onerror=RUN>]]>MARK",
    "<?xml-stylesheet href='AWAY'?><img src=x onerror=RUN>MARK",
    "<!doctype html><img src=x onerror=RUN>MARK",
    "<img src='`' onerror=RUN title='`'>MARK",
    "<listing><img src=x onerror=RUN></listing>MARK",
)
CLOBBERING: Final = (
    "<form id=app><input name=children value=MARK></form>",
    "<a id=canary></a><a id=canary name=token href=AWAY>MARK</a>",
    "<img name=cookie>MARK",
    "<img name=getElementById>MARK",
    "<form name=body><input name=firstChild>MARK</form>",
    "<embed name=trustedTypes>MARK",
    "<iframe name=location></iframe>MARK",
    "<object id=documentElement></object>MARK",
    "<p id=main>MARK</p>",
    "<input id=session-search name=nodeName value=MARK>",
    "<form id=x tabindex=0 onfocus=RUN><input name=attributes autofocus>MARK</form>",
    "<a id=Prism href=cid:x>MARK</a>",
)
STYLES: Final = (
    "<style>@import 'AWAY';</style>MARK",
    "<style>*{background:url(AWAY)!important}</style>MARK",
    "<style>.question-card{display:none}</style>MARK",
    "<style>input[value^=a]{background:url(AWAY)}</style>MARK",
    "<style>@font-face{font-family:x;src:url(AWAY)}body{font-family:x}</style>MARK",
    "<p style='position:fixed;inset:0;z-index:9999;background:white'>MARK</p>",
    "<p style=background:url(AWAY)>MARK</p>",
    "<p style=width:expression(RUN)>MARK</p>",
    "<p style='-moz-binding:url(AWAY#x)'>MARK</p>",
    "<p style=behavior:url(AWAY)>MARK</p>",
    "<font color=red size=7 face=x>MARK</font>",
    "<table background=AWAY><td>MARK</table>",
    "<div class='dialog question-card settled'>MARK</div>",
    '" style="display:none" x="MARK',
    "MARK;background:url(AWAY)",
    "}</style><img src=x onerror=RUN>MARK",
)
ENTITIES: Final = (
    "&lt;img src=x onerror=RUN&gt;MARK",
    "&#60;img src=x onerror=RUN&#62;MARK",
    "&#x3C;script&#x3E;RUN&#x3C;/script&#x3E;MARK",
    "&amp;lt;img src=x onerror=RUN&amp;gt;MARK",
    "&#0000060img src=x onerror=RUN>MARK",
    "&LT;img src=x onerror=RUN&GT;MARK",
    "%3Cimg%20src=x%20onerror=RUN%3EMARK",
    "\\u003cimg src=x onerror=RUN\\u003eMARK",
    "\\x3cscript\\x3eRUN\\x3c/script\\x3eMARK",
    "+ADw-script+AD4-RUN+ADw-/script+AD4-MARK",
    "\uff1cimg src=x onerror=RUN\uff1eMARK",
    "\u2039script\u203aRUN\u2039/script\u203aMARK",
    "&quot; onmouseover=&quot;RUN&quot; x=&quot;MARK",
)

# Markdown: an address is a scheme in a spelling, and a link is an address in a form

SCHEMES: Final = {
    "javascript": "RUN",
    "data": "text/html,<script>RUN</script>",
    "vbscript": "RUN",
    "blob": "null/MARK",
    "file": "///etc/passwd#MARK",
}
SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (
    lambda scheme: f"{scheme}:",
    lambda scheme: f"{scheme[0].upper()}{scheme[1:-1]}{scheme[-1].upper()}:",
    lambda scheme: f"&#{ord(scheme[0])};{scheme[1:]}:",
    lambda scheme: f"{scheme[:2]}\u200b{scheme[2:]}:",
    lambda scheme: f"{scheme}\\:",
    lambda scheme: f"&#x{ord(scheme[0]):06X};{scheme[1:]}&colon;",
    lambda scheme: f"{scheme[:2]}&Tab;{scheme[2:]}:",
    lambda scheme: f"{scheme[:4]}&#10;{scheme[4:]}:",
    lambda scheme: f"{scheme}%3a",
    lambda scheme: f"\x01{scheme}:",
    lambda scheme: f"{scheme}\uff1a",
    lambda scheme: f"{scheme[:3]}\xad{scheme[3:]}:",
    lambda scheme: f"//{AWAY}/..{scheme}:",
    lambda scheme: f"{scheme}:{scheme}:",
)
FORMS: Final = (
    "[MARK](ADDRESS)",
    "[MARK](<ADDRESS>)",
    "[MARK](< \tADDRESS>)",
    "[MARK](<ja\tva{ADDRESS>)",
    '[MARK](ADDRESS "x\' onclick=RUN")',
    "![MARK](ADDRESS)",
    "[![MARK](ADDRESS)](ADDRESS)",
    "MARK <ADDRESS>",
    "[MARK][there]\n\n[there]: ADDRESS",
    "[MARK]\n\n[MARK]: <ADDRESS> 'RUN'",
    "> - [**MARK**](ADDRESS)",
    "| MARK |\n| --- |\n| [x](ADDRESS) |",
    "# [MARK](ADDRESS)",
)
SEVERAL: Final = 4
"""So many spellings has every scheme; javascript has all."""


def _links() -> Iterator[str]:
    """Every scheme in its spellings, and one of them in every form."""
    for scheme, rest in SCHEMES.items():
        spellings = SPELLINGS if scheme == "javascript" else SPELLINGS[:SEVERAL]
        yield from (f"[MARK]({spelled(scheme)}{rest})" for spelled in spellings)
    yield from (form.replace("ADDRESS", "javascript:RUN") for form in FORMS[1:])


PICTURES: Final = (
    "![MARK](AWAY)",
    "![MARK](/canary/MARK)",
    "![MARK](//canary.localhost:9/MARK)",
    "![MARK](data:image/svg+xml,<svg/onload=RUN>)",
    '![" onerror="RUN" x="MARK](x)',
    '![MARK](x "x\' onerror=RUN")',
    "![MARK][seen]\n\n[seen]: AWAY",
    "![MARK](file:///etc/passwd)",
)
FENCES: Final = (
    "```html onload=RUN\n<img src=x onerror=RUN>MARK\n```",
    '```"><img/src=x/onerror=RUN>\nMARK\n```',
    "```<script>RUN</script>\nMARK\n```",
    "```__proto__\nMARK\n```",
    "```constructor\nMARK\n```",
    "```../../../etc/passwd\nMARK\n```",
    "```javascript:RUN\nMARK\n```",
    "```mermaid\ngraph LR; MARK-->B; click MARK href 'javascript:RUN'\n```",
    "```svg\n<svg onload=RUN>MARK</svg>\n```",
    "```js\n/*MARK*/</code></pre><img src=x onerror=RUN>\n```",
    "```diff\n--- MARK\n+++ <img src=x onerror=RUN>\n@@ -1 +1 @@\n-a\n+<b onclick=RUN>\n```",
    "~~~html {onclick=RUN}\nMARK\n~~~",
    "```\nMARK <img src=x onerror=RUN>",
    "    <img src=x onerror=RUN>MARK",
    "`<img src=x onerror=RUN>MARK`",
    "``MARK` <img src=x onerror=RUN>``",
)
BLOCKS: Final = (
    "# MARK <img src=x onerror=RUN>",
    "MARK\n===\n<img src=x onerror=RUN>",
    "###### MARK {#app onclick=RUN}",
    "| MARK | <img src=x onerror=RUN> |\n| --- | :-- onclick=RUN |\n| a | b |",
    "| MARK |\n| :-: |\n| <b onclick=RUN>x</b> |",
    "1. MARK\n   <img src=x onerror=RUN>",
    "- [ ] MARK <input autofocus onfocus=RUN>",
    "999999999. MARK <b onclick=RUN>",
    "> MARK\n> <img src=x onerror=RUN>",
    "*MARK <img src=x onerror=RUN>*",
    "**MARK<img src=x onerror=RUN**>",
    "~~MARK~~<img src=x onerror=RUN>",
    "MARK[^1]\n\n[^1]: <img src=x onerror=RUN>",
    "MARK\\\n<img src=x onerror=RUN>",
    "\\<img src=x onerror=RUN>MARK\\",
    "<p>\n\n**MARK** <img src=x onerror=RUN>\n\n</p>",
    "<div onclick=RUN>\n# MARK\n</div>",
    "$$\\href{javascript:RUN}{MARK}$$",
    ":::note{onclick=RUN}\nMARK\n:::",
)

# Templates, data

TEMPLATES: Final = (
    "{{constructor.constructor('RUN')()}}MARK",
    "${RUN}MARK",
    "`${RUN}`MARK",
    "<%= RUN %>MARK",
    "#{RUN}MARK",
    "{%raw%}RUN{%endraw%}MARK",
    "[[${RUN}]]MARK",
    "{RUN}MARK",
    "'+RUN+'MARK",
    "\\'+RUN//MARK",
    '";RUN;"MARK',
    "*/RUN/*MARK",
    "</textarea>MARK",
    "$&$`$'$1MARK",
    "%s%n%d%oMARK",
    "\u2028RUN\u2029MARK",
)
KEYS: Final = (
    '{"__proto__": {"canary": "MARK"}}',
    '{"constructor": {"prototype": {"canary": "MARK"}}}',
    '{"__proto__": null, "toString": "MARK"}',
    '{"type": "b", "props": {"dangerouslySetInnerHTML": {"__html": "MARK"}}}',
    '{"__html": "<img src=x onerror=RUN>MARK"}',
    '{"type": "text", "text": "</pre><img src=x onerror=RUN>MARK"}',
    '{"length": 9007199254740993, "then": "MARK"}',
    '[[["MARK", {"hasOwnProperty": 1}]]]',
    '{"toJSON": "MARK", "$$typeof": "react.element"}',
)

# What is not seen as it is

DIRECTIONS: Final = (
    "MARK\u202egnp.exe\u202c",
    "\u202eMARK rm -rf",
    "MARK \u2066\u202eecho\u2069 rm",
    "\u2067MARK\u2069",
    "MARK\u200frm\u200e",
    "\u061cMARK",
    "MARK # \u202b safe \u202a",
    "MARK\u200b\u200b\u2060hidden",
    "\ufeffMARK",
    "MARK\u00ad\u00adsoft",
    "MARK\U000e0041\U000e0042\U000e007f",
    "MARK\u2800\u3164\uffa0.",
    "MARK\u180e\u2063\u2064",
    "MARK\x01\x02\x7f\x9f",
    "MARK\x08\x08\x08\x08",
    "MARK\x0b\x0c\x1c\x85",
    "echo ok\rMARK",
    "MARK\nsecond line\n\n\n\nlast",
    "MARK\tone\t\ttwo",
    "MARKa\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308",
)
REFERENCES: Final = (
    "MARK&#x202e;txt.exe&#8236;",
    "MARK&#x200b;&#xFEFF;&#x2066;",
    "MARK&#0;&#x110000;&#xD800;&#x80;",
)
TERMINAL: Final = (
    "\x1b[31mMARK\x1b[0m",
    "\x1b]8;;javascript:RUN\x07MARK\x1b]8;;\x07",
    "\x1b]8;;AWAY\x1b\\MARK\x1b]8;;\x1b\\",
    "\x1b]0;title\x07MARK",
    "\x1b]52;c;Y2FuYXJ5\x07MARK",
    "\x1b[2J\x1b[HMARK",
    "\x1b[8mMARK\x1b[28m",
    "gone\x1b[2K\rMARK",
    "\x9b31mMARK",
    "\x1bP0;0|17/ab\x1b\\MARK",
    "\x1b[<img src=x onerror=RUN>MARK",
    "\x1b]1337;File=inline=1:AAAA\x07MARK",
)
LONG: Final = (
    "MARK" + "A" * 3000,
    "MARK " + "<b>" * 400,
    "MARK " + "[" * 400,
    "MARK" + "\U0001f9ed" * 400,
    "MARK " + "> " * 150 + "x",
    "MARK\n\n" + "".join(f"{'  ' * depth}- x\n" for depth in range(40)),
    "[MARK](http://canary.localhost:9/" + "a" * 2000 + ")",
)
HALVES: Final = (
    "\ud83dMARK",
    "MARK\udfff",
    "<img src=x onerror=RUN>\udc00MARK",
    "[MARK](java\ud800script:RUN)",
    "MARK\ufffe\uffff\U0010ffff",
)

# Names

HOSTS: Final = (
    "[MARK](http://p\u0430ypal.canary.localhost:9/)",
    "http://bank.example@canary.localhost:9/MARK",
    "[http://bank.example/MARK](http://canary.localhost:9/)",
    "[MARK](http://user:secret@canary.localhost:9/)",
    "[MARK](http:canary.localhost:9)",
    "[MARK](https:\\\\canary.localhost:9\\)",
    "[MARK](//canary.localhost:9/)",
    "[MARK](/api/sessions)",
    "[MARK](#/session/x)",
    "[MARK](?enter=x)",
    "[MARK](http://0x7f000001:9/)",
    "[MARK](http://[::1]:9/)",
    "[MARK](http://127.0.0.1:9\u2215@canary.localhost:9/)",
    "MARK www.canary.localhost:9/x",
    "MARK@canary.localhost",
    "[MARK](mailto:x@canary.localhost?subject=<b>&body=RUN)",
    '[MARK](HTTP://canary.localhost:9/"onclick=RUN)',
    "[MARK](intent://canary#Intent;scheme=http;end)",
    "[MARK](filesystem:http://canary.localhost:9/x)",
    "[MARK](view-source:http://canary.localhost:9/)",
    "[MARK](ws://canary.localhost:9/)",
    "[MARK](tel:1;RUN)",
)
FILES: Final = (
    "<img src=x onerror=RUN>MARK.txt",
    '"><svg onload=RUN>MARK.svg',
    "javascript:RUN;MARK.js",
    "MARK;touch canary;.sh",
    "$(RUN)MARK",
    "-rf MARK",
    "MARK\u202ecod.exe",
    "MARK\n<b onclick=RUN>.md",
    "..MARK..%2f..%2fetc",
    "MARK.html?x=<b>#onclick=RUN",
    "C:\\MARK\\<b>\\..\\x",
    "'MARK' onclick='RUN'.py",
    "[MARK](javascript:RUN).md",
)
TOOLS: Final = (
    "mcp__<img src=x onerror=RUN>__MARK",
    "mcp__MARK__<svg onload=RUN>",
    "mcp__MARK",
    "mcp____MARK",
    "mcp__a__b__MARK__c",
    "mcp__\u202eMARK__x",
    "Bash(MARK:*)",
    "Bash\nMARK",
    "MARK__proto__",
)

FAMILIES: Final = {
    "tags": TAGS,
    "loaders": LOADERS,
    "foreign": FOREIGN,
    "mutations": MUTATIONS,
    "clobbering": CLOBBERING,
    "styles": STYLES,
    "entities": ENTITIES,
    "links": tuple(_links()),
    "pictures": PICTURES,
    "fences": FENCES,
    "blocks": BLOCKS,
    "templates": TEMPLATES,
    "keys": KEYS,
    "directions": DIRECTIONS,
    "references": REFERENCES,
    "terminal": TERMINAL,
    "long": LONG,
    "halves": HALVES,
    "hosts": HOSTS,
    "files": FILES,
    "tools": TOOLS,
}
MARKUP: Final = frozenset({"tags", "loaders", "foreign", "mutations", "clobbering"})
"""Families of HTML: as Markdown, too, each of them is shown as it was written."""


def _made() -> Iterator[Injection]:
    every = [(family, each) for family, templates in FAMILIES.items() for each in templates]
    for number, (family, template) in enumerate(every):
        mark = f"k{number:03}k"
        text = template.replace("AWAY", f"http://{AWAY}/{mark}").replace("MARK", mark)
        yield Injection(family, mark, text.replace("RUN", f"canary({number})"))


INJECTIONS: Final = tuple(_made())
WHOLE: Final = tuple(each for each in INJECTIONS if each.family != "halves")
"""Those of whole characters."""


def by_family(injections: Iterable[Injection] = INJECTIONS) -> dict[str, list[Injection]]:
    """The injections, those of each family together."""
    found: dict[str, list[Injection]] = {}
    for each in injections:
        found.setdefault(each.family, []).append(each)
    return found
