"""Reports: tables, pictures and sections, on one self-contained page or in a terminal."""

from goalmeter._files import write_text as write_text
from goalmeter.report.blocks import Cell as Cell
from goalmeter.report.blocks import Column as Column
from goalmeter.report.blocks import Figure as Figure
from goalmeter.report.blocks import Finding as Finding
from goalmeter.report.blocks import Link as Link
from goalmeter.report.blocks import Section as Section
from goalmeter.report.blocks import Table as Table
from goalmeter.report.page import require_report_extra as require_report_extra
from goalmeter.report.page import write_report as write_report
