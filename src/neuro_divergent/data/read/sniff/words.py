"""Names of months, weekdays and time units in several languages, and their English form for `strptime`."""

from __future__ import annotations

import re
import unicodedata

import polars as pl

_MONTHS = {
    "Jan": "jan january januar jaenner janner janv janvier ene enero gen gennaio janeiro januari",
    "Feb": "feb february februar febr fev fevr fevrier febrero febbraio fevereiro februari",
    "Mar": "mar march marz maerz mrz mars marzo marco mrt maart",
    "Apr": "apr april avr avril abr abril aprile",
    "May": "may mai mayo mag maggio maio mei",
    "Jun": "jun june juni juin junio giu giugno junho",
    "Jul": "jul july juli juil juillet julio lug luglio julho",
    "Aug": "aug august aou aout ago agosto augustus",
    "Sep": "sep sept september septembre septiembre set settembre setembro setiembre",
    "Oct": "oct october okt oktober octobre octubre ott ottobre out outubro",
    "Nov": "nov november novembre noviembre novembro",
    "Dec": "dec december dez dezember decembre dic diciembre dicembre dezembro",
}
_WEEKDAYS = {
    "Mon": "mon monday mo montag lun lundi lunes lunedi seg segunda segunda-feira ma maandag",
    "Tue": "tue tues tuesday di dienstag mar mardi martes martedi ter terca terca-feira dinsdag",
    "Wed": "wed wednesday mi mittwoch mer mercredi mie miercoles mercoledi qua quarta quarta-feira wo woensdag",
    "Thu": "thu thur thurs thursday do donnerstag jeu jeudi jue jueves gio giovedi qui quinta quinta-feira donderdag",
    "Fri": "fri friday fr freitag ven vendredi vie viernes venerdi sex sexta sexta-feira vr vrijdag",
    "Sat": "sat saturday sa samstag sonnabend sam samedi sab sabado sabato za zaterdag",
    "Sun": "sun sunday so sonntag dim dimanche dom domingo domenica zo zondag",
}
MONTHS = {word: number for number, words in enumerate(_MONTHS.values(), 1) for word in words.split()}
"""The number of each month name, in lower case without accents."""
_ENGLISH_MONTHS = {word: english for english, words in _MONTHS.items() for word in words.split()}
_ENGLISH_DAYS = {word: english for english, words in _WEEKDAYS.items() for word in words.split()}
_WORD = r"[^\W\d_]{2,}(?:-feira)?"
MOST_WORDS = 100
"""Maximum number of different words in a column of dates."""


def plain(word: str) -> str:
    """A word in lower case, without accents and without a point at its end.

    >>> plain("Févr."), plain("MÄRZ")
    ('fevr', 'marz')
    """
    bare = unicodedata.normalize("NFKD", word.strip().lower())
    return "".join(sign for sign in bare if not unicodedata.combining(sign)).rstrip(".")


def weekday_form(cell: str) -> str | None:
    """The beginning of a format whose cells begin with a weekday; None if they do not.

    >>> weekday_form("sam. 31/12/2011"), weekday_form("Saturday, December 31"), weekday_form("Dec 31")
    ('%a ', '%a, ', None)
    """
    found = re.match(rf"({_WORD})\.?(,?\s)", cell)
    return f"%a{found[2]}" if found and plain(found[1]) in _ENGLISH_DAYS else None


def in_english(text: pl.Series, form: str) -> pl.Series:
    """Cells with English names of months and weekdays, as far as the format has names."""
    weekday = form.startswith(("%a", "%A"))
    if weekday:
        text = _put(text, _named(text.str.extract(rf"^({_WORD})", 1), _ENGLISH_DAYS), "^", point=True)
    if "%b" in form or "%B" in form:
        words = (text.str.replace(rf"^{_WORD}", "") if weekday else text).str.extract_all(_WORD).explode()
        point = "%b." not in form and "%B." not in form
        text = _put(text, _named(words, _ENGLISH_MONTHS), r"[\d\s/.,_-]" if weekday else "^|[^\\pL]", point=point)
    return text


def _named(words: pl.Series, names: dict[str, str]) -> dict[str, str]:
    """The English name of each word that has one; none for a column with too many words to be dates."""
    found = words.drop_nulls().unique()
    if len(found) > MOST_WORDS:
        return {}
    return {word: names[plain(word)] for word in found.to_list() if plain(word) in names}


def _put(text: pl.Series, named: dict[str, str], before: str, *, point: bool) -> pl.Series:
    """Cells with English words in place of others."""
    for word, english in sorted(named.items(), key=lambda pair: -len(pair[0])):
        if word != english or point:
            end = r"\.?" if point else ""
            text = text.str.replace(rf"({before}){re.escape(word)}{end}($|[^\pL])", f"${{1}}{english}${{2}}")
    return text
