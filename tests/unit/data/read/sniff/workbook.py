"""A minimal .xlsx file, written by hand: the tests need no library that writes one."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from datetime import date
from xml.sax.saxutils import escape

_TYPES = """<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/xl/workbook.xml"
 ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>"""
_RELATIONS = (
    """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>"""
)
_RELATION = (
    '<Relationship Id="{}" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{}" Target="{}"/>'
)
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_STYLES = f"""<styleSheet {_MAIN}><fonts><font/></fonts><fills><fill/></fills><borders><border/></borders>
<cellStyleXfs><xf/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs>
</styleSheet>"""


def workbook(sheets: dict[str, Sequence[Sequence[object]]]) -> bytes:
    """The bytes of a workbook: text, numbers and dates in rows."""
    out = io.BytesIO()
    names = "".join(
        f'<sheet name="{escape(name)}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(sheets, start=1)
    )
    office = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    links = [_RELATION.format(f"rId{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)]
    links.append(_RELATION.format("rId99", "styles", "styles.xml"))
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("[Content_Types].xml", _TYPES)
        archive.writestr(
            "_rels/.rels", _RELATIONS.format(_RELATION.format("rId1", "officeDocument", "xl/workbook.xml"))
        )
        archive.writestr("xl/workbook.xml", f"<workbook {_MAIN} {office}><sheets>{names}</sheets></workbook>")
        archive.writestr("xl/_rels/workbook.xml.rels", _RELATIONS.format("".join(links)))
        archive.writestr("xl/styles.xml", _STYLES)
        for number, rows in enumerate(sheets.values(), start=1):
            archive.writestr(f"xl/worksheets/sheet{number}.xml", _sheet(rows))
    return out.getvalue()


def _sheet(rows: Sequence[Sequence[object]]) -> str:
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = "".join(_cell(f"{chr(65 + place)}{number}", value) for place, value in enumerate(row))
        lines.append(f'<row r="{number}">{cells}</row>')
    return f"<worksheet {_MAIN}><sheetData>{''.join(lines)}</sheetData></worksheet>"


def _cell(place: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, date):
        return f'<c r="{place}" s="1"><v>{(value - date(1899, 12, 30)).days}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}"><v>{value}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'
