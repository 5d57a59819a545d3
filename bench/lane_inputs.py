"""Random standard input for the programs of programs/lanes, of another shape and length in each lane.

A generator takes a source of random numbers and gives the whole input of one lane. What the programs print of
it depends neither on the order of a hash table, nor on addresses, nor on the time.
"""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

SEED = 1

Grammar = Mapping[str, Sequence[str]]
"""Name to texts, one of which stands for it. `$[...]` in a text is a hole: see `grown`."""


def inputs(program: str, count: int, seed: int = SEED) -> list[bytes]:
    """Standard input of lanes 0 to `count` - 1; that of a lane does not depend on `count`."""
    return [GENERATORS[program](random.Random(f"{seed} {program} {lane}")) for lane in range(count)]


def grown(rng: random.Random, text: str, grammar: Grammar) -> str:
    """A text with its holes filled.

    `$[name]` is a text of the grammar, grown; `$[2-9 name]` as many of them, with spaces between; `$[2-9]` a
    number; `$[a|b|c]` one of these.
    """

    def fill(hole: re.Match[str]) -> str:
        inner: str = hole[1]
        if inner in grammar:
            return grown(rng, rng.choice(grammar[inner]), grammar)
        if many := re.fullmatch(r"(\d+)-(\d+)(?: (\w+))?", inner):
            number = rng.randint(int(many[1]), int(many[2]))
            return (
                " ".join(grown(rng, f"$[{many[3]}]", grammar) for _ in range(number))
                if many[3]
                else str(number)
            )
        return rng.choice(inner.split("|"))

    return re.sub(r"\$\[(.*?)\]", fill, text)


# -- text ----------------------------------------------------------------------------------------------------
def text(rng: random.Random) -> bytes:
    """Words that are frequent as in a language, or not; capitals, numbers, punctuation, lines."""
    letters = rng.sample(string.ascii_lowercase, rng.randint(5, 26))
    longest = rng.randint(3, 14)
    words = ["".join(rng.choices(letters, k=rng.randint(1, longest))) for _ in range(rng.randint(10, 300))]
    slope = rng.uniform(0, 1.6)
    weights = list(accumulate((rank + 1) ** -slope for rank in range(len(words))))
    pieces = []
    for word in rng.choices(words, cum_weights=weights, k=rng.randint(50, 600)):
        kind = rng.randrange(12)
        pieces.append(word.capitalize() if kind == 0 else str(rng.randrange(10**5)) if kind == 1 else word)
        pieces.append(rng.choice([", ", ".\n", "\n", "; ", "-- "]) if rng.random() < 0.15 else " ")
    return "".join(pieces).encode()


# -- Lua -----------------------------------------------------------------------------------------------------
LUA: Grammar = {
    "part": [
        """
local a, b = $[0-999], $[0-999]
for i = 1, $[10-90] do
  if $[expression] % $[2-5] == 0 then a = $[expression] else b = $[expression] end
end
print("loop", a, b)
""",
        """
local counts, keys = {}, {}
for word in ("$[10-70 word]"):gmatch("%a+") do counts[word] = (counts[word] or 0) + 1 end
for word in pairs(counts) do keys[#keys + 1] = word end
table.sort(keys, function(x, y) return counts[x] > counts[y] or counts[x] == counts[y] and x < y end)
for i = 1, math.min(#keys, 5) do print(keys[i], counts[keys[i]]) end
""",
        """
local s = ""
for i = 1, $[5-30] do s = s .. string.format("%d:%x $[letter]%5.2f ", i, i * $[1-999999], i / 7) end
local t, n = s:gsub("$[%d|%x|:|%d$|e.]", "$[word]")
print("strings", n, #t, t:upper():reverse():sub($[1-40], $[41-90]), s:find("%d $[letter]"))
""",
        """
local Account = {}
Account.__index = Account
Account.__add = function(x, y) return Account.new(x.balance + y.balance) end
function Account.new(balance) return setmetatable({balance = balance, log = {}}, Account) end
function Account:move(amount)
  if amount > self.balance then error({need = amount - self.balance}) end
  self.balance = self.balance - amount
  self.log[#self.log + 1] = amount
end
local one, failed = Account.new($[1000-9000]), 0
for i = 1, $[10-60] do
  local ok, e = pcall(one.move, one, i * $[1-99] % $[100-400])
  if not ok then failed = failed + e.need; one = one + Account.new($[50-900]) end
end
print("objects", one.balance, #one.log, failed)
""",
        """
local function make(d) if d == 0 then return {$[1-9]} end return {make(d - 1), make(d - 1), d} end
local function sum(t) if #t == 1 then return t[1] end return sum(t[1]) + t[3] * sum(t[2]) % $[50-999] end
local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end
print("trees", sum(make($[2-6])), fib($[3-12]))
""",
        """
local function numbers(x, step)
  return coroutine.wrap(function() while true do coroutine.yield(x) x = (x * step + 1) % 65537 end end)
end
local g, h, s = numbers($[1-99], $[2-99]), numbers($[1-99], $[2-99]), 0
for i = 1, $[10-60] do s = s ~ g() * h() end
print("coroutines", s)
""",
        """
local t, x = {}, $[1-9999]
for i = 1, $[10-80] do x = x * 1103515245 + 12345 & 0x7fffffff; t[i] = x % $[50-99999] / $[1|3|8] end
table.sort(t, function(a, b) return $[a < b|a > b|a % 10 < b % 10] end)
print("sort", t[1], t[#t // 2], string.format("%.4f", math.sqrt(t[#t // 3]) + math.sin(x)))
""",
        """
print(pcall(function() return $[{} + 1|("x").y.z|nil .. 1|error("stopped", 0)|undefined()] end))
""",
    ],
    "expression": ["$[a|b|i]", "$[a|b|i]", "$[1-999]", "$[operation]", "$[operation]"],
    "operation": [
        "(($[expression] $[+|-|*] $[expression]) % 1000003)",
        "($[expression] $[&|~] $[expression])",
        "($[expression] $[//|%] ($[expression] % $[7-90] + 1))",
        "(($[expression] << $[1-5]) % 1000003)",
    ],
    "word": ["$[letter]", "$[letter]$[word]"],
    "letter": string.ascii_lowercase,
}


def script(rng: random.Random) -> bytes:
    """A Lua script of some parts, each with numbers, words and expressions of its own."""
    return "\n".join(grown(rng, "do$[part]end", LUA) for _ in range(rng.randint(1, 8))).encode()


# -- SQL -----------------------------------------------------------------------------------------------------
SQL: Grammar = {
    "insert": [
        "INSERT $[INTO|OR IGNORE INTO|OR REPLACE INTO] $[table]($[columns]) VALUES $[row] $[0-9 more]"
    ],
    "more": [", $[row]"],
    "number": ["$[0-5]", "$[0-99]", "$[0-99999]", "NULL"],
    "text": ["'$[word]'"],
    "word": ["$[syllable]", "$[syllable]$[word]", "$[syllable]$[syllable]$[word]"],
    "syllable": "ba ko re mi nu tas lor vi za qu en ist".split(),
    "condition": [
        "$[integer] $[<|>|=|<>] $[0-99]",
        "$[integer] BETWEEN $[0-50] AND $[20-9999]",
        "$[string] LIKE '%$[syllable]%'",
        "length($[string]) % $[2-4] = 1",
        "$[integer] IS NOT NULL AND $[string] > '$[syllable]'",
    ],
    "change": [
        "UPDATE $[table] SET $[integer] = $[integer] * 3 + $[0-99] WHERE $[condition]",
        "UPDATE $[table] SET $[string] = upper($[string]) || '$[word]' WHERE $[condition]",
        "DELETE FROM $[table] WHERE id % $[5-12] = 0 AND $[condition]",
        "CREATE INDEX IF NOT EXISTS i$[0-9] ON $[table]($[integer], $[string])",
    ],
    "query": [
        "SELECT id, $[integer], $[string] FROM $[table] WHERE $[condition] ORDER BY $[string], id LIMIT 8",
        "SELECT substr($[string], 1, 2) AS k, count(*), sum($[integer]), max($[string]) FROM $[table]"
        " GROUP BY k ORDER BY 2 DESC, k LIMIT 6",
        "SELECT count(*), sum(a.$[integer] + b.id) FROM $[table] a JOIN $[other] b ON a.$[integer] = b.id"
        " WHERE a.$[integer] < $[0-99]",
        "SELECT count(DISTINCT $[integer]), avg($[integer]), min($[string]) FROM $[table]",
        "SELECT $[string] FROM $[table] WHERE $[integer] IN (SELECT id % $[2-50] FROM $[other])"
        " ORDER BY id DESC LIMIT 5",
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < $[5-60])"
        " SELECT sum(i * i), printf('%08.3f', avg(i)) FROM c",
    ],
    "statement": [
        *["$[insert]", "$[change]"] * 3,
        *["$[query]"] * 8,
        "BEGIN;\n$[insert];\n$[change];\n$[COMMIT|ROLLBACK]",
        "SELECT nothing FROM $[table]",
        "$[SELEC 1|SELECT 1 +|SELECT * FROM missing|INSERT INTO]",
    ],
}


def table(rng: random.Random, number: int) -> dict[str, list[str]]:
    """Names for the grammar of a table with columns of its own, and the statement that makes the table."""
    integers = [f"n{i}" for i in range(rng.randint(1, 4))]
    strings = [f"s{i}" for i in range(rng.randint(1, 3))]
    columns = [f"{name} INTEGER" for name in integers] + [f"{name} TEXT" for name in strings]
    columns += ["UNIQUE(n0)"] if rng.random() < 0.3 else []
    return {
        "create": [f"CREATE TABLE t{number}(id INTEGER PRIMARY KEY, {', '.join(columns)})"],
        "table": [f"t{number}"],
        "integer": integers,
        "string": strings,
        "columns": [", ".join(integers + strings)],
        "row": [f"({', '.join(['$[number]'] * len(integers) + ['$[text]'] * len(strings))})"],
    }


def statements(rng: random.Random) -> bytes:
    """SQL, a statement a line: tables, rows, indices, changes, queries, transactions, and some mistakes."""
    names = [table(rng, i) for i in range(rng.randint(1, 3))]
    grammars = [{**SQL, **own, "other": [n["table"][0] for n in names]} for own in names]
    wanted = [(grammar, hole) for grammar in grammars for hole in ("create", "insert")]
    wanted += [(rng.choice(grammars), "statement") for _ in range(rng.randint(1, 11))]
    return "".join(f"{grown(rng, f'$[{hole}]', grammar)};\n" for grammar, hole in wanted).encode()


# -- bytes ---------------------------------------------------------------------------------------------------
def stretches(rng: random.Random) -> bytes:
    """Stretches of noise, runs, words, numbers and repetitions; the first byte is any."""
    out = bytearray(rng.randbytes(1))
    words = [grown(rng, "$[word]", SQL) for _ in range(rng.randint(5, 100))]
    for _ in range(rng.randint(2, 20)):
        kind, size = rng.randrange(5), rng.randint(50, 1500)
        if kind == 0:
            out += rng.randbytes(size // 2)
        elif kind == 1:
            out += rng.randbytes(1) * size
        elif kind == 2:
            out += " ".join(rng.choices(words, k=size // 5)).encode()
        elif kind == 3:
            out += "".join(f"{rng.gauss(0, 1000):.2f}\n" for _ in range(size // 8)).encode()
        else:
            start = rng.randrange(len(out))
            out += out[start : start + size]
    return bytes(out)


# -- JSON ----------------------------------------------------------------------------------------------------
def value(rng: random.Random, weights: Sequence[int], depth: int) -> Any:
    """A value of one of six kinds, which have these weights; arrays and objects while depth lasts."""
    choices = weights if depth else [0, 0, *weights[2:]]
    match rng.choices(("object", "array", "string", "integer", "fraction", "word"), choices)[0]:
        case "object":
            return {
                grown(rng, "$[word]", LUA): value(rng, weights, depth - 1) for _ in range(rng.randrange(9))
            }
        case "array":
            return [value(rng, weights, depth - 1) for _ in range(rng.randrange(9))]
        case "string":
            return "".join(rng.choices(string.ascii_letters + ' "\\\n\t{}[],:é€', k=rng.randrange(30)))
        case "integer":
            return rng.randrange(-99, 10 ** rng.randint(1, 15))
        case "fraction":
            return rng.gauss(0, 1) * 10 ** rng.randint(-20, 20)
    return rng.choice([True, False, None])


def documents(rng: random.Random) -> bytes:
    """JSON, a document a line, up to some size together; some are cut off or end wrongly."""
    size, lines = rng.randint(1000, 10000), [""]
    weights, depth = [rng.randint(1, 9) for _ in range(6)], rng.randint(2, 5)
    while sum(map(len, lines)) < size:
        document = [value(rng, weights, depth) for _ in range(rng.randint(1, 9))]
        line = json.dumps(document, ensure_ascii=rng.random() < 0.5)
        if rng.random() < 0.08:
            line = line[: rng.randrange(len(line))] + rng.choice(["", "?", "}"])
        lines.append(line + "\n")
    return "".join(lines).encode()


GENERATORS: dict[str, Callable[[random.Random], bytes]] = {
    "words": text,
    "lua": script,
    "sqlite": statements,
    "zlib": stretches,
    "json": documents,
}
"""Name of a program to what makes the standard input of one lane."""
