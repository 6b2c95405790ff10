"""What a picture says: its texts, in the order in which they are drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET


def texts(svg: str) -> list[str]:
    elements = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(element.itertext()).strip() for element in elements]
