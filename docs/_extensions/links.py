"""Links of the site: names in code lead to the reference, links to files of the repository work.

In a page `gm.meg.targets` is a link to the description of that function. A link to a tutorial's
program leads to its page in the gallery, and one to another file of the repository downloads it.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from public_names import ROOMS, home, public
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).resolve().parents[2]
# Files of the repository that have a page of the site in their place.
PAGES = {
    "README.md": "index",
    "src/goalmeter/reflection/environments/README.md": "environments/index",
}
_NAME = re.compile(r"(?:(gm|goalmeter)\.)?([A-Za-z_]\w*(?:\.\w+)*)(?:\(.*\))?")


@cache
def homes() -> dict[str, str]:
    """Return the names that a package repeats from another, with those that are described."""
    names = {
        f"{room}.{name}": f"{home(room, name)}.{name}" for room in ROOMS for name in public(room)
    }
    return {repeated: original for repeated, original in names.items() if repeated != original}


class NamesInCode(SphinxPostTransform):
    """Turn inline code that is a public name into a link to its description."""

    default_priority = 400

    def run(self, **kwargs: Any) -> None:
        """Visit every piece of inline code that is not a link already."""
        for node in list(self.document.findall(nodes.literal)):
            if isinstance(node.parent, nodes.reference | nodes.title | addnodes.desc_signature):
                continue
            if target := self.target(node):
                label = nodes.reference("", "", node.deepcopy(), internal=True, refuri=target)
                node.replace_self(label)

    def target(self, node: nodes.literal) -> str | None:
        """Return the address of the description of a name, if there is one."""
        match = _NAME.fullmatch(node.astext())
        if not match or not (match[1] or "." in match[2] or self.env.docname == "reference"):
            return None
        room = "goalmeter." if match[1] or self.env.docname != "reference" else self.room(node)
        name = room + match[2]
        for repeated, original in homes().items():
            if name == repeated or name.startswith(f"{repeated}."):
                name = original + name.removeprefix(repeated)
        if (described := self.env.domains.python_domain.objects.get(name)) is None:
            return None
        page = self.app.builder.get_relative_uri(self.env.docname, described.docname)
        return f"{page}#{described.node_id}"

    @staticmethod
    def room(node: nodes.Node) -> str:
        """Return the package that a section of the list of names is about."""
        while not isinstance(node, nodes.section):
            node = node.parent
        return f"{node[0].astext()}."


class FilesOfRepository(SphinxTransform):
    """Make links to files outside of docs/ and to programs of the gallery work."""

    default_priority = 10

    def apply(self, **kwargs: Any) -> None:
        """Visit every link to a file."""
        page = Path(self.env.doc2path(self.env.docname))
        for node in list(self.document.findall(addnodes.download_reference)):
            path = Path(os.path.normpath(page.parent / node["reftarget"]))
            if path.parent == Path(self.env.srcdir) / "gallery":
                index = path.stem == "GALLERY_HEADER"
                self.lead_to(f"auto_gallery/{'index' if index else path.stem}", node)
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("refdomain") != "doc" or node["reftarget"] in self.env.found_docs:
                continue
            path = Path(os.path.normpath(Path(self.env.srcdir, f"{node['reftarget']}.md")))
            if page_of_site := PAGES.get(os.path.relpath(path, ROOT)):
                self.lead_to(page_of_site, node)
            elif path.is_file() and Path(self.env.srcdir) not in path.parents:
                file = os.path.relpath(path, page.parent)
                link = addnodes.download_reference("", *node.children, reftarget=file)
                link["refdoc"] = self.env.docname
                node.replace_self(link)

    def lead_to(self, docname: str, node: nodes.Element) -> None:
        """Replace a link by one to a page of the site."""
        link = addnodes.pending_xref(
            "", *node.children, refdomain="std", reftype="doc", reftarget=f"/{docname}"
        )
        link.attributes.update(refdoc=self.env.docname, refexplicit=True)
        node.replace_self(link)


def setup(app: Any) -> dict[str, bool]:
    """Register both transforms with Sphinx."""
    app.add_transform(FilesOfRepository)
    app.add_post_transform(NamesInCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
