"""A machine that has no Java, for whoever looks where one would be."""

from pathlib import Path


def without_java(tools: Path) -> dict[str, str]:
    """Variables of a process that finds its tools in the new folder `tools`, and no Java there or anywhere else."""
    tools.mkdir()
    for tool in Path("/bin").iterdir():
        if not tool.name.startswith("java"):
            (tools / tool.name).symlink_to(tool)
    return {"PATH": str(tools), "JAVA_HOME": ""}
