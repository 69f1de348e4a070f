"""Texts that nobody wants to meet: by hand, and by hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

BY_HAND = {
    "empty": "",
    "blank": " \t\r\n\u2028\u00a0 ",
    "one letter": "a",
    "NUL": "a\0b" * 50,
    "lone surrogates": "\ud800 half \udfff\udc00 a pair",
    "markup": "<script>alert('x')</script><img src=x onerror=alert(1)>&amp;&#0;<!--" * 10,
    "template": "{{ 7 * 7 }} {% raw %} ${jndi:ldap://x} %s %n %(x)s `rm -rf`",
    "terminal": "\x1b[31m\x1b]0;title\x07\x1b[2J\x9b1m \r\x08\x7f",
    "scripts": "مرحبا بالعالم. שלום עולם. 你好，世界。これは文です。 안녕 Привет Γειά नमस्ते สวัสดี " * 5,
    "other direction": "\u202eabc\u202c \u2066def\u2069 \u200f\u200e",
    "invisible": "\u200b\u200c\u200d\ufeff\u2060" * 40,
    "combining": "e" + "\u0301" * 3_000,
    "emoji": "👩‍👩‍👧‍👦🇺🇳👍🏽" * 60,
    "private use and unassigned": "\ue000\U000f0000\U0010ffff\ufffe\uffff" * 20,
    "names of special tokens": "<|mdm_mask|> <|endoftext|> [MASK] <unk> <s> </s> <|im_end|>" * 20,
    "numbers": "1e308 -0 NaN inf 0x7fffffff 99999999999999999999" * 20,
    "one long word": "x" * 30_000,
    "one word again and again": "save " * 6_000,
    "lines": "\n" * 20_000,
    "JSON in JSON": '{"text": "{\\"text\\": null}"}' * 30,
}

MEGABYTE = 1_000_000
HUGE = {
    "a megabyte of prose": "Save a little every month, because interest earns interest. " * (MEGABYTE // 60),
    "a megabyte without a space": "x" * MEGABYTE,
    "a megabyte of line breaks": "\n" * MEGABYTE,
    "a megabyte of another script": "你好世界" * (MEGABYTE // 12),
    "a megabyte of everything": "".join(chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000)[: MEGABYTE // 3],
}

_any_character = st.characters(exclude_categories=()) | st.characters(categories=["Cs", "Cc", "Cf", "Mn", "Co"])
_WORDS = ["save", "a", "little", "money", "every", "month", "Interest,", "grows.", "\u200b", "<b>", "\0"]
_words = st.lists(st.sampled_from(_WORDS), max_size=400)
_pieces: st.SearchStrategy[Any] = st.sampled_from(sorted(BY_HAND.values(), key=len)[:16]) | st.text(max_size=40)

texts = st.one_of(
    st.text(_any_character, max_size=300),
    _words.map(" ".join),
    st.lists(_pieces, max_size=5).map("".join),
    st.builds(lambda piece, times: piece * times, st.text(_any_character, min_size=1, max_size=6), st.integers(1, 600)),
    st.binary(max_size=300).map(lambda content: content.decode("utf-8", "surrogateescape")),
    st.binary(max_size=300).map(lambda content: content.decode("latin-1")),
)
