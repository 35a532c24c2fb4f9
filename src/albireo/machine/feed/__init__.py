"""The feed: one protocol by which every follower pulls from a log.

`Leader` serves, `Follower` pulls; both are machines without I/O. Spec: design/log-and-feed.md, Feed.
"""

from albireo.machine.feed.follower import Follower, FollowerConfig
from albireo.machine.feed.leader import Leader, LogFacts, Pull

__all__ = ["Follower", "FollowerConfig", "Leader", "LogFacts", "Pull"]
