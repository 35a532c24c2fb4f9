"""Parts that tests share: courses."""

from albireo.machine.message.courses import Courses
from albireo.model.tree.course import CommandCourse
from tests.parts.message_core import MessageCore


def course(core: MessageCore, command_id: str = "c1") -> CommandCourse:
    """The course that a core tells; the same that it tells of the folds that replay gives."""
    told = Courses(core.post.messages, core.folds.commands, core.folds.dim)
    found = told.find(command_id, core.log_time, core.moment.wall)
    assert found is not None
    assert found in told.latest(10, core.log_time, core.moment.wall)
    return found


def stages(one: CommandCourse) -> list[str]:
    return [step.stage for step in one.steps]
