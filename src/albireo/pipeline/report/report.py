"""The report: one HTML page that needs nothing else, from the tables alone.

Numbers are gathered with pyarrow (lake), said in words (chapters), drawn as SVG by matplotlib (charts), and put into a
template of this package. Colours after ISA-101: grey is normal, saturated colour says that something is wrong, and
never colour alone.
"""

from collections.abc import Mapping
from pathlib import Path

import jinja2

import albireo
from albireo.codec.history import Manifest
from albireo.log.files import write_aside
from albireo.pipeline.commit import TableFiles
from albireo.pipeline.errors import OutputUnusable
from albireo.pipeline.lake import opened_lake
from albireo.pipeline.report.chapters import chapters, moment


def write_report(path: Path, directory: Path, manifest: Manifest, counts: Mapping[str, int], mark: str = "") -> Path:
    """Writes the page beside the old one and puts it in its place, durable.

    Args:
        directory: holds the tables.
        counts: rows of each table.
        mark: text in the page's head that says which run of which version has made it.
    Raises:
        OutputUnusable: a table or the page's place can't be used.
    """
    lake = opened_lake(directory, manifest.complete_to_ns)
    sections = chapters(lake, manifest, counts)
    page = (
        jinja2.Environment(loader=jinja2.PackageLoader("albireo.pipeline", "templates"), autoescape=True)
        .get_template("report.html")
        .render(
            mark=mark,
            node=manifest.node,
            version=albireo.__version__,
            complete_to=moment(manifest.complete_to_ns),
            position=str(manifest.position),
            sections=sections,
        )
    )
    try:
        write_aside(TableFiles(), path, [page.encode()])
    except OSError as error:
        raise OutputUnusable(f"the report {path} can't be written ({error.strerror})", "check the disk") from error
    return path
