"""The feed: one protocol by which every follower pulls from a log. Spec: design/log-and-feed.md, Feed."""
